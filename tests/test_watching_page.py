"""docs/watching.md: every command is run, and every metric that it names is there, and the other way round."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pages import blocks_of, run, text_of

from agentd.cli.watching import agent_rows
from agentd.shell.watch import mqtt_child, mqtt_teller, web_server

PAGE = text_of("docs/watching.md")
(BLOCK,) = blocks_of("docs/watching.md", "console")
COMMANDS = BLOCK.commands
SCRAPES = [command for command in COMMANDS if command.endswith("/metrics")]


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_every_command_of_the_page_works_and_every_metric_is_named(tmp_path: Path) -> None:
    # Speeds are told once there are some, half a second after the first round; each try takes about ten milliseconds.
    waiting = "for _ in $(seq 1000); do {} | grep --quiet agentd_journal_seconds && break; done"
    commands = [waiting.format(SCRAPES[0]) if command == SCRAPES[0] else "" for command in COMMANDS]
    commands = [
        f"{first}\n{command} | tee --append metrics" if command in SCRAPES else command
        for first, command in zip(commands, COMMANDS, strict=True)
    ]
    run(["set -o pipefail", *commands], tmp_path)
    found = set(re.findall(r"^# TYPE (\w+)", (tmp_path / "metrics").read_text(), re.MULTILINE))
    named = set(re.findall(r"`(agentd_\w+)`", PAGE))
    assert found <= named, f"the page does not name {found - named}"
    assert named - found <= {"agentd_epsilon_budget", "agentd_epsilon_left"}  # this one has no budget


def test_its_figures_are_those_of_the_code() -> None:
    for said in (
        f"serves {web_server.MOST_CONNECTIONS} connections, for five seconds each",
        f"takes {web_server.PER_SECOND} new ones per second, and requests of {web_server.LONGEST_REQUEST >> 10} kB",
        f"with {mqtt_child.MOST_MEMORY >> 20} MB at most",
    ):
        assert said in PAGE
    assert (web_server.ALLOWED_S, mqtt_teller.EVERY_S, agent_rows.SILENT_S) == (5.0, 5.0, 10.0)

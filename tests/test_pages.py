"""Every command of every page is run, as a stranger would type it; long ones with less to do, equal blocks once."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from pages import all_pages, blocks_of, own_test_of, run, text_of

MAKE = ["make demo", "make test"]
"""What the Makefile does; `test_readme.py` sees to that."""
BUILD = "agentd image build"
IN_CONTAINERS = "--runtime compose"

RUN = {"console", "bash", "python"}
"""Languages of what a reader runs."""
SHOWN = {"mermaid", "text", "toml", "yaml"}
"""Languages of what a reader looks at."""
NEEDS_ANOTHER_MACHINE = {
    ("docs/watching.md", "systemctl"): "installs a service, as root, on a machine with systemd",
}
"""Blocks that no test can run here, by a word of them, and why; they are marked as `sh`."""


def blocks_to_run() -> dict[str, list[str]]:
    """The blocks of all pages without tests of their own, by where each stands first."""
    found: dict[tuple[str, ...], str] = {}
    for page in all_pages():
        if own_test_of(page) is None or page == "README.md":
            for number, block in enumerate(blocks_of(page, "console")):
                if block.commands != MAKE:
                    found.setdefault(tuple(block.commands), f"{Path(page).stem}-{number}")
    return {name: list(commands) for commands, name in found.items()}


BLOCKS = blocks_to_run()


def in_containers(commands: list[str], image: str) -> list[str]:
    """The commands with the image of these sources, which a fixture has built already."""
    return [
        command.replace(IN_CONTAINERS, f"{IN_CONTAINERS} --image {image}") for command in commands if command != BUILD
    ]


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("name", BLOCKS)
def test_every_command_of_the_pages_works(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    commands = BLOCKS[name]
    assert commands, "a block of commands without one; begin each with $"
    if BUILD in commands:
        commands = in_containers(commands, request.getfixturevalue("agentd_image"))
    run(commands, tmp_path)


@pytest.mark.parametrize("page", all_pages())
def test_every_block_is_run_by_somebody_or_only_looked_at(page: str) -> None:
    for block in blocks_of(page):
        if block.language == "sh":
            excused = [word for there, word in NEEDS_ANOTHER_MACHINE if there == page and word in block.text]
            assert excused, block.text
        elif block.language in RUN - {"console"}:
            assert own_test_of(page), f"{page} has a program or a script, and no test_…_page.py that runs it"
        else:
            assert block.language in RUN | SHOWN, f"{page}: {block.language or 'no language'}"


def test_what_an_epsilon_is_worth_is_computed() -> None:
    """The table of docs/privacy-for-everyone.md: e^ε, and what fifty-fifty can become."""
    rows = re.findall(
        r"^\| ([\d.]+) \| ([\d.,]+) \| ([\d.]+) % \|$", text_of("docs/privacy-for-everyone.md"), re.MULTILINE
    )
    assert len(rows) == 5
    for epsilon, times, sure in rows:
        odds = math.exp(float(epsilon))
        assert float(times.replace(",", "")) == pytest.approx(odds, rel=0.005)
        assert float(sure) == pytest.approx(100 * odds / (1 + odds), abs=0.05)

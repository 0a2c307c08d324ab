"""docs/keys.md: its commands are run as they stand, but for the ports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from loopback import free_address
from test_readme import run

PAGE = (Path(__file__).parents[2] / "docs/keys.md").read_text(encoding="utf-8")
(BLOCK,) = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.system
def test_from_nothing_to_keys_on_two_agents(tmp_path: Path) -> None:
    places = {f"tcp://127.0.0.1:777{last}": free_address() for last in range(3)}
    commands = [line.removeprefix("$ ") for line in BLOCK.splitlines()]
    for usual, free in places.items():
        commands = [command.replace(usual, free) for command in commands]
    run(["set -o pipefail", *commands], tmp_path)
    assert {path.name for path in (tmp_path / "keys").iterdir()} >= {f"{name}.key.roster" for name in NAMES}


NAMES = ("agent-0", "agent-1", "environment")

"""docs/liars.md: its commands run, and it names every attack and every algorithm that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_readme import run

from agentd.core.attacks import SCHEMES
from agentd.core.lies import ALIASES
from agentd.core.policy import ALGORITHMS

PAGE = (Path(__file__).parents[2] / "docs" / "liars.md").read_text(encoding="utf-8")
(BLOCK,) = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
COMMANDS = [line.removeprefix("$ ") for line in BLOCK.splitlines() if line.startswith("$ ")]
FEW = "--byzantine 2 --agents 9 --edge-probability 0.5 --repetitions 1 --rounds 40"
LESS = {
    "agentd simulate": "--agents 9 --edge-probability 0.5 --byzantine 2 --rounds 40",
    "agentd up": "--agents 4 --rounds 15 --byzantine 1",
    "agentd experiment fig3": f"--attack both {FEW}",
    "agentd experiment fig4": FEW,
}


@pytest.mark.slow
@pytest.mark.system
def test_the_commands_work(tmp_path: Path) -> None:
    run(
        [f"{command} {next(less for verb, less in LESS.items() if command.startswith(verb))}" for command in COMMANDS],
        tmp_path,
    )
    assert (tmp_path / "figures" / "fig3" / "fig3.svg").exists()
    assert (tmp_path / "figures" / "fig4" / "fig4.svg").exists()


def test_every_attack_and_every_algorithm_is_on_the_page() -> None:
    named = set(re.findall(r"`([\w-]+)`", PAGE))
    assert named >= {*SCHEMES, *ALIASES, *ALGORITHMS}

"""Every command of README.md is run, as a stranger would type it; long ones with less to do."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    for block in re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
]
MAKE = {"make demo", "make test"}
LESS_TO_DO = {
    "agentd experiment": " --repetitions 2 --agents 24 --edge-probability 0.3 --rounds 40",
    "agentd audit": " --runs 200",
    "agentd check": " --seeds 20",
    "agentd soak": " --for 12s",
}
"""What is added to commands that take minutes."""


BUILD = "agentd image build"
IN_CONTAINERS = "--runtime compose"


def in_containers(commands: list[str], image: str) -> list[str]:
    """The commands with the image of these sources, which a fixture has built already."""
    return [
        command.replace(IN_CONTAINERS, f"{IN_CONTAINERS} --image {image}") for command in commands if command != BUILD
    ]


def shortened(command: str) -> str:
    for start, flags in LESS_TO_DO.items():
        if command.startswith(start):
            return command + flags
    return command


def run(commands: list[str], place: Path) -> None:
    """Run a block in one shell that stops at the first failure and then waits for what runs in the background."""
    script = "\n".join(["set -e", *map(shortened, commands), "wait"])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home = {"HOME": str(place), "XDG_STATE_HOME": str(place / "state"), "PATH": path}
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=place,
        env={**os.environ, **home},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            said, _ = shell.communicate(timeout=200)
        finally:
            with contextlib.suppress(ProcessLookupError):  # whatever a failed block left in the background
                os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, f"{script}\n{said[-3000:]}"


def test_the_two_commands_are_the_makefiles() -> None:
    assert set(BLOCKS[0]) == MAKE
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in MAKE:
        assert f"\n{command.removeprefix('make ')}:" in makefile


def test_ci_runs_the_readmes_test_command() -> None:
    assert "\nmake lint\nmake test\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("commands", BLOCKS[1:], ids=lambda commands: shlex.split(commands[0])[1])
def test_every_command_of_the_readme_works(commands: list[str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if BUILD in commands:
        commands = in_containers(commands, request.getfixturevalue("agentd_image"))
    run(commands, tmp_path)


def test_every_picture_of_the_readme_is_there() -> None:
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        assert (ROOT / picture).is_file(), picture

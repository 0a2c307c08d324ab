"""The commands of docs/dashboard.md are run as they stand there; what serves is asked, and then told to stop."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from evidence import PATIENCE_S

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "dashboard.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
COMMANDS = [[line.removeprefix("$ ") for line in block.splitlines()] for block in BLOCKS]


class Shell:
    """Somebody who types the commands in one directory, each server in a terminal of its own."""

    def __init__(self, place: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._about = {"cwd": place, "env": {**os.environ, "PATH": path, "XDG_STATE_HOME": str(place / "state")}}
        self.serving: list[subprocess.Popen[str]] = []

    def run(self, command: str) -> None:
        words = shlex.split(command)
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **self._about)  # type: ignore[call-overload]
        timed_out = words[0] == "curl" and "--max-time" in words and done.returncode == 28
        assert done.returncode == 0 or timed_out, f"{command}\n{done.stdout}\n{done.stderr}"

    def serve(self, command: str) -> str:
        """Start it, and tell the address that it printed."""
        process = subprocess.Popen(
            shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **self._about
        )  # type: ignore[call-overload]
        self.serving.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("dashboard: "):
                return str(line.split()[1])
        raise AssertionError(f"{command} printed no address")

    def stop(self) -> None:
        """Ctrl-C, in each terminal."""
        for process in self.serving:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE_S)
        self.serving.clear()


def type_in(shell: Shell, commands: list[str]) -> None:
    for command in commands:
        words = shlex.split(command)
        if "--dashboard" in words or words[:2] == ["agentd", "dashboard"]:
            shell.stop()
            url = shell.serve(command)
            assert ("#token=" in url) == ("--allow-chaos" in words)
            where = url.partition("#")[0] + "api/runs"
            with urllib.request.urlopen(where, timeout=PATIENCE_S) as answer:  # noqa: S310 - a server of ours
                assert b'"runs"' in answer.read()
        else:
            shell.run(command)


QUICK = 1
"""The block that `make test` types in; `make test-long` types in all of them."""


@pytest.mark.parametrize(
    "number",
    [number if number == QUICK else pytest.param(number, marks=pytest.mark.long) for number in range(len(COMMANDS))],
)
def test_every_command_of_the_page_works(number: int, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    try:
        type_in(shell, COMMANDS[number])
    finally:
        shell.stop()


def test_every_picture_of_the_page_is_there_and_small() -> None:
    named = re.findall(r"\((screenshots/[\w-]+\.png)\)", PAGE)
    there = {f"screenshots/{path.name}" for path in (ROOT / "docs" / "screenshots").glob("*.png")}
    assert set(named) == there
    assert all((ROOT / "docs" / name).stat().st_size < 300_000 for name in named)

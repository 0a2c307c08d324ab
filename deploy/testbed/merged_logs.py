"""The logs of a testbed, merged by time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from agentd.errors import SettingsError
from deploy.plan.names import ENVIRONMENT, ENVIRONMENT_LOG
from deploy.plan.plan import log_name
from deploy.testbed.registry import Testbed

FOLLOW_EVERY_S = 0.25
_BLOCK = 64 << 10
_SHOWN_FIRST = ("timestamp", "level", "agent", "role", "event", "run")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log."""

    text: str

    @property
    def fields(self) -> dict[str, Any]:
        """What it says; empty where it is not JSON."""
        try:
            said = json.loads(self.text)
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}

    @property
    def time(self) -> str:
        """When it was written; ISO times sort as text."""
        return str(self.fields.get("timestamp", ""))

    def readable(self) -> str:
        """The line for people."""
        said = self.fields
        if not said:
            return _printable(self.text)
        who = f"agent {said['agent']}" if "role" not in said and "agent" in said else str(said.get("role", ""))
        rest = " ".join(f"{name}={value}" for name, value in said.items() if name not in _SHOWN_FIRST)
        when = self.time.partition("T")[2].rstrip("Z")[:12]
        return _printable(f"{when:12} {who:12} {said.get('level', ''):7} {said.get('event', '')} {rest}".rstrip())


def log_files(testbed: Testbed, who: Sequence[str]) -> list[Path]:
    """The logs of these agents (by number, or `environment`); of all, where nobody is named."""
    names = list(who) or [*map(str, range(testbed.agents)), ENVIRONMENT]
    return [testbed.run_dir / _log_of(name, testbed.agents) for name in names]


def last_lines(files: Sequence[Path], count: int) -> list[Line]:
    """The newest lines of all files together, oldest first."""
    lines = [line for path in files for line in _tail(path, count)]
    lines.sort(key=lambda line: line.time)
    return lines[-count:] if count else []


def new_lines(files: Sequence[Path], testbed_runs: Iterator[bool]) -> Iterator[Line]:
    """Lines as they are written, from now on, until the testbed has ended and all was read."""
    opened = [path.open("rb") for path in files if path.is_file()]
    for file in opened:
        file.seek(0, 2)
    unfinished = [b""] * len(opened)
    for runs in testbed_runs:
        found = [line for number, file in enumerate(opened) for line in _whole_lines(file, unfinished, number)]
        yield from sorted(found, key=lambda line: line.time)
        if not runs:
            break
        time.sleep(FOLLOW_EVERY_S)
    for file in opened:
        file.close()


def _whole_lines(file: IO[bytes], unfinished: list[bytes], number: int) -> Iterator[Line]:
    *lines, unfinished[number] = (unfinished[number] + file.read()).split(b"\n")
    return (Line(line.decode(errors="replace")) for line in lines)


def _log_of(name: str, agents: int) -> str:
    if name == ENVIRONMENT:
        return ENVIRONMENT_LOG
    number = name.removeprefix("agent-")
    if number.isascii() and number.isdigit() and int(number) < agents:
        return log_name(int(number))
    raise SettingsError(f"there is no {name!r}; agents are numbered 0…{agents - 1}, and there is the {ENVIRONMENT}")


def _tail(path: Path, count: int) -> list[Line]:
    """The last lines of a file, read from its end."""
    try:
        with path.open("rb") as file:
            place = file.seek(0, 2)
            content = b""
            while place and content.count(b"\n") <= count:
                step = min(_BLOCK, place)
                place = file.seek(place - step)
                content = file.read(step) + content
    except OSError:
        return []
    lines = content.decode(errors="replace").splitlines()
    return [Line(line) for line in lines[-count:]] if count else []


def _printable(text: str) -> str:
    """Without control characters: what a peer made an agent log must not drive a terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)

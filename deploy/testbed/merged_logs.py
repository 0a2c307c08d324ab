"""The logs of a testbed, merged by time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from agentd.errors import SettingsError
from agentd.runs.directory import finite
from agentd.runs.status import APART
from agentd.untrusted import decode_json, open_in, printable
from deploy.plan.names import ENVIRONMENT, ENVIRONMENT_LOG
from deploy.plan.plan import log_name, own_log_name
from deploy.testbed.registry import Testbed

FOLLOW_EVERY_S = 0.25
LONGEST_LINE = 16 << 10
"""Bytes of a line that are shown."""
MOST_READ = 16 << 20
"""Bytes of one log that are read at once."""
_BLOCK = 64 << 10
_SHOWN_FIRST = frozenset({"timestamp", "level", "agent", "role", "event", "run"})


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log."""

    text: str

    @property
    def fields(self) -> dict[str, Any]:
        """What it says; empty where it is not JSON."""
        try:
            said = decode_json(self.text.encode(errors="replace"))
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
            return printable(self.text)
        is_agents = "role" not in said and "agent" in said  # else the agent is whom the line is about
        who = f"agent {said['agent']}" if is_agents else str(said.get("role", ""))
        first = _SHOWN_FIRST if is_agents else _SHOWN_FIRST - {"agent"}
        rest = " ".join(f"{name}={value}" for name, value in said.items() if name not in first)
        when = self.time.partition("T")[2].rstrip("Z")[:12]
        level, event = str(said.get("level", "")), said.get("event", "")
        return printable(f"{when:12} {who:12} {level:7} {event} {rest}".rstrip())

    def as_json(self) -> str:
        """The line for programs: JSON whatever it is, in ASCII, so that a terminal shows it as it is."""
        return json.dumps(finite(self.fields or {"text": self.text}))


def log_files(testbed: Testbed, who: Sequence[str]) -> list[Path]:
    """The logs of these agents (by number, or `environment`); of all, where nobody is named."""
    names = list(who) or [*map(str, range(testbed.agents)), ENVIRONMENT]
    found = ([testbed.run_dir / log for log in _logs_of(name, testbed.agents)] for name in names)
    return [next(filter(os.path.lexists, places), places[0]) for places in found]


def last_lines(files: Sequence[Path], count: int) -> list[Line]:
    """The newest lines of all files together, oldest first."""
    newest: list[Line] = []
    for path in files if count else ():  # one after the other: no more is held than is shown, and one file's
        newest = sorted([*newest, *_tail(path, count)], key=lambda line: line.time)[-count:]
    return newest


def new_lines(files: Sequence[Path], testbed_runs: Iterator[bool]) -> Iterator[Line]:
    """Lines as they are written, from now on, until the testbed has ended and all was read."""
    opened = [file for file in map(_opened, files) if file is not None]
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
    *lines, rest = (unfinished[number] + file.read(MOST_READ)).split(b"\n")
    unfinished[number] = rest[: LONGEST_LINE + 1]  # one that is too long is cut, whether or not it ends
    return map(_line, lines)


def _logs_of(name: str, agents: int) -> list[str]:
    """Where its log is: with the others, or, while it runs in a container, in a directory of its own."""
    if name == ENVIRONMENT:
        return [ENVIRONMENT_LOG, f"{APART}/{ENVIRONMENT_LOG}"]
    number = name.removeprefix("agent-")
    if number.isascii() and number.isdigit() and len(number) <= 5 and int(number) < agents:
        return [log_name(int(number)), own_log_name(int(number))]
    raise SettingsError(f"there is no {name!r}; agents are numbered 0…{agents - 1}, and there is the {ENVIRONMENT}")


def _tail(path: Path, count: int) -> list[Line]:
    """The last lines of a file, read from its end, and of that no more than MOST_READ."""
    file = _opened(path)
    if file is None:
        return []
    with file:
        place = file.seek(0, 2)
        least = max(0, place - MOST_READ)
        blocks: list[bytes] = []
        ends = 0
        while place > least and ends <= count:
            step = min(_BLOCK, place - least)
            place = file.seek(place - step)
            blocks.append(file.read(step))
            ends += blocks[-1].count(b"\n")
    lines = b"".join(reversed(blocks)).removesuffix(b"\n").split(b"\n")
    return [_line(line) for line in lines[-count:] if line]


def _opened(path: Path) -> IO[bytes] | None:
    """A log, if it is a plain file: a container could have put anything in its place."""
    try:
        return os.fdopen(open_in(path.parent, path.name), "rb")
    except OSError:
        return None


def _line(said: bytes) -> Line:
    cut = said[:LONGEST_LINE].decode(errors="replace")
    return Line(cut + "…" if len(said) > LONGEST_LINE else cut)

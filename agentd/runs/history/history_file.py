"""RUN/history.jsonl: a line for each look at a run, never more than a bound of them.

While there is room every look is kept. When there is none every second one goes, and from then on half as many are
kept: so a run of a week has as many lines as one of ten minutes, evenly spread over it.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from agentd.files import append_text, replace_text
from agentd.runs.history.look_back import LookBack, from_json
from agentd.runs.status import APART
from agentd.untrusted import decode_json, read_in

FILE = "history.jsonl"
MOST_LOOKS = 400
LONGEST_HISTORY = 16 << 20
"""Bytes of a history that is read: a thousand agents fill a third of it."""


class HistoryFile:
    """The history of one run, which one process writes."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / FILE
        self._lines: list[str] = []
        """As they stand in the file; text takes a tenth of the memory that the values would."""
        self._every = 1
        self._offered = 0

    def take_up(self) -> None:
        """Go on with what is there; half a line that a crash left is dropped."""
        self._lines = [_line(look) for look in read_history(self._path.parent)]
        if self._lines:
            self._write_all()

    def keep(self, look: LookBack, *, last: bool = False) -> None:
        """Keep a look if it is its turn, the last one always; OSError where there is no room on the disk."""
        turn = self._offered % self._every == 0
        self._offered += 1
        if not turn and not last:
            return
        self._lines.append(_line(look))
        if len(self._lines) <= MOST_LOOKS:
            append_text(self._path, self._lines[-1])
            return
        self._lines = self._lines[::2]  # an odd number of them: first and last stay
        self._every, self._offered = 2 * self._every, 1
        self._write_all()

    def _write_all(self) -> None:
        replace_text(self._path, "".join(self._lines))


def write_history(run_dir: Path, looks: list[LookBack]) -> None:
    """The history of a run that is over."""
    replace_text(run_dir / FILE, "".join(map(_line, looks)))


def read_history(run_dir: Path) -> tuple[LookBack, ...]:
    """Every look that can be read, in order of time, and none that goes back; empty where there are none."""
    content = b""
    for name in (FILE, f"{APART}/{FILE}"):
        try:
            content = read_in(run_dir, name, LONGEST_HISTORY)
            break
        except (OSError, ValueError):
            continue
    looks: list[LookBack] = []
    for line in content.splitlines()[: 2 * MOST_LOOKS]:
        with contextlib.suppress(ValueError):
            look = from_json(decode_json(line))
            if not looks or look.round >= looks[-1].round:
                looks.append(look)
    return tuple(looks[:MOST_LOOKS])


def _line(look: LookBack) -> str:
    return json.dumps(look.to_json(), ensure_ascii=False, separators=(",", ":")) + "\n"

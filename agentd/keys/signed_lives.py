"""In which lives an agent has signed, written down where its keys or its state are before the first signature of each.

Two statements signed for one trial of one life prove their signer a liar. An agent without its state cannot know what
it has signed; so it never begins again a life in which it has, whoever gives it out (an environment that forgot, a
clock that went back).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from agentd.core.message import MAX_INCARNATION
from agentd.errors import ConfigurationError
from agentd.files import make_directory, replacing
from agentd.keys.strict_json import exactly, strict_json
from agentd.untrusted import read_named

MOST_RUNS = 256
"""Of so many runs the last life is remembered."""
_LONGEST_NOTE = 64 << 10


class SignedLives:
    """The last life in each of the last runs in which something was signed with these keys."""

    def __init__(self, notes: tuple[Path, ...]) -> None:
        """Of several notes the latest life counts, and one must be writable: keys may be mounted."""
        self._notes = notes

    def require_unsigned(self, run: bytes, incarnation: int) -> None:
        """Refuse to begin a life in which, or after which, something was signed already; ConfigurationError."""
        last = self._remembered().get(run.hex())
        if last is not None and incarnation <= last:
            raise ConfigurationError(
                f"life {incarnation} of run {run.hex()} was to begin, but {self._notes[0]} says that these keys signed "
                f"in life {last} already, and two signatures for one trial would prove a lie. The environment has "
                "forgotten pulls, or a clock went back: start the agent from its newest --state, or begin another run"
            )

    def signs(self, run: bytes, incarnation: int) -> None:
        """Write down that the first signature of a life is about to be made."""
        lives = self._remembered()
        if lives.get(run.hex(), -1) >= incarnation:
            return
        lives.pop(run.hex(), None)
        kept = [*lives.items()][1 - MOST_RUNS :]
        text = json.dumps({"lives": [[*each] for each in (*kept, (run.hex(), incarnation))]})
        faults = [fault for note in self._notes if (fault := _write(note, text)) is not None]
        if len(faults) == len(self._notes):
            raise ConfigurationError(
                f"cannot write {self._notes[0]}, which says in which life these keys have signed: {faults[0]}; keep it "
                "elsewhere (beside --roster-note), or the keys where their owner can write"
            )

    def _remembered(self) -> dict[str, int]:
        lives: dict[str, int] = {}
        for note in self._notes:
            for run, incarnation in _read(note):
                lives[run] = max(incarnation, lives.get(run, -1))
        return lives


def _write(note: Path, text: str) -> str | None:
    """Why it could not be written, and be on disk; None: it is."""
    try:
        make_directory(note.parent)
        with replacing(note) as file:
            file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as fault:
        return fault.strerror or "it cannot be written"
    return None


def _read(note: Path) -> list[tuple[str, int]]:
    try:
        pairs = exactly(strict_json(read_named(note, _LONGEST_NOTE)), ("lives",), "it")["lives"]
        if type(pairs) is not list or len(pairs) > MOST_RUNS:
            raise ValueError(f"lives is no list of at most {MOST_RUNS}")
        return list(map(_life, pairs))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise ConfigurationError(
            f"{note} should say in which life these keys have signed: {why}; see who changed it, and remove it only "
            "where no run goes on in which they have"
        ) from None


def _life(pair: object) -> tuple[str, int]:
    if type(pair) is list and len(pair) == 2:
        run, incarnation = pair
        if type(run) is str and type(incarnation) is int and 0 <= incarnation <= MAX_INCARNATION:
            return run, incarnation
    raise ValueError("one of its lives is none")

"""Reads an agent's state without changing it, while the agent runs or after."""

from __future__ import annotations

import struct
from pathlib import Path

from agentd.core.policy import ALGORITHMS
from agentd.core.privacy.ledger import Ledger
from agentd.core.saved_state import SavedState
from agentd.errors import ConfigurationError, StateUnusable
from agentd.shell.state.faults import damaged, too_new, why
from agentd.shell.state.state_file import BLOCK, DATABASE, LONGEST, SCHEMA, Found, found_in, program_of, schema_of
from agentd.untrusted import read_in

__all__ = ["DATABASE", "found", "is_schema_1", "ledger_of", "read_state"]

_SQLITE = b"SQLite format 3\0"
_LOOKS = 20
"""At a file that is being written: half of a slot is there for an instant only."""


def read_state(directory: Path) -> SavedState:
    """What a state directory holds, of this schema or of one before."""
    try:
        saved = _read(directory)
    except (FileNotFoundError, NotADirectoryError):
        raise StateUnusable(f"{directory} holds no agent's state: there is no {DATABASE} in it") from None
    except (OSError, ValueError) as fault:
        raise StateUnusable(f"cannot read the state in {directory}: {why(fault)}") from None
    if saved is None:
        raise StateUnusable(f"the agent of {directory} has not joined a run yet")
    return saved


def _read(directory: Path) -> SavedState | None:
    data = b""
    for looks in range(1, _LOOKS + 1):
        before, data = data, read_in(directory, DATABASE, LONGEST)
        if is_schema_1(data):
            from agentd.shell.state.schema_1 import read_beside

            return read_beside(directory)
        try:
            held = found(data, directory)
        except StateUnusable:
            if looks == _LOOKS or data == before:  # nobody is writing it
                raise
            continue
        return held.saved if held is not None else None
    return None


def is_schema_1(data: bytes) -> bool:
    """Whether these are the bytes of a SQLite database."""
    return data.startswith(_SQLITE)


def found(data: bytes, directory: Path) -> Found | None:
    """What the bytes of a state hold; None where no run was joined yet."""
    schema = schema_of(data)
    if schema is None:
        if len(data) <= BLOCK and not any(data):
            return None
        raise damaged(directory, "its first block was altered")
    if schema > SCHEMA:
        raise too_new(directory, schema, program_of(data))
    try:
        return found_in(data)
    except (ValueError, KeyError, TypeError, OverflowError, struct.error) as fault:
        raise damaged(directory, why(fault)) from None


def ledger_of(saved: SavedState) -> Ledger:
    """The ledger as the agent itself keeps it, with what may have been released and lost."""
    algorithm = ALGORITHMS[saved.about["algorithm"]]
    if not algorithm.noised:
        raise ConfigurationError(f"{algorithm.name} keeps no ledger")
    ledger = Ledger(disjoint=algorithm.disjoint)
    for release, _ in saved.releases:
        ledger.take_back(release)
    return ledger

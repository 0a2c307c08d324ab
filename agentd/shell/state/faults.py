"""What to say where a state cannot be used."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from agentd import __version__
from agentd.errors import StateUnusable
from agentd.shell.state.state_file import SCHEMA


def damaged(directory: Path, reason: str) -> StateUnusable:
    """Of a file that cannot be trusted."""
    return StateUnusable(
        f"the state in {directory} is damaged ({reason}), so what was released is not known; nothing is sent. "
        "Move it away to start over as a new incarnation, and count what its ledger said last as spent"
    )


def too_new(directory: Path, schema: int, program: str) -> StateUnusable:
    """Of a file that a later program wrote."""
    return StateUnusable(
        f"the state in {directory} has schema {schema}, written by agentd {program}, and this is agentd {__version__}, "
        f"which knows schemas up to {SCHEMA}; nothing is changed. Start the newer program, or name another place with "
        "--state"
    )


def why(fault: Exception) -> str:
    """The reason in a few words."""
    if isinstance(fault, OSError) and fault.errno:
        return fault.strerror or os.strerror(fault.errno)
    text = str(fault)
    return os.strerror(errno.ENOSPC) if text == "database or disk is full" else text

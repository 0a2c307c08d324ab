"""What an agent holds against a neighbour: values only, for whoever counts them and whoever shows them.

`core.rounds` counts them (`Blame.times`: so often since the agent's start), REPORT carries them to the environment, and
`agentd status` shows who says what of whom. Nothing is decided by a blame that came over the wire: a liar may blame
anybody. What an agent itself does about a neighbour follows from what it saw, never from what others say.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Why(IntEnum):
    """What a neighbour does; the numbers are on the wire, so they are only ever appended."""

    SLOW = 1
    """It came so late so often that rounds went on without it."""
    FLOOD = 2
    """It sent more than an honest neighbour can."""
    WRONG = 3
    """It sent what cannot be read, or is of another version, run, sender or topic."""
    AHEAD = 4
    """It claimed a round that the run cannot be in."""
    FORGED = 5
    """It handed over what no honest neighbour can: unsigned where signatures are required, or a forgery."""

    @property
    def label(self) -> str:
        """As logs, files and people are told."""
        return self.name.lower()


class Blame(NamedTuple):
    """One neighbour, one reason, and how often since the agent's start."""

    neighbour: int
    why: Why
    times: int

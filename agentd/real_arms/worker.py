"""What every kind of real arms is: something that blocks until a pull has paid, or says why it did not."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Protocol

LONGEST_ANSWER = 64
"""Characters of a number; no float takes half as many."""


class Reason(StrEnum):
    """Why a pull counts as one that paid the least."""

    LATE = "late"
    """Nothing came before the deadline."""
    BUSY = "busy"
    """Everybody who could be asked was still at earlier pulls."""
    ENDED = "ended"
    """The command ended, or could not be started, or the function failed."""
    UNREACHABLE = "unreachable"
    """Nobody took the request."""
    REFUSED = "refused"
    """The endpoint answered with something else than 200."""
    TOO_LONG = "too-long"
    """An answer without end."""
    UNREADABLE = "unreadable"
    """An answer that is no number, or not to this pull."""
    RANGE = "range"
    """A number outside the bounds, or none of the real ones."""


class ArmFault(Exception):
    """A pull that paid nothing that can be used; it is counted by its reason. No text of one tells a reward."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class Worker(Protocol):
    """Asks one pull at a time, in a thread of its own."""

    def begin(self) -> None:
        """Make ready for the first pull; what fails is found out then."""
        ...

    def pull(self, arm: int, trial: int, deadline_s: float, agent: int | None = None) -> float:
        """What the pull paid; blocks until then, or until the deadline (of `time.monotonic`) and raises `ArmFault`.

        The same trial is never asked for with another arm. `agent`: whose pull it is, where several share the arms.
        """
        ...

    def close(self) -> None:
        """End what was started; called from another thread, and perhaps while a pull is under way."""
        ...


def number(text: str) -> float:
    """The number that an answer is; `ArmFault` where it is none."""
    try:
        if len(text) <= LONGEST_ANSWER and text.isascii() and "_" not in text:
            return float(text)
    except ValueError:
        pass
    raise ArmFault(Reason.UNREADABLE, "the answer is not a number")


def within(reward: float, low: float, high: float) -> float:
    """A reward as a share of its bounds, in [0, 1]; `ArmFault` where it lies outside."""
    if not (math.isfinite(reward) and low <= reward <= high):
        raise ArmFault(Reason.RANGE, f"a reward outside of {low:g}…{high:g}")
    return min(1.0, max(0.0, (reward - low) / (high - low)))

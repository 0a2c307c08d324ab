"""Samples that count and that nobody has vouched for yet.

Each counts for itself, so each is to be vouched for or taken back. But each names, in what its origin signed, the one
before (its link): who has verified one has verified those behind it as well, as long as none is missing. So one
signature in k is verified, and one more for each that was lost. A link only saves work: what it does not name is
verified by its own signature, and only that can tell it is forged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agentd.core.message import Batch
from agentd.core.signed.notary import Said

Life = tuple[int, int]
"""Origin and incarnation."""


class Waiting(NamedTuple):
    """A sample that counts and is to be vouched for."""

    trial: int
    since: int
    said: Said
    batch: Batch
    row: int

    def message(self) -> Batch:
        """It alone."""
        return self.batch.rows(np.array([self.row]))


class Chain:
    """Who waits, of all origins."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._waiting: dict[Life, list[Waiting]] = {}
        self._hurried: set[int] = set()

    def wait(self, life: Life, sample: Waiting) -> None:
        """This counts from now on."""
        self._waiting.setdefault(life, []).append(sample)

    def take(self, life: Life, before: int | None = None) -> list[Waiting]:
        """Those of a life, or those of them before a trial, newest first; they wait no more."""
        waiting = self._waiting.pop(life, [])
        if before is not None and (newer := [each for each in waiting if each.trial >= before]):
            self._waiting[life] = newer
            waiting = [each for each in waiting if each.trial < before]
        return sorted(waiting, key=lambda each: -each.trial)

    def take_all(self, origin: int) -> list[Waiting]:
        """Those of all lives of an origin."""
        lives = [life for life in self._waiting if life[0] == origin]
        return [each for life in lives for each in self.take(life)]

    def hurry(self, origin: int) -> None:
        """Let those of an origin be looked at now."""
        self._hurried.add(origin)

    def overdue(self, now: int) -> list[Life]:
        """Lives of which one has counted for as long as it may; what counts first stands first."""
        late = now - self._every
        found = [life for life, (first, *_) in self._waiting.items() if first.since <= late or life[0] in self._hurried]
        self._hurried.clear()
        return found

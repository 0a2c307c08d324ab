"""Kinds whose newest body says all that the older ones said, and the memory that holds newer ones against it."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies.kind import Continued, Extent, Kind, Lie, Mask, Memory, all_of
from agentd.core.message import Batch, Cells, Columns, News, cells_of
from agentd.core.origins import grown
from agentd.core.sequel import follows
from agentd.core.terms import Terms


class Cumulative(Kind):
    """A kind whose newest message of an origin says all that its older ones said: nothing is ever taken back."""

    tells_its_age = True

    @abstractmethod
    def continues(self, grown_by: Cells) -> Mask:
        """Per arm and message, whether what it exceeds the one before by can be what an honest origin did since."""

    def all_honest(self, batch: Batch, grown_by: Cells, terms: Terms) -> bool:
        """Whether all messages are honest, by themselves and as continuations; every round of every agent asks."""
        return all_of(self.continues(grown_by)) and all_of(self.plausible(batch, terms))

    def memory(self, terms: Terms) -> Memory:
        """The newest body of each origin."""
        return History(self, terms)


class History(Memory):
    """The newest body per origin of one cumulative kind, against which newer ones are held.

    In lockstep the same origins say something new in every round. What they said last is then kept as it came, and goes
    into the table only when others come.
    """

    def __init__(self, kind: Cumulative, terms: Terms) -> None:
        super().__init__(kind, terms)
        self._all_honest = kind.all_honest
        self._continues = kind.continues
        self._trial = np.zeros(0, dtype=np.int64)
        self._cells = cells_of(kind, np.zeros((0, kind.width(terms.arms)), dtype=np.int64))
        self._last: tuple[Batch, Columns] | None = None
        self._number = 0  # of the round whose winners these are
        self._examined: News | None = None

    def accepts_all(self, batch: Batch, rows: Columns) -> bool:
        """Whether each is honest, by itself and as a continuation, and the only new one of its origin.

        As they nearly always are. What was worked out for the answer is kept for `continued_by`, which comes next.
        """
        self._examined = self._examine(batch, rows) if len(batch.head) else None
        return self._examined is not None or not len(batch.head)

    def _examine(self, batch: Batch, rows: Columns) -> News | None:
        if self._last is not None and follows(batch.sequel, self._number):  # the same origins, in the same order
            trial, before = self._last[0].trial, self._last[0].cells
        else:
            self._put_away()
            if np.bincount(rows).max() > 1:
                return None
            self._make_room(rows)
            trial, before = self._trial[rows], self._cells.take(rows, axis=2)
        if not all_of(batch.trial > trial):
            return None
        grown_by: Cells = batch.cells - before
        return News(batch, rows, before, grown_by) if self._all_honest(batch, grown_by, self._terms) else None

    def continued_by(self, batch: Batch, rows: Columns) -> Continued:
        """Which are honest, and of these the newest of each origin, which is noted."""
        examined, self._examined = self._examined, None
        if examined is not None and examined.batch is batch:
            self._note(batch, rows)
            return Continued(examined, None)
        newer, honest = self._held_against(batch, rows)
        among = (honest & newer).nonzero()[0]
        np.maximum.at(self._trial, rows[among], batch.trial[among])
        newest: NDArray[np.intp] = among[self._trial[rows[among]] == batch.trial[among]]
        batch, rows = batch.rows(newest), rows[newest]
        before = self._cells.take(rows, axis=2)
        self._note(batch, rows)
        return Continued(News(batch, rows, before, batch.cells - before), honest)

    def extent_of(self, batch: Batch, rows: Columns) -> Extent:
        """A body says all that those of earlier trials said, so that the trial tells how much it says."""
        _, honest = self._held_against(batch, rows)
        return Extent(np.zeros(len(rows), dtype=np.int64), batch.trial, self._trial[rows], honest)

    def _held_against(self, batch: Batch, rows: Columns) -> tuple[Mask, Mask]:
        """Which are newer than what is held of their origins, and which are older or continue it."""
        self._put_away()
        self._make_room(rows)
        newer = batch.trial > self._trial[rows]
        return newer, self._continues(batch.cells - self._cells.take(rows, axis=2)).all(axis=0) | ~newer

    def forget(self, rows: Columns) -> Cells:
        """As if nothing had been heard of these origins; what was."""
        self._examined = None
        self._put_away()
        rows = rows[rows < len(self._trial)]
        held = self._cells.take(rows, axis=2)
        self._trial[rows] = 0
        self._cells[:, :, rows] = 0
        return held

    def _note(self, batch: Batch, rows: Columns) -> None:
        self._last, self._number = (batch, rows), batch.sequel.number if batch.sequel is not None else 0

    def _put_away(self) -> None:
        if self._last is not None:
            batch, rows = self._last
            self._trial[rows] = batch.trial
            self._cells[:, :, rows] = batch.cells
            self._last, self._number = None, 0

    def _make_room(self, rows: Columns) -> None:
        size = int(rows.max(initial=-1)) + 1
        if size > len(self._trial):
            size += size // 8 + 8
            self._trial = grown(self._trial, size)
            room = np.zeros((*self._cells.shape[:2], size), dtype=np.int64)
            room[:, :, : self._cells.shape[2]] = self._cells
            self._cells = room


def bend_sums(kind: Kind, body: Columns, lie: Lie) -> None:
    """Replace sums, the last field of every arm, by as many pulls of the lie as the field before claims."""
    width = len(kind.fields)
    pulls, sums = body[:, width - 2 :: width], body[:, width - 1 :: width]
    for arm in range(pulls.shape[1]):
        mean = sums[:, arm] // np.maximum(pulls[:, arm], 1)
        sums[:, arm] = pulls[:, arm] * lie(mean)

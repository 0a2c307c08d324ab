"""What comes so late that its place in the ring belongs to a newer trial: whether it still says something.

The ring of `core.gossip` tells messages apart by their trial, and a cell that has gone on to a newer trial cannot say
whether the older one was heard. Where a kind is cumulative, something else can: how much a body says. SEALED tells of
one arm at a time that its origin released N pulls of it; if N is larger than in the record held of this origin and arm,
then no copy of it was ever counted, for N never shrinks, and it is worth as much as on the first day. So what a link
stored during a cut counts when the link is back, however long that took. The kinds that tell of all arms at once say in
every trial all that they said before: there a newer trial is known, and the older one is worth nothing. A kind whose
bodies depend on nothing (SAMPLE) cannot tell at all; its latecomers are dropped (`stale`) rather than perhaps counted
twice.

**Most life wins here, too.** Per origin and subject (the arm) the amount and the most life are remembered of what came
late and travelled on. A copy that says as much with more life travels on again, and counts no more. What was counted
when it was in time has left its life in the ring, which has forgotten it: its first late copy travels on once more. So
each travels from here at most γ times, and whoever is within γ hops is reached. Of an origin and subject only what says
most is looked at: who knows more needs no less.

The memory is bounded: the oldest entry makes room for the newest, and what was forgotten may travel once more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies.kind import Extent
from agentd.core.message import Batch, Columns

MAX_REMEMBERED = 1 << 14
"""Origins and subjects of which the most life is remembered."""

Indices = NDArray[np.intp]


class Admitted(NamedTuple):
    """What `Latecomers.admit` lets through; the others say nothing new."""

    fresh: Indices
    """Who counts: it says more than what is held."""
    relayed: Indices
    """Who travels on."""
    useless: int
    """How many do neither."""


class Latecomers:
    """The amount and the most life of what came late and travelled on, per kind, origin and subject."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._most = most
        self._travelled: dict[tuple[int, int, int], tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._travelled)

    def forget(self) -> None:
        """Some origin has a new life, in which it says other things; what is forgotten may travel once more."""
        self._travelled.clear()

    def admit(self, batch: Batch, rows: Columns, extent: Extent) -> Admitted:
        """Which of some late messages of one kind count and travel on; their origins have these rows."""
        useful = (extent.amount >= extent.held).nonzero()[0]
        best = useful[_says_most(rows[useful], extent.subject[useful], extent.amount[useful], batch.life[useful])]
        counts = extent.amount[best] > extent.held[best]
        travels = np.zeros(len(best), dtype=np.bool_)
        subjects = zip(rows[best].tolist(), extent.subject[best].tolist(), strict=True)
        said = zip(extent.amount[best].tolist(), batch.life[best].tolist(), strict=True)
        for place, ((row, subject), amount_and_life) in enumerate(zip(subjects, said, strict=True)):
            travels[place] = self._travels((batch.kind.tag, row, subject), amount_and_life)
        return Admitted(best[counts], best[travels], len(rows) - int(np.count_nonzero(counts | travels)))

    def _travels(self, subject: tuple[int, int, int], amount_and_life: tuple[int, int]) -> bool:
        """Whether a copy has hops left and says more, or as much with more life, than the last one that travelled."""
        if amount_and_life[1] == 1 or amount_and_life <= self._travelled.get(subject, _NEVER):
            return False
        self._travelled.pop(subject, None)  # so that it is the newest again
        self._travelled[subject] = amount_and_life
        if len(self._travelled) > self._most:
            del self._travelled[next(iter(self._travelled))]
        return True


_NEVER = (-1, 0)


def _says_most(rows: Columns, subject: Columns, amount: Columns, life: Columns) -> Indices:
    """Of each origin and subject who says most, with the most life, and before its equals; in the order they came."""
    order = np.lexsort((-np.arange(len(rows)), life, amount, subject, rows))
    last = np.ones(len(rows), dtype=np.bool_)
    last[:-1] = (rows[order][:-1] != rows[order][1:]) | (subject[order][:-1] != subject[order][1:])
    best: Indices = np.sort(order[last])
    return best

"""Who hears what: lifetime, duplicates, relay.

Theory of operation
-------------------

**Life counts hops.** A message leaves its origin with life γ. Whoever receives it with life l > 1 forwards it once,
with life l−1, in the next frame. A copy that arrives over a path of h hops therefore arrives with life γ−h+1, and
exists only if h ≤ γ. So the message reaches the agents for which *some* path of at most γ hops exists, which is the
ball of radius γ around the origin: exactly that, no agent more, no agent less.

**More life wins.** The last claim needs care. On unequal paths (or when frames are late) the first copy an agent sees
may be one that travelled further than necessary. If later copies were simply dropped as duplicates, the agents behind
this one would be reached only over the longer path, and some in the ball would never be. So a key remembers the most
life it was seen with; a copy with more life is forwarded again, but it is *counted* only the first time. In the end
the best life at an agent at distance d is γ−d+1 whatever the delays were: by induction along a shortest path each
agent on it at some time holds the best possible copy, and forwards it when it comes.

**Keys.** A message is (origin, incarnation, trial). An origin that lost its state returns under a larger incarnation;
what was known of the older incarnation is void, and its late messages are dropped (`incarnation`).

**Bounded memory.** For every origin the last `window` trials are remembered in a ring: cell trial mod window holds the
trial it belongs to and the most life seen. A trial that is `window` or more behind the newest of its origin can no
longer be told from a duplicate, so it is dropped (`stale`) rather than perhaps counted twice. Origins beyond the limit
are dropped (`origins`), as is what a full relay queue cannot hold (`overflow`).

**Order does not matter.** Within one call every copy of a key is looked at together: the copy with the most life is
the one that is counted and relayed (the first such row if several are equal). The rings do not care about the order of
calls.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import Batch, Columns, by_kind
from agentd.core.origins import ABSENT, OWN, Origins, grown

WINDOW = 128
"""Trials per origin that are remembered; larger than any delay a message survives in practice."""
MAX_QUEUED = 1 << 16
"""Relays that may wait for the next frame."""

_REDUNDANT = frozenset({"duplicate", "own"})
"""What flooding repeats by its nature; counted apart from what was lost."""


class Heard(NamedTuple):
    """What a call of `Gossip.hear` brought."""

    fresh: Batch
    """Messages never heard before."""
    rows: Columns
    """Their origins' rows in per-origin tables."""
    renewed: Columns
    """Rows of the origins that came back under a new incarnation."""


class Gossip:
    """One agent's memory of what it has heard, and the queue of what it owes its neighbours."""

    def __init__(self, origins: Origins, *, window: int = WINDOW, max_queued: int = MAX_QUEUED) -> None:
        self._origins = origins
        self._window = window
        self._max_queued = max_queued
        self._incarnation = np.full(0, -1, dtype=np.int64)
        self._newest = np.zeros(0, dtype=np.int64)
        self._ring_trial = np.zeros((0, window), dtype=np.int64)
        self._ring_life = np.zeros((0, window), dtype=np.int64)
        self._pick = np.zeros((0, window), dtype=np.int64)
        self._queue: list[Batch] = []
        self._queued = 0
        self.dropped: Counter[str] = Counter()
        self.redundant: Counter[str] = Counter()

    def hear(self, batch: Batch) -> Heard:
        """Take in copies of messages; tell which count, and which origins came back as someone new."""
        batch, rows = self._known_origins(batch)
        batch, rows, renewed = self._renew(batch, rows)
        batch, rows = self._advance(batch, rows)
        best, known = self._best_copies(batch, rows * self._window + batch.trial % self._window)
        self._enqueue(batch.rows(best & (batch.life > 1)))
        fresh = best & (known == 0)
        return Heard(batch.rows(fresh), rows[fresh], renewed)

    def take_relays(self) -> list[Batch]:
        """What is to be forwarded in the next frame, with one hop less to live."""
        relays, self._queue, self._queued = self._queue, [], 0
        return [batch.aged() for batch in by_kind(relays)]

    def _known_origins(self, batch: Batch) -> tuple[Batch, Columns]:
        rows = self._origins.rows(batch.origin)
        self._grow(self._origins.room)
        if (rows >= 0).all():
            return batch, rows
        self._count("own", rows == OWN)
        return self._keep(batch, rows, rows >= 0, "origins", rows == ABSENT)

    def _grow(self, room: int) -> None:
        if len(self._newest) < room:
            self._incarnation = grown(self._incarnation, room, -1)
            self._newest = grown(self._newest, room)
            self._ring_trial = grown(self._ring_trial, room)
            self._ring_life = grown(self._ring_life, room)
            self._pick = grown(self._pick, room)

    def _renew(self, batch: Batch, rows: Columns) -> tuple[Batch, Columns, Columns]:
        """Forget the older incarnation of an origin that returns, and drop what is still in flight from it."""
        known = self._incarnation[rows]
        if (batch.incarnation == known).all():
            return batch, rows, np.zeros(0, dtype=np.int64)
        np.maximum.at(self._incarnation, rows, batch.incarnation)
        newer = self._incarnation[rows] > known
        self._newest[rows[newer]] = 0
        self._ring_trial[rows[newer]] = 0
        self._ring_life[rows[newer]] = 0
        renewed = np.unique(rows[newer & (known >= 0)])
        current = batch.incarnation == self._incarnation[rows]
        batch, rows = self._keep(batch, rows, current, "incarnation", ~current)
        return batch, rows, renewed

    def _advance(self, batch: Batch, rows: Columns) -> tuple[Batch, Columns]:
        """Move each origin's window to its newest trial and drop what fell out of it."""
        np.maximum.at(self._newest, rows, batch.trial)
        inside = batch.trial > self._newest[rows] - self._window
        return self._keep(batch, rows, inside, "stale", ~inside)

    def _best_copies(self, batch: Batch, cells: Columns) -> tuple[NDArray[np.bool_], Columns]:
        """Mark one row per key whose life beats what was known; also give the life known before (0: none)."""
        trial, life = batch.trial, batch.life
        ring_trial, ring_life, pick = self._ring_trial.ravel(), self._ring_life.ravel(), self._pick.ravel()
        ring_life[cells[ring_trial[cells] != trial]] = 0
        ring_trial[cells] = trial
        known = ring_life[cells]
        np.maximum.at(ring_life, cells, life)
        better = np.flatnonzero((life > known) & (life == ring_life[cells]))
        pick[cells[better[::-1]]] = better[::-1]  # among equals the last write, so the first row, wins
        best = np.zeros(len(batch), dtype=np.bool_)
        best[better[pick[cells[better]] == better]] = True
        self._count("duplicate", ~best)
        return best, known

    def _enqueue(self, relays: Batch) -> None:
        room = self._max_queued - self._queued
        if len(relays) > room:
            self.dropped["overflow"] += len(relays) - room
            relays = relays.rows(np.arange(room))
        if len(relays):
            self._queue.append(relays)
            self._queued += len(relays)

    def _keep(
        self, batch: Batch, rows: Columns, keep: NDArray[np.bool_], reason: str, lost: NDArray[np.bool_]
    ) -> tuple[Batch, Columns]:
        if keep.all():
            return batch, rows
        self._count(reason, lost & ~keep)
        return batch.rows(keep), rows[keep]

    def _count(self, reason: str, rows: NDArray[np.bool_]) -> None:
        if number := int(np.count_nonzero(rows)):
            (self.redundant if reason in _REDUNDANT else self.dropped)[reason] += number

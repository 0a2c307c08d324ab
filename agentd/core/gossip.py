"""Who hears what: lifetime, duplicates, relay.

Theory of operation
-------------------

**Life counts hops.** A message leaves its origin with life γ. Whoever receives it with life l > 1 forwards it once, with
life l−1, in the next frame. A copy that arrives over a path of h hops therefore arrives with life γ−h+1, and exists only
if h ≤ γ. So the message reaches the agents for which *some* path of at most γ hops exists, which is the ball of radius γ
around the origin: exactly that, no agent more, no agent less.

**More life wins.** The last claim needs care. On unequal paths (or when frames are late) the first copy an agent sees may
be one that travelled further than necessary. If later copies were simply dropped as duplicates, the agents behind this
one would be reached only over the longer path, and some in the ball would never be. So a key remembers the most life it
was seen with; a copy with more life is forwarded again (`relay`), but it is *counted* only the first time (`fresh`).
In the end the best life at an agent at distance d is γ−d+1 whatever the delays were: by induction along a shortest
path each agent on it at some time holds the best possible copy, and forwards it when it comes.

**Keys.** A message is (origin, incarnation, trial). An origin that lost its state returns under a larger incarnation and
starts its trials anew; what was known of the older incarnation is void, and its late messages are dropped.

**Bounded memory.** For every origin the last `window` trials are remembered in a ring: cell trial mod window holds the
trial it belongs to and the most life seen. A trial that is `window` or more behind the newest of its origin can no
longer be told from a duplicate, so it is dropped (`stale`) rather than perhaps counted twice. At most `max_origins`
origins are remembered; further ones are dropped (`origins`), as is what a full relay queue cannot hold (`overflow`).

**Order does not matter.** Within one call every copy of a key is looked at together: the copy with the most life is the
one that is counted and relayed (the first such row if several are equal). The rings do not care about the order of calls.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import MAX_AGENT_ID, Batch, Columns, by_kind

WINDOW = 128
"""Trials per origin that are remembered; larger than any delay a message survives in practice."""
MAX_ORIGINS = 4096
MAX_QUEUED = 1 << 16
"""Relays that may wait for the next frame."""
_REDUNDANT = frozenset({"duplicate", "own"})
"""What flooding repeats by its nature; counted apart from what was lost."""


class Gossip:
    """One agent's memory of what it has heard, and the queue of what it owes its neighbours."""

    def __init__(self, own: int, *, window: int = WINDOW, max_origins: int = MAX_ORIGINS) -> None:
        self._own = own
        self._window = window
        self._max_origins = max_origins
        self._slot_of = np.full(0, -1, dtype=np.int64)
        self._origins = 0
        self._incarnation = np.full(0, -1, dtype=np.int64)
        self._newest = np.zeros(0, dtype=np.int64)
        self._ring_trial = np.zeros(0, dtype=np.int64)
        self._ring_life = np.zeros(0, dtype=np.int64)
        self._pick = np.zeros(0, dtype=np.int64)
        self._queue: list[Batch] = []
        self._queued = 0
        self.dropped: Counter[str] = Counter()
        self.redundant: Counter[str] = Counter()

    @property
    def origins_heard(self) -> int:
        """How many distinct origins were heard, the agent itself included."""
        return self._origins + 1

    def hear(self, batch: Batch) -> tuple[Batch, Columns]:
        """Take in copies of messages; return those that count, and the origins that came back as someone new."""
        slots = self._slots(batch.origin)
        batch, slots = self._keep(batch, slots, slots >= 0, None)
        batch, slots, renewed = self._renew(batch, slots)
        batch, slots = self._advance(batch, slots)
        cells = slots * self._window + batch.trial % self._window
        best, known = self._best_copies(batch, cells)
        self._enqueue(batch.rows(best & (batch.life > 1)))
        return batch.rows(best & (known == 0)), renewed

    def take_relays(self) -> list[Batch]:
        """What is to be forwarded in the next frame, with one hop less to live."""
        relays, self._queue, self._queued = self._queue, [], 0
        return [batch.aged() for batch in by_kind(relays)]

    def _slots(self, origins: Columns) -> Columns:
        """Where each origin's memory lives; −1 for the agent's own messages and for origins there is no room for."""
        if len(origins) and (top := int(origins.max())) >= len(self._slot_of):
            self._slot_of = _grown(self._slot_of, min(max(64, 2 * top), MAX_AGENT_ID + 1), -1)
        slots = self._slot_of[origins]
        if (slots < 0).any():
            for origin in np.unique(origins[slots < 0]).tolist():
                self._admit(origin)
            slots = self._slot_of[origins]
            own = origins == self._own
            self._count("own", own)
            self._count("origins", (slots < 0) & ~own)
        return slots

    def _admit(self, origin: int) -> None:
        if origin == self._own or self._origins >= self._max_origins:
            return
        self._slot_of[origin] = self._origins
        self._origins += 1
        if self._origins > len(self._newest):
            room = max(8, 2 * len(self._newest))
            self._incarnation = _grown(self._incarnation, room, -1)
            self._newest = _grown(self._newest, room, 0)
            self._ring_trial = _grown(self._ring_trial, room * self._window, 0)
            self._ring_life = _grown(self._ring_life, room * self._window, 0)
            self._pick = _grown(self._pick, room * self._window, 0)

    def _renew(self, batch: Batch, slots: Columns) -> tuple[Batch, Columns, Columns]:
        """Forget the older incarnation of an origin that returns, and drop what is still in flight from it."""
        incarnation = batch.incarnation
        known = self._incarnation[slots]
        if (incarnation == known).all():
            return batch, slots, np.zeros(0, dtype=np.int64)
        np.maximum.at(self._incarnation, slots, incarnation)
        newer = self._incarnation[slots] > known
        for slot in np.unique(slots[newer]).tolist():
            self._newest[slot] = 0
            ring = slice(slot * self._window, (slot + 1) * self._window)
            self._ring_trial[ring] = 0
            self._ring_life[ring] = 0
        renewed = np.unique(batch.origin[newer & (known >= 0)])
        current = incarnation == self._incarnation[slots]
        batch, slots = self._keep(batch, slots, current, "incarnation")
        return batch, slots, renewed

    def _advance(self, batch: Batch, slots: Columns) -> tuple[Batch, Columns]:
        """Move each origin's window to its newest trial and drop what fell out of it."""
        np.maximum.at(self._newest, slots, batch.trial)
        return self._keep(batch, slots, batch.trial > self._newest[slots] - self._window, "stale")

    def _best_copies(self, batch: Batch, cells: Columns) -> tuple[NDArray[np.bool_], Columns]:
        """Mark one row per key whose life beats what was known; also give the life that was known per row (0: none)."""
        trial, life = batch.trial, batch.life
        unseen = self._ring_trial[cells] != trial
        self._ring_life[cells[unseen]] = 0
        self._ring_trial[cells] = trial
        known = self._ring_life[cells]
        np.maximum.at(self._ring_life, cells, life)
        rows = np.flatnonzero((life > known) & (life == self._ring_life[cells]))
        self._pick[cells[rows[::-1]]] = rows[::-1]  # among equals the last write, so the first row, wins
        best = np.zeros(len(batch), dtype=np.bool_)
        best[rows[self._pick[cells[rows]] == rows]] = True
        self._count("duplicate", ~best)
        return best, known

    def _enqueue(self, relays: Batch) -> None:
        room = MAX_QUEUED - self._queued
        if len(relays) > room:
            self.dropped["overflow"] += len(relays) - room
            relays = relays.rows(np.arange(room))
        if len(relays):
            self._queue.append(relays)
            self._queued += len(relays)

    def _keep(
        self, batch: Batch, slots: Columns, keep: NDArray[np.bool_], reason: str | None
    ) -> tuple[Batch, Columns]:
        if keep.all():
            return batch, slots
        if reason is not None:
            self._count(reason, ~keep)
        return batch.rows(keep), slots[keep]

    def _count(self, reason: str, rows: NDArray[np.bool_]) -> None:
        if number := int(np.count_nonzero(rows)):
            (self.redundant if reason in _REDUNDANT else self.dropped)[reason] += number


def _grown(array: Columns, size: int, fill: int) -> Columns:
    """A longer copy of a column, padded."""
    grown = np.full(size, fill, dtype=np.int64)
    grown[: len(array)] = array
    return grown

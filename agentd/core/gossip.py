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
trial it belongs to and the most life seen. (Cells of one trial stand side by side for all origins: in lockstep a round
touches two or three trials of everybody, and with hundreds of agents on a machine every cache line is a cold one.) A
trial that is `window` or more behind the newest of its origin can no longer be told from a duplicate, so it is dropped
(`stale`) rather than perhaps counted twice. Origins beyond the limit are dropped (`origins`), as is what a full relay
queue cannot hold (`overflow`).

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

_NOBODY = np.zeros(0, dtype=np.int64)


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
        self._ring_trial = np.zeros((window, 0), dtype=np.int32)
        self._ring_life = np.zeros((window, 0), dtype=np.int32)
        self._pick = np.zeros((window, 0), dtype=np.int32)
        self._queue: list[Batch] = []
        self._queued = 0
        self.dropped: Counter[str] = Counter()
        self.redundant: Counter[str] = Counter()
        """What flooding repeats by its nature; counted apart from what was lost."""

    def hear(self, batch: Batch) -> Heard:
        """Take in copies of messages; tell which count, and which origins came back as someone new."""
        rows = self._origins.rows(batch.origin)
        self._grow(self._origins.room)
        renewed = self._renew(batch, rows)
        kept = self._current(batch, rows)
        rows, trial, life = rows[kept], batch.trial[kept], batch.life[kept].astype(np.int32)
        np.maximum.at(self._newest, rows, trial)
        inside = trial > self._newest[rows] - self._window
        if not inside.all():
            self.dropped["stale"] += int(np.count_nonzero(~inside))
            kept, rows, trial, life = kept[inside], rows[inside], trial[inside], life[inside]
        best, known = self._best_copies(trial % self._window * len(self._newest) + rows, trial, life)
        if len(best) < len(kept):
            self.redundant["duplicate"] += len(kept) - len(best)
        self._enqueue(batch.rows(kept[best[life[best] > 1]]))
        fresh = best[known[best] == 0]
        return Heard(batch.rows(kept[fresh]), rows[fresh], renewed)

    def take_relays(self) -> list[Batch]:
        """What is to be forwarded in the next frame, with one hop less to live."""
        relays, self._queue, self._queued = self._queue, [], 0
        return [batch.aged() for batch in by_kind(relays)]

    def _grow(self, room: int) -> None:
        if len(self._newest) < room:
            self._incarnation = grown(self._incarnation, room, -1)
            self._newest = grown(self._newest, room)
            self._ring_trial = _widened(self._ring_trial, room)
            self._ring_life = _widened(self._ring_life, room)
            self._pick = _widened(self._pick, room)

    def _renew(self, batch: Batch, rows: Columns) -> Columns:
        """Forget the older incarnation of an origin that returns; the rows of those that do."""
        heard = rows >= 0
        newer = heard & (batch.incarnation > self._incarnation[rows])
        if not newer.any():
            return _NOBODY
        known = self._incarnation[rows[newer]]
        np.maximum.at(self._incarnation, rows[newer], batch.incarnation[newer])
        self._newest[rows[newer]] = 0
        self._ring_trial[:, rows[newer]] = 0
        self._ring_life[:, rows[newer]] = 0
        return np.unique(rows[newer][known >= 0])

    def _current(self, batch: Batch, rows: Columns) -> NDArray[np.intp]:
        """Which messages are of others, whom there is room for, as they are now."""
        kept: NDArray[np.intp] = ((rows >= 0) & (batch.incarnation == self._incarnation[rows])).nonzero()[0]
        if len(kept) < len(rows):
            own, absent = int(np.count_nonzero(rows == OWN)), int(np.count_nonzero(rows == ABSENT))
            for counter, reason, number in (
                (self.redundant, "own", own),
                (self.dropped, "origins", absent),
                (self.dropped, "incarnation", len(rows) - len(kept) - own - absent),
            ):
                if number:
                    counter[reason] += number
        return kept

    def _best_copies(
        self, cells: Columns, trial: Columns, life: NDArray[np.int32]
    ) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """One row per key whose life beats what was known; also the life known before of every row (0: none)."""
        ring_trial, ring_life, pick = self._ring_trial.ravel(), self._ring_life.ravel(), self._pick.ravel()
        ring_life[cells[ring_trial[cells] != trial]] = 0
        ring_trial[cells] = trial
        known = ring_life[cells]
        np.maximum.at(ring_life, cells, life)
        better = ((life > known) & (life == ring_life[cells])).nonzero()[0]
        theirs = cells[better]
        pick[theirs[::-1]] = better[::-1]  # among equals the last write, so the first row, wins
        return better[pick[theirs] == better], known

    def _enqueue(self, relays: Batch) -> None:
        room = self._max_queued - self._queued
        if len(relays) > room:
            self.dropped["overflow"] += len(relays) - room
            relays = relays.rows(np.arange(room))
        if len(relays):
            self._queue.append(relays)
            self._queued += len(relays)


def _widened(ring: NDArray[np.int32], room: int) -> NDArray[np.int32]:
    """A ring with room for more origins."""
    wider = np.zeros((len(ring), room), dtype=np.int32)
    wider[:, : ring.shape[1]] = ring
    return wider

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

**Keys.** A message is (origin, incarnation, trial), as long as that can be told from what is remembered; after that, a
message of a cumulative kind is what it says: (origin, incarnation, arm or all, amount). An origin that lost its state
returns under a larger incarnation; what was known of the older incarnation is void, and its late messages are dropped
(`incarnation`). Where somebody tells who came back (`renew`), no other incarnation gets here; else the largest one that
was heard is believed.

**Bounded memory.** For every origin as many trials as the `window` has cells are remembered in a ring: cell trial mod
window holds the newest trial it was claimed for and the most life seen, in one number. (Cells of one trial stand side
by side for all origins: in lockstep a round touches two or three trials of everybody, and with hundreds of agents on a
machine every cache line is a cold one. For the same reason a round in which nothing out of the ordinary happens takes
the fewest steps, and one that repeats the round before, one trial later, fewer still: see `core.repetition`.) A cell
only ever goes on to newer trials. So one that holds an older trial than a copy's proves that the copy's key was never
heard, however far behind its origin's newest trial it is. One that holds a newer trial says nothing: the copy is a
*latecomer*, and whether it counts and travels on follows from how much it says (`core.bodies.latecomers`). Each
origin's cells are its own: one that lags behind the others makes no difference to them. Origins beyond the limit are
dropped (`origins`), as is what a full relay queue cannot hold (`overflow`).

**Order does not matter.** Within one call every copy of a key is looked at together: the copy with the most life is
the one that is counted and relayed (the first such row if several are equal). The rings do not care about the order of
calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies import KINDS, Kind
from agentd.core.bodies.kind import Extent
from agentd.core.bodies.latecomers import Latecomers
from agentd.core.message import Batch, Columns, by_kind, join
from agentd.core.origins import ABSENT, OWN, Origins
from agentd.core.repetition import TRIAL_STEP, Repetition, RoundOutcome
from agentd.core.sequel import Sequel
from agentd.core.terms import Terms

WINDOW = 128
"""Trials per origin that are remembered; more than a message is mostly late by, unless a link was cut."""
SHORT_WINDOW = 32
"""The same where bodies tell by themselves whether they are old: a quarter of the memory."""
MAX_QUEUED = 1 << 16
"""Relays that may wait for the next frame."""

_TURN_BITS = 17
_LAST_TURN = (1 << _TURN_BITS) - 1
_TRIAL_SHIFT = TRIAL_STEP.bit_length() - 1
"""A ring cell is a trial (30 bits), the most life seen (16) and a turn (17), so that the larger cell is the better."""
MAX_TURNS = _LAST_TURN - 1
"""Copies looked at together; more are heard in portions."""
_GUARDS = 2
"""Columns behind those of the origins: what is `OWN` or `ABSENT` falls there, and nothing beats what they hold."""

_NOBODY = np.zeros(0, dtype=np.int64)
_NONE = np.zeros(0, dtype=np.intp)


class Heard(NamedTuple):
    """What a call of `Gossip.hear` brought."""

    fresh: Batch
    """Messages never heard before."""
    rows: Columns
    """Their origins' rows in per-origin tables."""
    renewed: Columns
    """Rows of the origins that came back under a new incarnation."""


class Judge(Protocol):
    """Says what bodies honest origins send."""

    def accepts_all(self, batch: Batch, rows: Columns) -> bool:
        """Whether every one of them is honest beyond doubt; `rows` are their origins' rows."""
        ...

    def judge_bodies(self, batch: Batch) -> Batch:
        """Those that can be honest; the others are counted."""
        ...

    def extent_of(self, batch: Batch, rows: Columns) -> Extent | None:
        """How much they say beyond what is held of their origins; None where their kind cannot tell."""
        ...


def window_under(terms: Terms, lifetime: int) -> int:
    """How many trials per origin are to be remembered in a run, in which messages live for so many hops.

    Where bodies tell whether they are old, the ring is only needed for what comes in time, on paths of any length; of a
    sample nothing else tells whether it was counted.
    """
    kinds = [KINDS.get(policy.tag) if policy.tag is not None else None for policy in terms.policies if policy.tag != 0]
    if not terms.closed or not all(kind is not None and kind.tells_its_age for kind in kinds):
        return WINDOW
    return min(max(SHORT_WINDOW, 2 * lifetime), WINDOW)


class Gossip:
    """One agent's memory of what it has heard, and the queue of what it owes its neighbours."""

    def __init__(
        self, origins: Origins, *, window: int = WINDOW, max_queued: int = MAX_QUEUED, fast_path: bool = True
    ) -> None:
        self._origins = origins
        self._fast_path = fast_path
        self._window = window
        self._max_queued = max_queued
        self._incarnation = np.full(_GUARDS, -1, dtype=np.int64)
        self._ring = _guarded(np.zeros((window, 0), dtype=np.int64), 0)
        self._turns = np.zeros(0, dtype=np.int64)
        self._latecomers = Latecomers()
        self._last: dict[Kind, Repetition] = {}
        self._queue: list[Batch] = []
        self._queued = 0
        self.dropped: Counter[str] = Counter()
        self.redundant: Counter[str] = Counter()
        """What flooding repeats by its nature; counted apart from what was lost."""

    def hear(self, batch: Batch, judge: Judge | None = None) -> Heard:
        """Take in copies of at most `MAX_TURNS` messages; tell which count, and who came back as someone new.

        Most copies repeat others, so the judge is asked about those that would count. If it refuses any, or if
        anything else is out of the ordinary, every copy is judged before it can take the place of another.
        """
        last = self._last.pop(batch.kind, None)
        if last is not None and (heard := self._hear_again(last, batch, judge)) is not None:
            return heard
        rows = self._origins.known_rows(batch.origin)
        # Origins without a row have −1 for their incarnation.
        if len(rows) and not (batch.incarnation != self._incarnation[rows]).any():
            claims = self._claim(rows, batch.trial, batch.life)
            best = batch.rows(claims.best)
            if self._fast_path:
                best.sequel = Sequel.to()
            if judge is None or judge.accepts_all(best, rows[claims.best]):
                own = int(np.count_nonzero(rows == OWN))
                if claims.outrun > own:
                    return self._settle_with_latecomers(batch, rows, claims, judge)
                if best.sequel is not None:
                    self._last[batch.kind] = Repetition(batch, rows, claims, best.sequel)
                return self._settle(best, rows, claims, own)
            self._ring.reshape(-1)[claims.cells] = claims.known
        return self._hear_with_care(judge.judge_bodies(batch) if judge else batch, judge)

    def renew(self, lives: Mapping[int, int]) -> Columns:
        """Forget older incarnations of origins that have these now; the rows of those of which something was known."""
        self._last.clear()
        self._latecomers.forget()
        rows = self._origins.known_rows(np.array(list(lives), dtype=np.int64))
        incarnations = np.array(list(lives.values()), dtype=np.int64)
        older = (rows >= 0) & (incarnations > self._incarnation[rows])
        rows, incarnations = rows[older], incarnations[older]
        known = self._incarnation[rows] >= 0
        self._incarnation[rows] = incarnations
        self._ring[:, rows] = 0
        return rows[known]

    def take_relays(self) -> list[Batch]:
        """What is to be forwarded in the next frame, with one hop less to live."""
        relays, self._queue, self._queued = self._queue, [], 0
        return by_kind(relays)

    def _hear_again(self, last: Repetition, batch: Batch, judge: Judge | None) -> Heard | None:
        """Take in a round that repeats the last one, one trial later; None where it does not, quite."""
        if not last.is_told_again(batch):
            return None
        ring = self._ring.reshape(-1)
        if not last.is_confirmed_by(ring, self._ring.shape[1]):
            return None
        best = batch.rows_with(last.best_head, last.best)
        best.sequel = last.winners = Sequel.to(last.winners.number)
        if judge is not None and not judge.accepts_all(best, last.rows):
            return None
        last.close(ring)
        self._last[batch.kind] = last
        self._count_repeats(len(batch.head) - len(best.head), last.own)
        if len(last.relayed):
            self._enqueue(best.rows_with(last.relayed_head, last.relayed))
        if last.fresh is None:
            return Heard(best, last.rows, _NOBODY)
        return Heard(best.rows(last.fresh), last.rows[last.fresh], _NOBODY)

    def _hear_with_care(self, batch: Batch, judge: Judge | None) -> Heard:
        """Take in copies among which there may be new origins, new incarnations or echoes of old ones."""
        self._last.clear()  # rows, incarnations and the ring's width may change
        rows = self._origins.rows(batch.origin)
        self._grow(self._origins.room)
        renewed = self._renew(batch, rows)
        kept = self._current(batch, rows)
        batch, rows = batch.rows(kept), rows[kept]
        claims = self._claim(rows, batch.trial, batch.life)
        if claims.outrun:
            # What is held of an origin that has just come back is still that of its older life.
            heard = self._settle_with_latecomers(batch, rows, claims, None if len(renewed) else judge)
        else:
            heard = self._settle(batch.rows(claims.best), rows, claims, 0)
        return heard._replace(renewed=renewed)

    def _settle(self, best: Batch, rows: Columns, claims: RoundOutcome, own: int, late: int = 0) -> Heard:
        """Close the winners' cells to copies that are no better, queue what is to be relayed, tell what is new."""
        self._ring.reshape(-1)[claims.cells[claims.best]] = claims.closing
        self._count_repeats(len(rows) - len(best) - late, own)
        relayed = (best.life > 1).nonzero()[0]
        if len(relayed):
            self._enqueue(best.rows(relayed).aged())
        rows = rows[claims.best]
        if not claims.fresh.all():
            fresh = claims.fresh.nonzero()[0]
            best, rows = best.rows(fresh), rows[fresh]
        return Heard(best, rows, _NOBODY)

    def _settle_with_latecomers(self, batch: Batch, rows: Columns, claims: RoundOutcome, judge: Judge | None) -> Heard:
        """The same where some copies have lost their cells to newer trials."""
        newer = self._ring.reshape(-1)[claims.cells] - claims.unseen >= TRIAL_STEP
        late = (newer & (rows >= 0)).nonzero()[0]
        own = int(np.count_nonzero(rows == OWN))
        heard = self._settle(batch.rows(claims.best), rows, claims, own, len(late))
        fresh = self._take_late(batch.rows(late), judge)
        if not len(fresh):
            return heard
        both = join([heard.fresh, fresh]) if len(heard.fresh) else fresh
        return Heard(both, self._origins.known_rows(both.origin), _NOBODY)

    def _take_late(self, late: Batch, judge: Judge | None) -> Batch:
        """Queue those that are to travel on; which of them count."""
        if judge is not None:
            late = judge.judge_bodies(late)
        rows = self._origins.known_rows(late.origin)
        extent = judge.extent_of(late, rows) if judge is not None and len(late) else None
        if extent is None:
            self.dropped["stale"] += len(late)
            return late.rows(_NONE)
        honest = extent.honest.nonzero()[0]
        late = late.rows(honest)
        fresh, relayed, useless = self._latecomers.admit(late, rows[honest], extent.rows(honest))
        if useless:
            self.redundant["outdated"] += useless
        if len(relayed):
            self._enqueue(late.rows(relayed).aged())
        return late.rows(fresh)

    def _grow(self, room: int) -> None:
        if len(self._incarnation) < room + _GUARDS:
            incarnation = np.full(room + _GUARDS, -1, dtype=np.int64)
            incarnation[: len(self._incarnation) - _GUARDS] = self._incarnation[:-_GUARDS]
            self._incarnation = incarnation
            self._ring = _guarded(self._ring[:, :-_GUARDS], room)

    def _renew(self, batch: Batch, rows: Columns) -> Columns:
        """Forget the older incarnation of an origin that returns; the rows of those that do."""
        newer = batch.incarnation > self._incarnation[rows]
        newer &= rows != ABSENT
        if not newer.any():
            return _NOBODY
        known = self._incarnation[rows[newer]]
        np.maximum.at(self._incarnation, rows[newer], batch.incarnation[newer])
        others = rows[newer] >= 0  # what our own echoes say of our incarnation is only noted
        self._ring[:, rows[newer][others]] = 0
        self._latecomers.forget()
        return np.array(sorted(set(rows[newer][others & (known >= 0)].tolist())), dtype=np.int64)

    def _current(self, batch: Batch, rows: Columns) -> NDArray[np.intp]:
        """Which messages are of others, whom there is room for, as they are now."""
        kept: NDArray[np.intp] = ((rows >= 0) & (batch.incarnation == self._incarnation[rows])).nonzero()[0]
        own, absent = int(np.count_nonzero(rows == OWN)), int(np.count_nonzero(rows == ABSENT))
        for counter, reason, number in (
            (self.redundant, "own", own),
            (self.dropped, "origins", absent),
            (self.dropped, "incarnation", len(rows) - len(kept) - own - absent),
        ):
            if number:
                counter[reason] += number
        return kept

    def _claim(self, rows: Columns, trial: Columns, life: Columns) -> RoundOutcome:
        """Let every copy claim its cell; the first best copy of each key whose life beats what was known wins it.

        The earlier of equal copies has the higher turn, and the largest claim stays: whoever finds its own claim there
        has won.
        """
        ring = self._ring.reshape(-1)
        cells = trial % self._window * self._ring.shape[1] + rows
        unseen = trial << _TRIAL_SHIFT
        claims = unseen + (life << _TURN_BITS)
        claims += self._turns_of(len(rows))
        known = ring[cells]
        np.maximum.at(ring, cells, claims)
        won = ring[cells]
        best = (won == claims).nonzero()[0]
        won -= unseen
        outrun = int(np.count_nonzero(won >= TRIAL_STEP))
        return RoundOutcome(cells, known, unseen, best, claims[best] | _LAST_TURN, known[best] < unseen[best], outrun)

    def _turns_of(self, number: int) -> Columns:
        if len(self._turns) < number:
            self._turns = MAX_TURNS - 1 - np.arange(2 * number, dtype=np.int64)
        return self._turns[:number]

    def _count_repeats(self, repeats: int, own: int) -> None:
        if own:
            self.redundant["own"] += own
        if repeats > own:
            self.redundant["duplicate"] += repeats - own

    def _enqueue(self, relays: Batch) -> None:
        room = self._max_queued - self._queued
        if len(relays) > room:
            self.dropped["overflow"] += len(relays) - room
            relays = relays.rows(np.arange(room))
        if len(relays):
            self._queue.append(relays)
            self._queued += len(relays)


def _guarded(ring: Columns, room: int) -> Columns:
    """A ring with room for more origins, and guards behind them."""
    wider = np.zeros((len(ring), room + _GUARDS), dtype=np.int64)
    wider[:, : ring.shape[1]] = ring
    wider[:, -_GUARDS:] = np.iinfo(np.int64).max
    return wider

"""What counts before it was verified: of whom, since when, and what was the last that was verified.

Kinds that tell everything in every round (`Cumulative`) are too many to verify one by one, and each is replaced by the
next. So only some are verified before they count: those that are *due*, one trial in k of each origin. In between what
comes counts at once, and here it is noted since when. In lockstep a due one comes every k trials and clears that; where
none comes, the newest that counts is verified after k trials. A forgery that is found has counted for k trials at most,
and what was verified last takes its place (`agent.Agent` does that).

Everybody's due ones are the same, and an honest agent passes them on only if they are genuine: so who hands over a
forged one is not honest. Of others that can never be said. They are told by origin + trial, so that in a round a k-th
of the origins is due.

Per origin there is a column; the last one is for all origins of whom nothing was ever found genuine.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies.kind import Mask
from agentd.core.message import Batch, Columns
from agentd.core.origins import grown
from agentd.core.signed.notary import Key

_PRINTS = 16
"""Trials of each origin of which it is noticed that two copies differ."""
_NEVER = -1
_MIX = 1_000_003


class Later:
    """The notes on all origins."""

    def __init__(self, every: int) -> None:
        self.every = every
        self._life = np.full(1, _NEVER, dtype=np.int64)
        self._since = np.full(1, _NEVER, dtype=np.int64)
        self._trial = np.full(1, _NEVER, dtype=np.int64)
        self._suspected = np.zeros(1, dtype=np.int64)
        self._stamp = np.zeros((1, _PRINTS), dtype=np.int64)
        self._print = np.zeros((1, _PRINTS), dtype=np.int64)
        self._counted = np.full(1, _NEVER, dtype=np.int64)
        self._good: dict[int, Batch] = {}
        self._recent: deque[tuple[int, Batch]] = deque()
        self._hurried: set[int] = set()
        self._differing: set[Key] = set()

    def is_due(self, batch: Batch) -> Mask:
        """Which messages everybody verifies before they count."""
        due: Mask = (batch.origin + batch.trial) % self.every == 0
        return due

    def to_verify(self, batch: Batch) -> Mask:
        """Which of some messages are to be verified before they count."""
        places = self._places(batch.origin)
        wanted = self.is_due(batch)
        wanted |= self._life[places] != batch.incarnation
        wanted |= self._suspected[places] > 0
        differ = self._differ(places, batch)
        if differ is not None:
            wanted |= differ
        return wanted

    def _differ(self, places: Columns, batch: Batch) -> Mask | None:
        """Which copies differ from another one of the same trial: either one is forged, or their origin lies."""
        words = np.ascontiguousarray(batch.signature).view("<i8")
        prints, trial = words[:, 0] ^ words[:, 4], batch.trial
        if batch.kind.chained:  # none will replace it: notice also the same signature under another sample
            for column in (*words.T[8:], *batch.body.T):
                prints = prints * _MIX + column
        cells = places * _PRINTS + trial % _PRINTS
        stamps, kept = self._stamp.reshape(-1), self._print.reshape(-1)
        new = stamps[cells] < trial
        if new.any():
            stamps[cells[new]], kept[cells[new]] = trial[new], prints[new]
        differ: Mask = (stamps[cells] == trial) & (kept[cells] != prints)
        if not differ.any():
            return None
        self._differing = set(map(tuple, batch.head[differ][:, :3].tolist()))
        return np.isin(cells, cells[differ])

    def differs(self, key: Key) -> bool:
        """Whether there are two copies under this key that differ, as was just found."""
        return key in self._differing

    def copies_of(self, key: Key) -> list[Batch]:
        """Copies of a message that have come lately, one by one."""
        origin, incarnation, trial = key
        found = []
        for _, batch in self._recent:
            same = (batch.origin == origin) & (batch.trial == trial) & (batch.incarnation == incarnation)
            found += [batch.rows(np.array([number])) for number in same.nonzero()[0]]
        return found

    def came(self, batch: Batch, now: int) -> None:
        """Keep what has come in a trial of ours for as long as it may have to be looked at again."""
        self._recent.append((now, batch))
        while self._recent[0][0] < now - max(self.every, _PRINTS):
            self._recent.popleft()
        self._differing = set()

    def verified(self, message: Batch) -> None:
        """One message was found genuine."""
        ((origin, incarnation, trial),) = message.head[:, :3].tolist()
        self._make_room(origin)
        if incarnation < self._life[origin]:
            return  # anybody can hand over again what was said in a life before
        if incarnation != self._life[origin]:  # what counts may still be a forgery, and is looked at when it is due
            self._life[origin], self._trial[origin] = incarnation, _NEVER
        if trial > self._trial[origin]:
            self._trial[origin], self._good[origin] = trial, message

    def forged(self, origin: int) -> None:
        """Somebody speaks in this origin's name: verify all that it says from now on."""
        self._make_room(origin)
        self._suspected[origin] = 1

    def counts(self, news: Batch, now: int) -> None:
        """These took the place of what their origins said before."""
        places = self._places(news.origin)
        self._counted[places] = news.trial
        verified = news.trial == self._trial[places]
        if verified.all():
            self._since[places] = _NEVER
            return
        self._since[places[verified]] = _NEVER
        others = places[~verified]
        self._since[others[self._since[others] < 0]] = now

    def hurry(self, origin: int) -> None:
        """Let what counts of an origin be verified now."""
        self._hurried.add(origin)

    def overdue(self, now: int) -> list[int]:
        """Origins whose word has counted for as long as it may without being verified."""
        late = (self._since >= 0) & (now - self._since >= self.every)
        found = set(late.nonzero()[0].tolist()) if late.any() else set[int]()
        if self._hurried:
            found |= {origin for origin in self._hurried if self._since[origin] >= 0}
            self._hurried.clear()
        return sorted(found)

    def counting(self, origin: int) -> list[Batch]:
        """Copies of the message of an origin that counts, one by one; where they differ any may be the one."""
        return self.copies_of((origin, int(self._life[origin]), int(self._counted[origin])))

    def settle(self, origin: int) -> Batch | None:
        """What counts of an origin is from now on the last that was verified, which is returned."""
        self._since[origin] = _NEVER
        return self._good.get(origin)

    def renewed(self, origin: int) -> None:
        """An origin has another life now, and nothing of the one before counts any more."""
        if origin < len(self._since) - 1:
            self._since[origin] = _NEVER
            self._good.pop(origin, None)

    def contradicted(self, origins: set[int], fresh: Batch) -> list[int]:
        """Whose verified message could not count, because what counts of it was not verified."""
        found = []
        for origin, _, trial, *_ in fresh.head.tolist():
            place = min(origin, len(self._trial) - 1)
            if origin in origins and trial == self._trial[place] and self._since[place] >= 0:
                found.append(origin)
        return found

    def forget(self) -> None:
        """Somebody has another key now: nothing is known to be genuine."""
        self._life[:] = self._trial[:] = _NEVER
        self._good.clear()

    def _places(self, origins: Columns) -> Columns:
        places: NDArray[np.int64] = np.minimum(origins, len(self._life) - 1)
        return places

    def _make_room(self, origin: int) -> None:
        if origin < len(self._life) - 1:
            return
        size = origin + 9
        for name in ("_life", "_since", "_trial", "_counted"):
            setattr(self, name, grown(getattr(self, name)[:-1], size, _NEVER))
        for name in ("_suspected", "_stamp", "_print"):
            setattr(self, name, grown(getattr(self, name)[:-1], size))

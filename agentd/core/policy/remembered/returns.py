"""Who was away, and so has missed what was said: going by what others say, and when.

What was released is told once, and from then on now and then. Whoever was cut off, or has lost all it had heard in a
crash, would wait for long until everybody has told everything again. But others can see that it is back:

- It says hello, though it has said more before; or it is heard for the first time, and this is not its first trial. An
  agent says hello when it has heard nobody yet.
- It says something after it was silent for longer than an agent ever is: what it said meanwhile was lost, and so was,
  most likely, what was said to it.

Without faults neither happens. For one origin it is seen once within a refresh, so that a liar which says hello all
the time makes others talk a little more, and no more than that.
"""

from __future__ import annotations

import numpy as np

from agentd.core.message import Batch, Columns
from agentd.core.origins import all_differ, grown

_FEW = 24
"""So many records are looked at faster one after the other than column by column."""


class Returns:
    """What is remembered of each origin (by row) to see that it was away."""

    def __init__(self, refresh: int) -> None:
        self._refresh = refresh
        self._longest_silence = refresh + refresh // 4  # a budget may have kept it silent a little longer
        self._newest = np.zeros(0, dtype=np.int64)
        """The newest trial that it spoke of; 0: it was never heard."""
        self._released = np.zeros(0, dtype=np.bool_)
        self._noticed = np.zeros(0, dtype=np.int64)

    def noticed(self, batch: Batch, rows: Columns, now: int) -> bool:
        """Whether records show that any of their origins is back; now is our own trial."""
        if not len(rows):
            return False
        self._make_room(int(rows.max()) + 1)
        trial, pulls = batch.trial, batch.body[:, 1]
        if len(rows) > _FEW and all_differ(rows):
            return self._are_back(rows, trial, pulls, now)
        said = zip(rows.tolist(), trial.tolist(), pulls.tolist(), strict=True)
        return sum(self._is_back(row, trial, pulls, now) for row, trial, pulls in said) > 0

    def _is_back(self, row: int, trial: int, pulls: int, now: int) -> bool:
        before = self._newest.item(row)
        if trial <= before:
            return False
        self._newest[row] = trial
        if pulls:
            back = 0 < before < trial - self._longest_silence
            self._released[row] = True
        else:
            back = self._released.item(row) or (not before and trial > 1)
        if not back or now - self._noticed.item(row) < self._refresh:
            return False
        self._noticed[row] = now
        return True

    def _are_back(self, rows: Columns, trial: Columns, pulls: Columns, now: int) -> bool:
        """The same of one record each of many origins."""
        before, released = self._newest[rows], self._released[rows]
        newer, released_now = trial > before, pulls > 0
        was_silent = (before > 0) & (trial - before > self._longest_silence)
        has_lost_all = released | ((before == 0) & (trial > 1))
        back = newer & np.where(released_now, was_silent, has_lost_all)
        self._newest[rows] = np.maximum(before, trial)
        self._released[rows] = released | (released_now & newer)
        back &= now - self._noticed[rows] >= self._refresh
        self._noticed[rows[back]] = now
        return bool(back.any())

    def _make_room(self, size: int) -> None:
        if size > len(self._newest):
            room = size + size // 4
            self._newest, self._released = grown(self._newest, room), grown(self._released, room)
            self._noticed = grown(self._noticed, room, -self._refresh)

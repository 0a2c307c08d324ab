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

from agentd.core.message import Batch, Columns


class Returns:
    """What is remembered of each origin (by row) to see that it was away."""

    def __init__(self, refresh: int) -> None:
        self._refresh = refresh
        self._longest_silence = refresh + refresh // 4  # a budget may have kept it silent a little longer
        self._newest: dict[int, int] = {}
        self._released: set[int] = set()
        self._noticed: dict[int, int] = {}

    def noticed(self, batch: Batch, rows: Columns, now: int) -> bool:
        """Whether records show that any of their origins is back; now is our own trial."""
        said = zip(rows.tolist(), batch.trial.tolist(), batch.body[:, 1].tolist(), strict=True)
        return sum(self._is_back(row, trial, pulls, now) for row, trial, pulls in said) > 0

    def _is_back(self, row: int, trial: int, pulls: int, now: int) -> bool:
        before = self._newest.get(row, 0)
        if trial <= before:
            return False
        self._newest[row] = trial
        if pulls:
            back = 0 < before < trial - self._longest_silence
            self._released.add(row)
        else:
            back = row in self._released or (not before and trial > 1)
        if not back or now - self._noticed.get(row, -self._refresh) < self._refresh:
            return False
        self._noticed[row] = now
        return True

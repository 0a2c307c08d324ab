"""How far the releases of private-ucb can lie from what was paid, and when there can be one.

A release after n pulls is what they paid, 0 to n rewards, plus one draw of discrete Laplace noise of scale n^(v/2)
rewards (`series.scale_steps`). Such a draw exceeds L scales, on one side or the other, with chance e^−L at most. A
body tells of K arms, and each of them may lie L = ln(10⁹·K) scales outside: an honest body is refused once in 10⁹.

When there is a release follows from ε, v and the pulls: n is a threshold of the series, and fewer than up to the next
threshold were pulled since. (A budget that refuses a release keeps the count from growing at the same place.) With
x − W ≥ 1/ε pulls since the threshold W, each of the summands j^(−v/2) is x^(−v/2) at least and the series goes on: no
two thresholds are further apart than ⌈1/ε⌉.

All of it is read from tables, one entry per number of pulls, made as far as somebody has pulled. Nobody makes them
longer than `LONGEST`: beyond, the noise is bounded by the formula, and a release may come at any number of pulls.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies.kind import Mask
from agentd.core.grid import UNIT
from agentd.core.message import MAX_TRIAL, Columns
from agentd.core.privacy.series import ReleaseSeries

REFUSED = 1e-9
"""Of honest bodies, the share that is refused at most."""
LONGEST = 1 << 17
"""Pulls of one arm of which tables tell."""
MAX_GAP = 4
"""pulls now / pulls at the newest release, where ε is not known: the widest series (ε → 0, v → 1.5) stays below 3.7."""
_SHORTEST = 1 << 10
_STEEPEST_V = 1.5


@lru_cache(maxsize=64)
def limits_of(epsilon: float | None, v: float | None, arms: int) -> ReleaseLimits:
    """The same tables for all that ask for the same noise."""
    return ReleaseLimits(epsilon, v, arms)


class ReleaseLimits:
    """What can be told of an arm that was released after n pulls, for one ε and v; None: any."""

    def __init__(self, epsilon: float | None, v: float | None, arms: int) -> None:
        self.scales = math.log(arms / REFUSED)
        """How many scales a release may lie outside what its pulls can pay."""
        self._exponent = (_STEEPEST_V if v is None else v) / 2
        self._widest = None if epsilon is None or v is None else math.ceil(1 / epsilon)
        self._series = None if epsilon is None or v is None else ReleaseSeries(epsilon, v)
        self.always = self._widest == 1
        """Whether every pull is released: the number of pulls since is always 0."""
        self.last: Columns
        """The largest number of pulls before the next release; −1 where nothing is released after n."""
        self.low: Columns
        """The least noised sum, in grid steps."""
        self.span: NDArray[np.uint64]
        """How much more than that it may be."""
        self._make(_SHORTEST)

    def cover(self, most: int) -> bool:
        """Make the tables long enough for a number of pulls; whether they can be."""
        if most >= LONGEST:
            return False
        if most >= len(self.last):
            self._make(1 << most.bit_length())
        return True

    def allow(self, now: Columns, at_release: Columns, noised: Columns) -> Mask:
        """Which arms can look like this, whatever the numbers are; zeros where nothing is released."""
        sane: Mask = (at_release >= 0) & (at_release <= now) & (now <= MAX_TRIAL)
        told = sane & (at_release < LONGEST)
        self.cover(int(at_release.max(initial=0, where=told)))
        pulls = np.where(told, at_release, 0)
        allowed: Mask = told & (now <= self.last[pulls])
        allowed &= (noised - self.low[pulls]).view(np.uint64) <= self.span[pulls]
        beyond = sane & ~told
        return allowed | (beyond & self._formula(now, at_release, noised)) if beyond.any() else allowed

    def _formula(self, now: Columns, at_release: Columns, noised: Columns) -> Mask:
        pulls = np.where(at_release > 0, at_release, 1).astype(np.float64)
        middle = pulls * (UNIT / 2)
        allowed: Mask = np.abs(noised.astype(np.float64) - middle) <= middle + self._slack(pulls)
        furthest = at_release * (MAX_GAP - 1) if self._widest is None else self._widest
        allowed &= now - at_release <= furthest
        return allowed

    def _slack(self, pulls: NDArray[np.float64]) -> NDArray[np.float64]:
        """In grid steps, rounded up as the scale itself is; a power may be wrong in its last bit."""
        steps: NDArray[np.float64] = np.ceil(self.scales * (UNIT * np.power(pulls, self._exponent) + 1)) + 1
        return steps

    def _make(self, size: int) -> None:
        pulls = np.arange(size)
        slack = self._slack(pulls.astype(np.float64)).astype(np.int64)
        slack[0] = 0
        self.low = -slack
        self.span = (pulls * UNIT + 2 * slack).astype(np.uint64)
        self.last = self._lasts(pulls)

    def _lasts(self, pulls: Columns) -> Columns:
        if self._series is None or self._widest is None:
            return pulls * MAX_GAP
        if self.always:
            return pulls
        last = np.full(len(pulls), -1)
        last[0] = 0
        thresholds = np.array(self._series.thresholds(len(pulls) - 1), dtype=np.int64)
        if len(thresholds):  # the threshold after the last of them is beyond the table, and so is all before it
            last[thresholds] = np.append(thresholds[1:] - 1, thresholds[-1] + self._widest)
        return last

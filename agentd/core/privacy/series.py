"""When a source releases, and with how much noise: the corrected series of the paper.

With W_0 = 0 the thresholds are

    W_{i+1} = min{ x ≥ W_i + 1 : Σ_{j=W_i+1..x} j^(−v/2) ≥ 1 / (ε·x^(v/2)) },   1 < v < 1.5.

A release after n pulls costs n^(−v/2). At a threshold x the rule says x^(−v/2) ≤ ε·Σ j^(−v/2) over the pulls
since the threshold before, so the costs telescope: after t pulls they sum to at most ε·Σ_{j≤t} j^(−v/2), which is
at most ε·t^(1−v/2)/(1−v/2). The paper's own text has the exponent v and an undefined y′, and compares pull counts
with the gaps between thresholds; neither telescopes. The gaps tend to 1/ε; for ε ≥ 1 every pull releases.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction

from agentd.core.grid import UNIT

DEFAULT_V = 1.1
"""The paper's privacy constant v: more of it means more noise per release."""


class ReleaseWalk:
    """One arm's way along the series, pull by pull: constant cost and memory, however far it goes."""

    __slots__ = ("_epsilon", "_exponent", "_sum", "due", "pulls")

    def __init__(self, epsilon: float, v: float = DEFAULT_V) -> None:
        require_epsilon(epsilon)
        require_v(v)
        self._epsilon = epsilon
        self._exponent = v / 2
        self._sum = 0.0  # Σ j^(−v/2) from the last threshold to the pull that comes next
        self.pulls = -1
        """How many were counted."""
        self.due = False
        """Whether the pull that comes next is a threshold."""
        self.step()

    def step(self) -> bool:
        """Count one more pull; tell whether it is a threshold."""
        reached = self.due
        if reached:
            self._sum = 0.0
        self.pulls += 1
        power = math.pow(self.pulls + 1, self._exponent)
        # Both sides divide by the same rounded power: with ε = 1 every x is a tie, and x**(−v/2) on the left
        # would lose one tie in seven, and so that release, to its last bit.
        self._sum += 1 / power
        self.due = self._sum >= 1 / (self._epsilon * power)
        return reached


class ReleaseSeries:
    """The release thresholds W_1 < W_2 < … of one (ε, v), found as far as somebody asked, and kept."""

    def __init__(self, epsilon: float, v: float = DEFAULT_V) -> None:
        self._walk = ReleaseWalk(epsilon, v)
        self._thresholds: list[int] = []

    def thresholds(self, limit: int) -> list[int]:
        """Return W_1, W_2, … up to and including `limit`; W_0 = 0 releases nothing and is left out."""
        self._judge_up_to(limit)
        return self._thresholds[: bisect_right(self._thresholds, limit)]

    def _judge_up_to(self, n: int) -> None:
        while self._walk.pulls < n:
            self._judge_next()

    def _judge_next(self) -> None:
        if self._walk.step():
            self._thresholds.append(self._walk.pulls)


def series_scales(epsilon: float, v: float, pulls: int) -> Iterator[int]:
    """The noise scales of what the series releases of an arm in so many pulls, one by one."""
    walk = ReleaseWalk(epsilon, v)
    while walk.pulls < pulls:
        if walk.step():
            yield scale_steps(walk.pulls, v)


def interval_scales(interval: int, v: float, pulls: int) -> Iterator[int]:
    """The same where an arm is released after every so many pulls."""
    return (scale_steps(count, v) for count in range(interval, pulls + 1, interval))


def scale_steps(n: int, v: float = DEFAULT_V) -> int:
    """Return the noise scale, in grid steps, of a release after n pulls: n^(v/2) rewards, rounded up.

    Rounded up, so that what the release costs is not above n^(−v/2). The power is a double, so this holds to one
    part in 2^52; the ledger charges for the integer that was used and not for the formula.
    """
    if n < 1:
        raise ValueError(f"a release needs at least one pull, got {n}")
    require_v(v)
    return math.ceil(UNIT * math.pow(n, v / 2))


def cost(scale: int) -> Fraction:
    """Return the ε of one release: sensitivity over scale, and one reward moves a sum by at most UNIT steps."""
    if scale < 1:
        raise ValueError(f"a noise scale must be a positive number of grid steps, got {scale}")
    return Fraction(UNIT, scale)


def require_epsilon(epsilon: float) -> None:
    """Refuse a nominal ε that is not positive and finite."""
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon must be positive and finite, got {epsilon!r}")


def require_v(v: float) -> None:
    """Refuse a v outside the paper's range."""
    if not 1 < v < 1.5:
        raise ValueError(f"v must lie strictly between 1 and 1.5, got {v!r}")

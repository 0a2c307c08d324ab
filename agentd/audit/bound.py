"""What counts of an event under two inputs prove about ε: exact binomial bounds, in logarithms.

ε-privacy says P(E | one input) ≤ e^ε · P(E | the other) for every event E. Of an event that was fixed beforehand, n
runs of each input give two independent binomial counts. Clopper and Pearson's bounds hold at every n, without any
approximation to a normal distribution, so what is concluded here holds at the stated confidence or better.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_HALVINGS = 60
"""Of an interval that is searched: more than a double has bits to tell apart."""


def log_at_least(k: int, n: int, p: float) -> float:
    """Ln P(X ≥ k) of a binomial X: the exact sum of its terms."""
    if k <= 0 or p >= 1.0:
        return 0.0
    if k > n or p <= 0.0:
        return -math.inf
    return _log_sum(n, k, n, p)


def log_at_most(k: int, n: int, p: float) -> float:
    """Ln P(X ≤ k) of a binomial X."""
    return log_at_least(n - k, n, 1.0 - p)


def lower_bound(k: int, n: int, alpha: float) -> float:
    """The p that k successes of n let nobody believe to be smaller, but with chance alpha."""
    if k == 0:
        return 0.0
    return _crossing(lambda p: log_at_least(k, n, p) >= math.log(alpha))[0]


def upper_bound(k: int, n: int, alpha: float) -> float:
    """The p that k successes of n let nobody believe to be larger, but with chance alpha."""
    return 1.0 - lower_bound(n - k, n, alpha)


def epsilon_bound(likely: tuple[int, int], unlikely: tuple[int, int], alpha: float) -> float:
    """The ε that two counts (k, n) of an event prove at least, but with chance alpha; 0 where they prove none."""
    low = lower_bound(*likely, alpha / 2)
    high = upper_bound(*unlikely, alpha / 2)
    return math.log(low / high) if low > high else 0.0


def p_value(likely: tuple[int, int], unlikely: tuple[int, int], epsilon: float) -> float:
    """The smallest alpha at which two counts (k, n) of an event prove more than this ε.

    Where p ≤ e^ε·q, for every c either q ≥ c or p ≤ e^ε·c. The bounds of both counts exclude that as soon as some c
    makes both counts unlikely; the best c is where they are equally so.
    """
    growth = math.exp(epsilon)

    def first_is_likelier(c: float) -> bool:
        return log_at_least(*likely, growth * c) >= log_at_most(*unlikely, c)

    below, above = _crossing(first_is_likelier)
    worst = min(max(log_at_least(*likely, growth * c), log_at_most(*unlikely, c)) for c in (below, above))
    return min(1.0, 2.0 * math.exp(worst))


def ceiling(runs: int, alpha: float) -> float:
    """The largest ε that so many runs of each input could refute, by an event that divides them without exception.

    Then `p_value` is 2·(e^ε/(1 + e^ε))^runs: not above alpha for every ε up to this one, about ln(runs/ln(2/alpha)).
    """
    share = math.log(alpha / 2) / runs  # ln of e^ε/(1 + e^ε)
    return share - math.log(-math.expm1(share))


def _crossing(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Where in [0, 1] a condition begins to hold: the last place known not to, the first known to."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def _log_sum(n: int, first: int, last: int, p: float) -> float:
    places = np.arange(first, last + 1)
    terms = _log_choose(n)[first : last + 1] + places * math.log(p) + (n - places) * math.log1p(-p)
    largest = float(terms.max())
    return min(0.0, largest + math.log(float(np.exp(terms - largest).sum())))


@lru_cache(maxsize=8)
def _log_choose(n: int) -> NDArray[np.float64]:
    """Ln C(n, k) for every k."""
    return np.array([math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)])

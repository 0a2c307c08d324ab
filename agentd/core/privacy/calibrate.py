"""From a true ε to the paper's nominal one: the largest rate whose releases over a run compose to no more.

The composed ε of an arm depends on how often it was pulled, which nobody knows before the run. These rates keep their
promise, of pure ε, for an arm that is pulled every time, and so for a schedule that is fixed before the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from agentd.core.grid import UNIT
from agentd.core.privacy.series import DEFAULT_V, ReleaseSeries, require_epsilon, scale_steps

_STEPS = 60
"""Halvings of the interval in which the rate is searched: more than a double has bits to tell apart."""


def composed(thresholds: Iterable[int], v: float = DEFAULT_V) -> float:
    """What releases of a running sum after these numbers of pulls cost together; the ledger has it exactly."""
    return math.fsum(UNIT / scale_steps(pulls, v) for pulls in thresholds)


def nominal_private(true: float, pulls: int, v: float = DEFAULT_V) -> float:
    """The nominal ε of private-ucb that costs at most the true ε over so many pulls of an arm."""
    return _largest_rate(lambda rate: composed(ReleaseSeries(rate, v).thresholds(pulls), v) <= true, true)


def nominal_interval(true: float, pulls: int, v: float = DEFAULT_V) -> float:
    """The same of dp-ucb-int, which releases after every ⌈1/ε⌉ pulls; the search ends where it releases nothing."""
    require_epsilon(true)
    interval = 1
    while composed(range(interval, pulls + 1, interval), v) > true:
        interval += 1
    return 1.0 / interval


def _largest_rate(fits: Callable[[float], bool], true: float) -> float:
    """Bisect on a logarithmic scale; what is returned fits, also where fitting is not quite monotone."""
    require_epsilon(true)
    low, high = math.log(true), math.log(true)
    while not fits(math.exp(low)):
        low -= 1.0
    while fits(math.exp(high)) and high < math.log(true) + 4.0:
        high += 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(math.exp(middle)) else (low, middle)
    return math.exp(low)

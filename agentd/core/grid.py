"""Fixed point: rewards and sums are integers on a public grid.

A reward in [0, 1] is quantised once, when it is observed, to an integer 0…UNIT. From there on sums are exact, do not
depend on the order of arrival, and hold no low bits in which a floating-point leak could hide.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

UNIT = 1 << 20
"""Grid steps in one reward unit."""


def quantise(reward: float) -> int:
    """Put a reward in [0, 1] on the grid, to the nearest step (halves go up)."""
    if not 0.0 <= reward <= 1.0:  # also refuses NaN
        raise ValueError(f"a reward must lie in [0, 1], got {reward!r}")
    return math.floor(reward * UNIT + 0.5)


def quantise_all(rewards: NDArray[np.float64]) -> NDArray[np.int64]:
    """Put an array of rewards in [0, 1] on the grid, exactly as `quantise` does one by one."""
    if not (np.all(rewards >= 0.0) and np.all(rewards <= 1.0)):
        raise ValueError("rewards must lie in [0, 1]")
    return np.floor(rewards * UNIT + 0.5).astype(np.int64)

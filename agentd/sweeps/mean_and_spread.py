"""Mean and spread of what was measured several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Spread(NamedTuple):
    """What some repetitions have in common, and how far they lie apart."""

    mean: float
    standard_error: float | None
    """Of the mean; a single repetition has none."""
    standard_deviation: float | None
    least: float
    most: float


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """Of the values that are there; None where none is."""
    there = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(there):
        return None
    deviation = float(there.std(ddof=1)) if len(there) > 1 else None
    error = None if deviation is None else deviation / float(np.sqrt(len(there)))
    return Spread(float(there.mean()), error, deviation, float(there.min()), float(there.max()))

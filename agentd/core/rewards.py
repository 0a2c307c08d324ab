"""How rewards fall around a mean: one entry per distribution, which flags, files and arms then know by its name. Pure.

A coin is compared with its mean. Every other distribution is a piecewise-linear quantile table whose knots are grid
integers; `agentd.runs.arms` deals from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentd.core.grid import UNIT, quantise, quantise_all

Knots = Callable[[float, float, float], NDArray[np.int64]]
"""Quantiles at equal steps of probability, on the grid, from the mean, the spread, and the room to the nearer edge."""

_SEGMENTS = 2_048  # a power of two, so that u · segments is exact and splits without rounding
_CELLS = 16_384


@dataclass(frozen=True, slots=True)
class Distribution:
    """One way in which rewards fall around their mean."""

    name: str
    spread: float | None = None
    """What is taken where nobody says it, in reward units; None: it follows from the mean."""
    knots: Knots | None = None
    """None: a coin, which needs no table."""
    fine: bool = True
    """Whether its table is a large one, of 8 KB per arm."""

    def table(self, mean: float, spread: float | None) -> NDArray[np.int64]:
        """The quantiles of one arm."""
        if self.knots is None or spread is None:
            return np.zeros(0, dtype=np.int64)
        room = min(mean, 1.0 - mean)
        if self.fine and room * UNIT < 1.0:  # less than one grid step to the edge: nothing but a constant fits
            return np.full(_SEGMENTS + 1, quantise(mean), dtype=np.int64)
        return self.knots(mean, spread, room)


def _uniform_knots(mean: float, spread: float, room: float) -> NDArray[np.int64]:
    """Two ends; the spread is half the width."""
    half_width = min(spread, room)
    return quantise_all(np.clip(np.array([mean - half_width, mean + half_width]), 0.0, 1.0))


def _normal_knots(mean: float, deviation: float, room: float) -> NDArray[np.int64]:
    """A normal around its mean, cut off at equal distances on both sides, so that the mean stays."""
    reach = min(room, 6.0 * deviation)
    edges = np.linspace(mean - reach, mean + reach, _CELLS + 1)
    middles = (edges[1:] + edges[:-1]) / 2.0
    return _quantiles(edges, -0.5 * ((middles - mean) / deviation) ** 2)


def _beta_knots(mean: float, deviation: float, room: float) -> NDArray[np.int64]:
    """A beta with the given mean and deviation, or the largest deviation at which it keeps a single peak."""
    strength = max(mean * (1.0 - mean) / deviation**2 - 1.0, 1.0 / room)  # a + b, with a ≥ 1 and b ≥ 1
    deviation = math.sqrt(mean * (1.0 - mean) / (strength + 1.0))
    edges = np.linspace(max(0.0, mean - 20.0 * deviation), min(1.0, mean + 20.0 * deviation), _CELLS + 1)
    middles = (edges[1:] + edges[:-1]) / 2.0
    a, b = mean * strength, (1.0 - mean) * strength
    return _quantiles(edges, (a - 1.0) * np.log(middles) + (b - 1.0) * np.log1p(-middles))


def _quantiles(edges: NDArray[np.float64], log_density: NDArray[np.float64]) -> NDArray[np.int64]:
    """Invert a density given at the middles of equal cells, by the midpoint rule."""
    mass = np.concatenate([[0.0], np.cumsum(np.exp(log_density - log_density.max()))])
    probability = np.arange(_SEGMENTS + 1) / _SEGMENTS
    # The outermost quantiles would stretch the end segments over the whole tail. An eighth of a segment before
    # the end, the segment's middle is the mean of an exponential tail (ln 8 / 2 ≈ 1): tails keep their weight.
    probability[0], probability[-1] = 0.125 / _SEGMENTS, 1.0 - 0.125 / _SEGMENTS
    return quantise_all(np.clip(np.interp(probability, mass / mass[-1], edges), 0.0, 1.0))


DISTRIBUTIONS = {
    each.name: each
    for each in (
        Distribution("bernoulli", fine=False),
        Distribution("beta", 0.2, _beta_knots),
        Distribution("uniform", 0.25, _uniform_knots, fine=False),
        Distribution("normal", 0.1, _normal_knots),
    )
}
"""Every distribution by the name that `--reward` knows it by."""


def register_distribution(distribution: Distribution) -> Distribution:
    """Let arms be of one more distribution; ValueError where the name is taken."""
    if DISTRIBUTIONS.setdefault(distribution.name, distribution) is not distribution:
        raise ValueError(f"there is a distribution {distribution.name!r} already")
    return distribution

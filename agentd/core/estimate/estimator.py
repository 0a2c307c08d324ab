"""What an estimator is: a rule from an arm's histograms to one robust mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agentd.core.estimate.histogram import Halves
from agentd.core.estimate.levels import Confidence
from agentd.core.grid import UNIT


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean in grid steps, and whether the estimator had to fall back to a simpler rule to give one."""

    value: float
    fallback: bool


EMPTY = Estimate(0.0, True)
"""The estimate of no samples at all."""


class Estimator(Protocol):
    """A mean of samples of which a share epsilon may be anything."""

    @property
    def name(self) -> str:
        """Name it as `--estimator` does."""
        ...

    def estimate(self, halves: Halves, confidence: Confidence, epsilon: float) -> Estimate:
        """Estimate the mean of the honest samples, in grid steps."""
        ...


def mean_on_grid(total: int, count: int) -> float:
    """Divide a sum in grid steps by its count and keep the result in [0, UNIT], whatever the histograms hold."""
    return min(max(total / count, 0.0), float(UNIT))


def pooled_mean(halves: Halves) -> float:
    """Average the samples of both halves, of which there must be some."""
    return mean_on_grid(halves.total, halves.size)

"""The distribution that noise must have, as tests hold samplers against it."""

from __future__ import annotations

import math
from fractions import Fraction


def probability(x: int, scale: int | float | Fraction) -> float:
    """Return P(X = x) of discrete Laplace noise."""
    # (1−q)/(1+q) = tanh(1/(2·scale)) keeps all its digits where 1−q would lose them.
    return math.tanh(0.5 / float(scale)) * math.exp(-abs(x) / float(scale))


def cumulative(x: int, scale: int | float | Fraction) -> float:
    """Return P(X ≤ x) of discrete Laplace noise."""
    above_one = 1.0 + math.exp(-1.0 / float(scale))
    if x < 0:
        return math.exp(x / float(scale)) / above_one
    return 1.0 - math.exp(-(x + 1) / float(scale)) / above_one

"""The confidence level δ = 1/t² of a trial, and the logarithms of it that the estimators use.

The logarithms are taken here, once per trial and by `math.log` only. Everything after them is made of operations that
IEEE 754 rounds exactly (+ − × ÷ √ and comparisons), so an estimate of one pair and an estimate of thousands of pairs
at once agree to the last bit; a vectorised logarithm would not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Confidence:
    """The failure probability an estimate may have, and its logarithms."""

    delta: float
    log_inverse: float
    """ln(1/δ)"""
    log_four_inverse: float
    """ln(4/δ)"""

    @classmethod
    def at(cls, trial: int) -> Confidence:
        """Allow trial t = 1, 2, … a failure probability of 1/t²."""
        if trial < 1:
            raise ValueError(f"trials count from 1, got {trial}")
        log_inverse = 2.0 * math.log(trial)
        return cls(1.0 / (trial * trial), log_inverse, math.log(4.0) + log_inverse)

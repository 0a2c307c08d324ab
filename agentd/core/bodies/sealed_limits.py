"""What records of sealed batches can be, from the ε that they were noised for.

A record sums B closed batches of n₁, n₂, … pulls, N in all. With h = 8/ε² a batch weighs w = n/(n + h) and is worth
a = w·n samples, A in all; S = Σ w·y, and y is what the batch paid plus noise X of scale b = 1/ε. Whatever the batches,

    A ≤ N²/(N + h)             one batch of all pulls would be worth most
    A ≥ N²/(N + B·h)           batches of equal size are worth least
    |S − A/2| ≤ A/2 + slack    rewards lie in [0, 1], and the noise Z = Σ w·X reaches `slack` once in 2·10⁹ records

How far Z reaches. From n − a = h·w follows Σw = (N − A)/h, and Σw² ≤ V = A·(N − A)/(h·N): with f(w) = w/(1 − w) we have
A/h = Σ w·f(w) ≥ Σw·f(Σw²/Σw) because f is convex. No w exceeds m, the least of √V, what N − B + 1 pulls weigh, and
Σw/B + √((V − (Σw)²/B)·(B − 1)/B), which is how far one of B numbers can be from their mean (Samuelson).
For |θ·w·b| < 1, E exp(θ·w·X) ≤ 1/(1 − (θ·w·b)²), more so for noise on a grid. A batch's pulls are fixed before its
noise is drawn, whatever was released before, so exp(θ·Z − ψ) with ψ = −Σ ln(1 − (θ·w·b)²) is a supermartingale, and
θ·Z > ψ + L has chance e^−L at most. As −ln(1 − x)/x grows with x, ψ ≤ −V/m²·ln(1 − (θ·m·b)²), which is public:

    slack = (L − V/m²·ln(1 − (θ·m·b)²))/θ    about 2b·√(V·L): it grows like √B

for whichever θ we like, if it does not depend on the noise. The best one depends on N, B and A, and these on what was
released before; so it is taken from J powers of 2^(1/4), and L = ln(4·10⁹·J) pays for all of them and for both sides.
One batch alone needs none of this: |X| > L·b has chance e^−L, with L = ln(2·10⁹).

Two records of an origin about an arm differ by closed batches, so their difference passes the same test. A record is
judged by itself and by its difference to one other: an honest one is refused once in 10⁹ at most.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies.kind import Mask, all_of
from agentd.core.grid import UNIT
from agentd.core.message import MAX_TRIAL, Columns
from agentd.core.privacy.sealing import Weighting

REFUSED = 1e-9
"""Of honest records, the share that is refused at most, by two tests together."""
_PRECISION = 1e-9
"""Relative error that the few double operations below stay far under."""
_PER_OCTAVE = 4
_LEAST_OCTAVE = -14
"""√(L/(L + B))/m is no less than 2 to this, for the most batches that a run has trials for."""
_LARGEST_WORTH = 8.0
"""Where ε is unknown: a batch's noise has, squared, a weighted scale of a/8 at most, whatever ε is."""

Floats = NDArray[np.float64]


class Amounts(NamedTuple):
    """The numbers of some records, as doubles; samples in samples, and what rounding can have added to them."""

    pulls: Floats
    batches: Floats
    samples: Floats
    rounding: Floats


@lru_cache(maxsize=64)
def limits_of(epsilon: float | None) -> SealedLimits:
    """The same numbers for all that ask for the same ε."""
    return SealedLimits(epsilon)


class SealedLimits:
    """What pulls, batches, samples and sums can be, for one ε; None: any."""

    def __init__(self, epsilon: float | None) -> None:
        weighting = None if epsilon is None else Weighting.of(epsilon)
        self._handicap = None if weighting is None else weighting.handicap / UNIT
        self._scale = 1.0 if weighting is None else weighting.scale / UNIT
        # 1/m is what 1/w is for one pull, at most; where ε is unknown, a record is worth a step of the grid at least.
        octaves = math.log2(1 + (UNIT if self._handicap is None else self._handicap))
        self._most_octave = math.ceil(octaves * _PER_OCTAVE) / _PER_OCTAVE
        thetas = _PER_OCTAVE * (self._most_octave - _LEAST_OCTAVE) + 1
        self._one = math.log(2 / REFUSED)
        self._many = math.log(4 * thetas / REFUSED)
        self._surely = 0.0 if weighting is None else self._one * self._scale

    def allow(self, amounts: Columns) -> Mask:
        """Whether pulls, batches, samples and sum can be those of closed batches, at least one."""
        counted: Mask = (amounts[:, 1] >= 1) & (amounts[:, 1] <= amounts[:, 0]) & (amounts[:, 0] <= MAX_TRIAL)
        columns = amounts.T.astype(np.float64, order="C")
        pulls, batches, samples, total = columns if all_of(counted) else np.where(counted, columns, 1.0)
        samples /= UNIT
        total /= UNIT
        handicap = self._handicap or 0.0
        most = pulls * pulls / (pulls + handicap)
        evenly = pulls / (pulls + batches * handicap)  # what each of batches of equal size weighs
        least = 0.0 if self._handicap is None else pulls * evenly
        rounding = batches / UNIT + most * _PRECISION  # every batch was rounded, by half a step
        verdict: Mask = counted & (samples > 0) & (samples <= most + rounding) & (samples >= least - rounding)
        outside = np.abs(total - samples / 2) - samples / 2 - rounding
        # The slack is more than what one batch of mean size has, which is less work and mostly enough.
        if not all_of(outside <= self._surely * evenly):
            verdict &= outside <= self.slack(Amounts(pulls, batches, np.where(verdict, samples, most), rounding))
        return verdict

    def slack(self, told: Amounts) -> Floats:
        """How far outside [0, A] the noise of honest batches can carry a sum, in rewards."""
        squares, widest = self._spread(told)
        number = squares / (widest * widest)
        theta = np.sqrt(self._many / (self._many + number)) / widest
        octave = np.floor(np.log2(theta) * _PER_OCTAVE) / _PER_OCTAVE
        theta = np.exp2(np.clip(octave, _LEAST_OCTAVE, self._most_octave))
        many = (self._many - number * np.log1p(-np.square(theta * widest))) / theta
        if self._handicap is None:
            return np.asarray(many)
        one = self._one * told.pulls / (told.pulls + self._handicap)
        return np.asarray(self._scale * np.where(told.batches == 1, one, many))

    def _spread(self, told: Amounts) -> tuple[Floats, Floats]:
        """Σw² at most, and the largest w at most, or with unknown ε those of w·b."""
        pulls, batches, samples, rounding = told
        if self._handicap is None:
            squares = (samples + rounding) / _LARGEST_WORTH
            return squares, np.sqrt(squares)
        largest = pulls - batches + 1
        widest = largest / (largest + self._handicap)
        squares = batches * widest * widest
        if self._handicap:
            lost = np.maximum(pulls - samples, 0.0)
            squares = np.minimum(squares, (samples + rounding) * (lost + rounding) / (self._handicap * pulls))
            least = np.maximum(lost - rounding, 0.0) / self._handicap
            unevenly = np.maximum(squares - least * least / batches, 0.0) * (batches - 1) / batches
            widest = np.minimum(widest, (lost + rounding) / (self._handicap * batches) + np.sqrt(unevenly))
        return squares, np.minimum(widest, np.sqrt(squares))

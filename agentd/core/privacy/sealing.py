"""Batches that are released once: the raw side, the released side, and the one door between them.

An `OpenBatch` holds raw rewards. Its sum has no accessor, is in no representation, and is read in one place: `seal`,
which adds the noise, hands out a `SealedBatch` and empties the batch. (`saved_batches` hands it to the journal, which
never leaves the machine: after a crash the batch must go on as it was.) A `SealedBatch` is a released value: everything
computed from it is post-processing and costs nothing.

How much a batch counts. A batch of n rewards in [0, 1] has a sum of variance at most n/4; discrete Laplace noise of
scale 1/ε adds at most 2/ε². So with h = 8/ε² the released sum y has variance at most (n + h)/4, and weighting by
w = n/(n + h) makes S = Σ w·y and A = Σ w·n satisfy E S = A·μ and Var S ≤ A/4: A is the number of noiseless samples that
the released batches are worth.

Everything on the grid is an integer, rounded to the nearest step with halves up, by integer arithmetic only: engines
that agree on n and y agree on A and S to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from agentd.core.grid import UNIT
from agentd.core.privacy.ledger import Ledger
from agentd.core.privacy.release import DrawnNoise, Noised, release_of
from agentd.core.privacy.series import require_epsilon
from agentd.core.upwards import at_least


class OpenBatch:
    """Rewards of one arm that nobody has heard of yet."""

    __slots__ = ("_secret", "pulls")

    def __init__(self) -> None:
        self.pulls = 0
        """How many rewards are in; which pulls these were follows from released values, so it is no secret."""
        self._secret = 0

    def __repr__(self) -> str:
        return f"OpenBatch(pulls={self.pulls})"

    def add(self, reward: int) -> None:
        """Take in one reward, clamped to the grid: the noise is made for rewards that move a sum by UNIT at most."""
        self.pulls += 1
        self._secret += min(max(reward, 0), UNIT)

    def seal(self, ledger: Ledger, drawn: DrawnNoise) -> SealedBatch:
        """Release the batch, once: what is handed out is paid for and noised, what stays behind is empty."""
        if not self.pulls:
            raise ValueError("an empty batch has nothing to release")
        sealed = SealedBatch(self.pulls, release_of(ledger, drawn, self._secret))
        self.pulls = self._secret = 0
        return sealed


def saved_batches(batches: Sequence[OpenBatch]) -> dict[str, list[int]]:
    """Open batches for the agent's own disk, and for nothing else."""
    return {"open_pulls": [batch.pulls for batch in batches], "open_sums": [batch._secret for batch in batches]}


def restored_batch(pulls: int, total: int) -> OpenBatch:
    """An open batch as it was kept; ValueError where none can have looked like that."""
    if not (type(pulls) is type(total) is int and pulls >= 0 and 0 <= total <= pulls * UNIT):
        raise ValueError(f"no open batch of {pulls} pulls looks like this")
    batch = OpenBatch()
    batch.pulls, batch._secret = pulls, total
    return batch


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """A closed batch as everybody may know it."""

    pulls: int
    noised: Noised
    """The sum of its rewards plus noise, in grid steps."""


@dataclass(frozen=True, slots=True)
class Weighting:
    """What follows from ε: the noise scale, and what a sealed batch of n pulls is worth."""

    scale: int
    """Of the noise, in grid steps."""
    handicap: int
    """h in grid steps: how many samples' worth of variance the noise adds to a batch."""

    @classmethod
    def of(cls, epsilon: float) -> Weighting:
        """For one release per reward at this ε; the scale is rounded up, so that a release never costs more."""
        require_epsilon(epsilon)
        exact = Fraction(epsilon)
        return cls(math.ceil(UNIT / exact), nearest(8 * UNIT * exact.denominator**2, exact.numerator**2))

    def samples(self, pulls: int) -> int:
        """A = n²/(n + h): the noiseless samples that a batch is worth, in grid steps."""
        return nearest((pulls * UNIT) ** 2, pulls * UNIT + self.handicap)

    def weighed(self, pulls: int, noised: int) -> int:
        """w·y = y·n/(n + h), in grid steps."""
        return nearest(pulls * UNIT * noised, pulls * UNIT + self.handicap)


def share_of(epsilon: float, rewards: int) -> float:
    """The ε to noise each reward for, so that so many of them cost no more than ε together, exactly."""
    share = epsilon / rewards
    while rewards > 1 and rewards * Fraction(UNIT, math.ceil(UNIT / Fraction(share))) > Fraction(epsilon):
        share = math.nextafter(share, 0.0)
    return share


def cost_of_rewards(epsilon: float, rewards: int) -> float:
    """What so many rewards cost together that are each noised for ε and released once; rounded up, but only once."""
    return at_least(rewards * UNIT, Weighting.of(epsilon).scale)


def nearest(numerator: int, denominator: int) -> int:
    """The whole number nearest to a ratio with a positive denominator, halves up."""
    return (2 * numerator + denominator) // (2 * denominator)

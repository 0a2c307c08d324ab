"""What a liar knows, what it claims, and when: the parts that every attack on values is made of.

An attack decides of which arm its liar speaks next and how well that arm is to look. `forger` turns such claims into
bodies of each kind that pass every check: no more pulls than trials, batches worth what their pulls are worth, sums no
further outside than noise reaches.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentd.core.attacks.basis.honest_pool import HonestPool

Draws = Callable[[int], NDArray[np.float64]]
"""Uniform numbers in [0, 1), as many as asked for."""

BUSY_UNTIL = 16
"""Up to this trial a liar reports in every round: early records meet no evidence yet."""
PACE = 1.25
"""After that each report comes so many times as late as the one before."""
DEVIATIONS = 2.0
"""How far from what the honest say those stay who know it: less would not pay, more would show."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a liar knows."""

    own: int
    means: tuple[float, ...]
    """What the arms pay; liars are given that, because a rule must stand those who do."""
    duty: int | None = None
    """The arm that it must report first, where the algorithm has such a duty."""
    pool: HonestPool | None = None
    """All that honest agents have released until the round before; None: nobody tells it."""

    @property
    def from_the_best(self) -> list[int]:
        """The arms, the worst last."""
        return sorted(range(len(self.means)), key=lambda arm: (-self.means[arm], arm))

    @property
    def best(self) -> int:
        return self.from_the_best[0]

    @property
    def second(self) -> int:
        """The best of the wrong arms."""
        return self.from_the_best[min(1, len(self.means) - 1)]

    @property
    def worst(self) -> int:
        return self.from_the_best[-1]


class Claim(NamedTuple):
    """Of which arm to speak next, and what all that was said of it is to look like then."""

    arm: int
    mean: float
    deviations: float = 0.0
    """So many standard deviations of an honest record beside the mean."""
    against: float = math.inf
    """Samples that the mean itself rests on; they widen the deviation."""


class Scheme(ABC):
    """One attack of one liar."""

    knows_everything: ClassVar[bool] = False
    """Whether it must be told what honest agents release, which no liar of a real network can know in time."""
    first: ClassVar[int] = 1
    """The trial of its first report."""

    def __init__(self, known: Known, draws: Draws) -> None:
        self.known = known
        self._draws = draws

    @abstractmethod
    def claim(self, trial: int) -> Claim | None:
        """What to say at a trial that is due; None: nothing."""

    def after(self, trial: int) -> int:
        """The trial of the report after this one, where a report may tell of many pulls."""
        return trial + 1 if trial < BUSY_UNTIL else math.ceil(trial * PACE)


class InTurn(Scheme):
    """A scheme that makes the same claims again and again, one after the other."""

    def __init__(self, known: Known, draws: Draws) -> None:
        super().__init__(known, draws)
        self._turn = 0

    @abstractmethod
    def claims(self) -> Sequence[Claim]:
        """All of them, in their order."""

    def claim(self, trial: int) -> Claim | None:  # noqa: ARG002
        """The next one."""
        claims = self.claims()
        self._turn += 1
        return claims[(self._turn - 1) % len(claims)]


class Adaptive(InTurn):
    """A scheme that stays as near to what the honest say as they are to each other."""

    knows_everything = True

    def beside(self, arm: int, deviations: float) -> Claim:
        """What the honest say of an arm, and so many deviations more; before they say anything, the truth."""
        pool = self.known.pool
        if pool is None or not pool.samples[arm]:
            return Claim(arm, self.known.means[arm], deviations)
        return Claim(arm, pool.mean(arm), deviations, pool.worth(arm))

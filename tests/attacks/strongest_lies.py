"""The strongest lies found that one agent can tell in its own name: each passes every check, and costs all it can.

A lie is told trial by trial: `hears` is given what others say, `says` tells the body of a trial, or None for nothing.
The liar knows the arms and claims as many pulls as it has trials. How far noise reaches is what the checks themselves
believe (`agentd.core.bodies`), less a hair.

What helps a liar most is that sums are simply added up: whoever says early that the best arms pay nothing keeps
everybody from looking again, and what is said of an arm that nobody pulls any more meets no evidence.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS, Kind
from agentd.core.grid import UNIT
from agentd.core.privacy.sealing import Weighting
from agentd.core.privacy.series import ReleaseSeries, scale_steps

Body = tuple[int, ...]


class Lie(ABC):
    """What every lie knows: the arms, and what it has claimed of them."""

    kind: Kind

    def __init__(self, means: Sequence[float], epsilon: float = 1.0, v: float = 1.1) -> None:
        self.arms = len(means)
        self.means = np.array(means)
        self.epsilon, self.v = epsilon, v
        self.from_the_best = np.argsort(-self.means, kind="stable").tolist()
        """The arms, the worst last."""
        self.worst = self.from_the_best[-1]
        self.pulls = [0] * self.arms
        """Claimed of each arm."""
        self.sums = [0] * self.arms

    def hears(self, origin: int, body: Body) -> None:
        """Take in what another agent says; most lies need not know."""
        del origin, body

    @abstractmethod
    def says(self, trial: int) -> Body | None:
        """The body of this trial."""


class TotalsLie(Lie):
    """coop-ucb: a third of the pulls, on the best arm, never paid; the others, on the worst, always did."""

    kind = TOTALS

    def says(self, trial: int) -> Body:
        self.pulls[self.from_the_best[0]] = trial // 3
        self.pulls[self.worst] = trial - trial // 3
        self.sums[self.worst] = self.pulls[self.worst] * UNIT
        return tuple(number for pair in zip(self.pulls, self.sums, strict=True) for number in pair)


class SampleLie(Lie):
    """byzantine-ucb: the two best arms, in turn, never pay."""

    kind = SAMPLE

    def says(self, trial: int) -> Body:
        return self.from_the_best[trial % 2], 0


class ReleasedLie(Lie):
    """private-ucb: all arms alike, and every release as far outside as its one draw of noise may lie.

    Noise of scale n^(v/2) may reach further than n rewards for a long time, so that no arm needs many pulls.
    """

    kind = RELEASED

    def __init__(self, means: Sequence[float], epsilon: float = 1.0, v: float = 1.1) -> None:
        super().__init__(means, epsilon, v)
        self._series = ReleaseSeries(epsilon, v)

    def reach(self, pulls: int) -> int:
        """How far outside a sum may lie, in grid steps."""
        return math.floor(math.log(1e9 * self.arms) * scale_steps(pulls, self.v)) - 1

    def says(self, trial: int) -> Body:
        for turn, arm in enumerate(self.from_the_best):
            room = (trial + self.arms - 1 - turn) // self.arms
            released = self._series.thresholds(room)
            if released:
                pulls = self.pulls[arm] = released[-1]
                self.sums[arm] = pulls * UNIT + self.reach(pulls) if arm == self.worst else -self.reach(pulls)
        cells = zip(self.pulls, self.pulls, self.sums, strict=True)
        return tuple(number for cell in cells for number in cell)


class SealedLie(Lie):
    """sealed: tiny batches with all the bad luck there can be, each of the arm that the others take for the best now.

    Small batches come early, when nobody knows much, and bring noise that counts for more than they are worth. When the
    worst arm leads, it is praised in the same way.
    """

    kind = SEALED
    SMALLEST = 2
    """Pulls of a batch."""

    def __init__(self, means: Sequence[float], epsilon: float = 1.0, v: float = 1.1) -> None:
        super().__init__(means, epsilon, v)
        self._weighting = Weighting.of(epsilon)
        self.batches = [0] * self.arms
        self.samples = [0] * self.arms
        self._heard: dict[tuple[int, int], Body] = {}

    def reach(self, pulls: int, batches: int, samples: int) -> int:
        """How far outside the sum of such batches may lie, in grid steps."""
        from agentd.core.bodies.sealed_limits import Amounts, limits_of

        numbers = (np.array([float(number)]) for number in (pulls, batches, samples / UNIT, batches / UNIT))
        slack = float(limits_of(self.epsilon).slack(Amounts(*numbers))[0])
        return math.floor(slack * UNIT * (1 - 1e-9)) - batches

    def hears(self, origin: int, body: Body) -> None:
        arm, pulls, *_ = body
        if pulls > self._heard.get((origin, arm), (0, 0))[1]:
            self._heard[origin, arm] = body

    def says(self, trial: int) -> Body | None:
        more = trial - sum(self.pulls)
        if more < self.SMALLEST:
            return None
        arm, worth = self._leader(), self._weighting.samples(more)
        luck = self.reach(more, 1, worth)
        self.pulls[arm] += more
        self.batches[arm] += 1
        self.samples[arm] += worth
        most = self.reach(self.pulls[arm], self.batches[arm], self.samples[arm])
        if arm == self.worst:
            self.sums[arm] = min(self.sums[arm] + worth + luck, self.samples[arm] + most)
        else:
            self.sums[arm] = max(self.sums[arm] - luck, -most)
        return arm, self.pulls[arm], self.batches[arm], self.samples[arm], self.sums[arm]

    def _leader(self) -> int:
        """The arm with the largest mean and a deviation more, of all that was said; before that, the best one."""
        samples, sums = list(self.samples), list(self.sums)
        for arm, _, _, worth, total in self._heard.values():
            samples[arm] += worth
            sums[arm] += total
        known = [max(each / UNIT, 0.5) for each in samples]
        likely = [total / UNIT / each + 0.5 / math.sqrt(each) for total, each in zip(sums, known, strict=True)]
        return int(np.argmax(np.where(np.array(samples) > 0, likely, 2.0 + self.means)))


class SealedSpoiler(SealedLie):
    """sealed: the best arm never pays, from the first record on, and all pulls were of it; no luck is needed for that.

    Since of luck with noise hardly anything counts (`records.counted_sum`), this costs more than luck does: whoever
    says early that the best arm pays nothing keeps everybody from looking again.
    """

    SMALLEST = 8

    def reach(self, pulls: int, batches: int, samples: int) -> int:
        return 0

    def _leader(self) -> int:
        return int(np.argmax(self.means))


LIES: dict[str, type[Lie]] = {
    "coop-ucb": TotalsLie,
    "private-ucb": ReleasedLie,
    "byzantine-ucb": SampleLie,
    "sealed": SealedSpoiler,
}
"""The strongest lie against each algorithm."""

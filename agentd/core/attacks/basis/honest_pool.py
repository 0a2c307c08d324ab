"""What all honest agents have released, added up: what an adaptive liar is told in memory, where nobody can stop it."""

from __future__ import annotations

from collections.abc import Sequence

from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS, Kind
from agentd.core.grid import UNIT


class HonestPool:
    """Per arm the samples and the sum of everything that honest agents told, each once; both in grid steps."""

    def __init__(self, arms: int) -> None:
        self.samples = [0] * arms
        self.sums = [0] * arms
        self._held: dict[tuple[int, int], tuple[int, int]] = {}

    def mean(self, arm: int) -> float:
        """What the honest say that an arm pays; they must have said something."""
        return self.sums[arm] / self.samples[arm]

    def worth(self, arm: int) -> float:
        """How many samples that rests on."""
        return self.samples[arm] / UNIT

    def hear(self, agent: int, kind: Kind, body: Sequence[int]) -> None:
        """Take in what an honest agent told of its own."""
        if kind is SAMPLE:
            arm, reward = body
            self.add(arm, UNIT, reward)
        elif kind is SEALED:
            arm, pulls, _, samples, total = body
            if pulls:
                self._replace(agent, arm, samples, total)
        elif kind in (TOTALS, RELEASED):
            width = len(kind.fields)
            for arm in range(len(self.samples)):
                *_, pulls, total = body[arm * width : (arm + 1) * width]
                self._replace(agent, arm, pulls * UNIT, total)

    def add(self, arm: int, samples: int, total: int) -> None:
        """So much more was told of an arm."""
        self.samples[arm] += samples
        self.sums[arm] += total

    def _replace(self, agent: int, arm: int, samples: int, total: int) -> None:
        before = self._held.get((agent, arm), (0, 0))
        self._held[agent, arm] = (samples, total)
        self.add(arm, samples - before[0], total - before[1])

"""What is audited: an algorithm with its settings, who listens, what breaks, and the two inputs of every run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from agentd.core.bodies import RELEASED, SEALED
from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS, PolicySettings

TARGET = 0
"""The id of the agent under audit."""
KNOWN = (0, UNIT // 2, UNIT)
"""What all other rewards of a run may be. Whoever attacks knows them, and may have chosen them: a mistake may show in
sums of nothing only, or of halves, or of ones."""


def auditable() -> tuple[str, ...]:
    """Algorithms that tell something that statistics can read, and claim an ε for it."""
    return tuple(name for name, a in ALGORITHMS.items() if a.noised and a.tells in (SEALED, RELEASED))


class Input(NamedTuple):
    """What both inputs of a run have in common, and everybody knows."""

    flipped: int
    """The trial whose reward is 0 in one input and 1 in the other."""
    known: int
    """Every other reward."""

    def reward(self, side: int, trial: int) -> int:
        """What a trial pays, whichever arm is pulled."""
        return side * UNIT if trial == self.flipped else self.known


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration; with a side (which input) and a number it describes one run completely, but for noise."""

    algorithm: str = "sealed"
    epsilon: float = 1.0
    arms: int = 2
    trials: int = 0
    adversary: bool = True
    restart: bool = False
    fault: str | None = None
    seed: int = 0
    """Of inputs, decision coins and the moments of death. Noise has no seed."""
    closing: tuple[int, ...] = ()
    """Trials that are likely to close a batch: every second run flips one of these, where mistakes like to hide."""

    @property
    def policy(self) -> PolicySettings:
        """The part the algorithm reads."""
        return PolicySettings(arms=self.arms, epsilon=self.epsilon)

    @property
    def name(self) -> str:
        parts = [self.algorithm, f"K = {self.arms}", f"ε = {self.epsilon:g}"]
        parts.append("adversary" if self.adversary else "no adversary")
        if self.restart:
            parts.append("restarts")
        return ", ".join(parts)

    def input_of(self, number: int) -> Input:
        """The input of one run: any trial may be the flipped one, and with it the arm that is pulled there."""
        chance = random.Random(f"{self.seed}/{number}/input")
        flipped = chance.randint(1, max(1, self.trials))
        if self.closing and chance.random() < 0.5:
            flipped = chance.choice(self.closing)
        return Input(flipped, chance.choice(KNOWN))

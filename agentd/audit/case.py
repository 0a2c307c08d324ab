"""What is audited: an algorithm with its settings, who listens, what breaks, and the two inputs."""

from __future__ import annotations

from dataclasses import dataclass

from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS, PolicySettings

TARGET = 0
"""The id of the agent under audit."""
FLIPPED = 1
"""The trial whose reward differs between the two inputs: the first, so that everything after it may depend on it."""
AUDITABLE = tuple(name for name, a in ALGORITHMS.items() if a.noised and a.tells is not None)
"""Algorithms that tell something and claim an ε for it."""


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
    """Of decision coins and of the moments of death. Noise has no seed."""

    @property
    def policy(self) -> PolicySettings:
        """The part the algorithm reads."""
        return PolicySettings(arms=self.arms, epsilon=self.epsilon)

    @property
    def known(self) -> int:
        """Every other reward. Whoever attacks knows them all, and may have chosen them.

        Half a reward leaves both inputs within reach of the same choice. Against noise in floating point nothing is
        better than zeros: then the sum is the noise itself, or the noise plus one.
        """
        return 0 if self.fault == "float-noise" else UNIT // 2

    @property
    def name(self) -> str:
        parts = [self.algorithm, f"K = {self.arms}", f"ε = {self.epsilon:g}"]
        parts.append("adversary" if self.adversary else "no adversary")
        if self.restart:
            parts.append("restarts")
        return ", ".join(parts)


def reward_of(case: Case, side: int, trial: int) -> int:
    """What a trial pays, whichever arm is pulled: 0 or 1 at the flipped one, what is known at all others."""
    return side * UNIT if trial == FLIPPED else case.known

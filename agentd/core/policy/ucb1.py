"""ucb1: every agent alone (Auer, Cesa-Bianchi, Fischer 2002); the baseline of the paper's figures (a) and (b)."""

from __future__ import annotations

from agentd.core.policy.base import Intent, Noiseless, Silent, best_arm
from agentd.core.policy.knobs import PolicySettings


class Ucb1(Silent, Noiseless):
    """Index mean + √(2 ln t / n) on own rewards only."""

    def __init__(self, settings: PolicySettings) -> None:
        self._counts = [0] * settings.arms
        self._sums = [0] * settings.arms

    def choose(self, trial: int) -> int:
        """Each arm once, then the largest index."""
        return best_arm(self._sums, self._counts, trial)

    def observe(self, intent: Intent, reward: int, told: int) -> None:  # noqa: ARG002
        self._counts[intent.arm] += 1
        self._sums[intent.arm] += reward

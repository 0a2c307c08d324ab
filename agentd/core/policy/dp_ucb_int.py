"""dp-ucb-int: every agent alone and private (Tossou & Dimitrakakis 2016); baseline of the paper's figure (a).

The mean an agent acts on is a noised one that is refreshed every f = ⌈1/ε⌉ pulls of the arm, so that the sequence of
actions is private in the rewards. Nothing is sent, but acting on a release spends it, so the ledger counts it.
"""

from __future__ import annotations

import math

from agentd.core.policy.base import PolicySettings, Silent, widened_log
from agentd.core.privacy.laplace import Noise
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.series import scale_steps


class DpUcbInt(Silent):
    """Index (mean noised at the last refresh) + √(2 ln t / n)."""

    def __init__(self, settings: PolicySettings, noise: Noise) -> None:
        arms = settings.arms
        self._interval = math.ceil(1.0 / settings.epsilon)
        self._v = settings.v
        self._noise = noise
        self._counts = [0] * arms
        self._sums = [0] * arms
        self._released_counts = [0] * arms
        self._released_sums = [0] * arms
        self.ledger = Ledger()

    def choose(self, trial: int) -> int:
        """Round robin until every arm had its first refresh, then the largest index."""
        pulls = sum(self._counts)
        if pulls < len(self._counts) * self._interval:
            return pulls % len(self._counts)
        log = widened_log(trial)
        indices = [
            total / at_release + math.sqrt(log / now)
            for total, at_release, now in zip(self._released_sums, self._released_counts, self._counts, strict=True)
        ]
        return indices.index(max(indices))

    def observe(self, trial: int, arm: int, reward: int, told: int) -> None:  # noqa: ARG002
        """Count the reward; refresh the arm's noised sum when its interval is full."""
        self._counts[arm] += 1
        self._sums[arm] += reward
        pulls = self._counts[arm]
        if pulls % self._interval == 0:
            scale = scale_steps(pulls, self._v)
            self.ledger.record(Release(arm, trial, pulls, scale))
            self._released_counts[arm] = pulls
            self._released_sums[arm] = self._sums[arm] + self._noise.draw(arm, scale)

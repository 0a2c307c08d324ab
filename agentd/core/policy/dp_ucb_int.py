"""dp-ucb-int: every agent alone and private (Tossou & Dimitrakakis 2016); baseline of the paper's figure (a).

The mean an agent acts on is a noised one that is refreshed every f = ⌈1/ε⌉ pulls of the arm, so that the sequence of
actions is private in the rewards. Nothing is sent, but acting on a release spends it, so the ledger counts it.
"""

from __future__ import annotations

import math

from agentd.core.grid import UNIT
from agentd.core.policy.base import (
    Intent,
    Released,
    Silent,
    Snapshot,
    all_due,
    saved_rows,
    take_rows,
    widened_log,
)
from agentd.core.policy.knobs import PolicySettings
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.release import DrawnNoise, release_of
from agentd.core.privacy.series import scale_steps

_KEPT = ("counts", "sums", "released_counts", "released_sums")


class DpUcbInt(Silent):
    """Index (mean noised at the last refresh) + √(2 ln t / n)."""

    def __init__(self, settings: PolicySettings) -> None:
        arms = settings.arms
        self._interval = math.ceil(1.0 / settings.epsilon)
        self._v = settings.v
        self._counts = [0] * arms
        self._sums = [0] * arms
        self._released_counts = [0] * arms
        self._released_sums = [0] * arms
        self.ledger = Ledger(budget=settings.epsilon_budget)

    def choose(self, trial: int) -> int:
        """Round robin until every arm had its first refresh, then the largest index."""
        pulls = sum(self._counts)
        if pulls < len(self._counts) * self._interval:
            return pulls % len(self._counts)
        log = widened_log(trial)
        indices = [  # an arm that the budget never let release says nothing: the middle of the range
            (total / at_release if at_release else UNIT / 2) + math.sqrt(log / now)
            for total, at_release, now in zip(self._released_sums, self._released_counts, self._counts, strict=True)
        ]
        return indices.index(max(indices))

    def due(self, trial: int, arm: int) -> Release | None:
        """The arm's noised sum is refreshed when its interval is full."""
        pulls = self._counts[arm] + 1
        return None if pulls % self._interval else Release(arm, trial, pulls, scale_steps(pulls, self._v))

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:  # noqa: ARG002
        """Count the reward; refresh what is due. What the budget refuses leaves the last release to act on."""
        self._counts[intent.arm] += 1
        self._sums[intent.arm] += reward
        return None if intent.noise is None else self._release(intent.noise)

    def snapshot(self) -> Snapshot:
        """Own counts and sums, raw and released."""
        return saved_rows(self, _KEPT)

    def restore(self, snapshot: Snapshot) -> None:
        take_rows(self, _KEPT, snapshot)

    def discard(self, arm: int | None, trial: int) -> tuple[Release, ...]:
        """Go on without the reward: a sum that runs on is released again and again, and each time is charged."""
        return all_due(self, range(len(self._counts)) if arm is None else (arm,), trial)

    def _release(self, drawn: DrawnNoise) -> Released:
        release = drawn.release
        noised = release_of(self.ledger, drawn, self._sums[release.arm])
        self._released_counts[release.arm], self._released_sums[release.arm] = release.pulls, noised
        return Released(release, noised)

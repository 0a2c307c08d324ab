"""byzantine-ucb: Algorithm 3 of the paper; every sample is shared, robust means shrug off the corrupt ones.

Samples are keyed by (origin, trial) and counted once (the paper's errors 5 and 11). Radius and bias are as published
(error 8). The σ√ε in the index is the same for every arm and never changes the choice; it is kept because it is the
paper's index.
"""

from __future__ import annotations

import math

from agentd.core.bodies import SAMPLE, Kind
from agentd.core.estimate import ESTIMATORS, Confidence, Halves, half_of
from agentd.core.grid import UNIT
from agentd.core.message import Batch, Columns, Held, News
from agentd.core.policy.base import Intent, Noiseless
from agentd.core.policy.knobs import PolicySettings


class ByzantineUcb(Noiseless):
    """UCB on robust means of all samples heard."""

    def __init__(self, settings: PolicySettings, own: int) -> None:
        self._own = own
        self._settings = settings
        self._estimator = ESTIMATORS[settings.estimator]
        self._samples = [Halves() for _ in range(settings.arms)]
        self._last = [0, 0]
        self._pulls = 0
        self.estimates = 0
        self.fallbacks = 0

    def choose(self, trial: int) -> int:
        """Each arm once, then the largest robust mean + σ√ε + √(σ ln(1/δ)/n) with δ = 1/t²."""
        if self._pulls < len(self._samples):
            return self._pulls
        confidence = Confidence.at(trial)
        bias = bias_steps(self._settings)
        width = width_steps(self._settings, confidence)
        best, best_index = 0, -math.inf
        for arm, samples in enumerate(self._samples):
            estimate = self._estimator.estimate(samples, confidence, self._settings.contamination)
            index = (estimate.value + bias) + math.sqrt(width / samples.size)
            self.fallbacks += estimate.fallback
            if index > best_index:
                best, best_index = arm, index
        self.estimates += len(self._samples)
        return best

    def observe(self, intent: Intent, reward: int, told: int) -> None:
        """Count the own sample as it was; tell what is to be told."""
        self._pulls += 1
        self._samples[intent.arm].add(half_of(self._own, intent.trial), reward)
        self._last = [intent.arm, told]

    def body(self) -> tuple[Kind, list[int]]:
        return SAMPLE, self._last

    def learn(self, news: News) -> None:
        batch = news.batch
        if batch.kind is SAMPLE:
            halves = (batch.origin + batch.trial) & 1
            arms, rewards = batch.body[:, 0], batch.body[:, 1]
            for arm in sorted(set(arms.tolist())):
                self._samples[arm].add_all(halves[arms == arm], rewards[arms == arm])

    def unlearn(self, wrong: Batch) -> None:
        """Take samples out again of which it turned out that nobody has said them."""
        if wrong.kind is SAMPLE:
            halves = ((wrong.origin + wrong.trial) & 1).tolist()
            for half, (arm, reward) in zip(halves, wrong.body.tolist(), strict=True):
                self._samples[arm].remove(half, reward)

    def forget(self, rows: Columns, held: Held) -> None:
        """Keep what was counted: samples of an older incarnation were real, and each is counted once."""


def bias_steps(settings: PolicySettings) -> float:
    """σ√ε in grid steps."""
    return settings.sigma * math.sqrt(settings.contamination) * UNIT


def width_steps(settings: PolicySettings, confidence: Confidence) -> float:
    """σ ln(1/δ) in grid steps squared: √(width/n) is the paper's radius in grid steps."""
    return settings.sigma * confidence.log_inverse * (UNIT * UNIT)

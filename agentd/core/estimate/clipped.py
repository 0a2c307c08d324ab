"""The clipped mean: the plain mean, whose only defence is that values outside the bounds were refused before.

One liar in range moves it by no more than its share of the samples; for Bernoulli rewards at low contamination it is
as good as any other.
"""

from __future__ import annotations

from agentd.core.estimate.estimator import EMPTY, Estimate, pooled_mean
from agentd.core.estimate.histogram import Halves
from agentd.core.estimate.levels import Confidence


class Clipped:
    """The mean of all samples, kept in [0, UNIT]."""

    name = "clipped"

    def estimate(self, halves: Halves, confidence: Confidence, epsilon: float) -> Estimate:  # noqa: ARG002
        """Average both halves; neither the confidence nor epsilon matters."""
        if not halves.size:
            return EMPTY
        return Estimate(pooled_mean(halves), fallback=False)

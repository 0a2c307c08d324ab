"""Means of possibly contaminated samples, behind one Protocol.

Each estimator exists twice: here for one arm of one agent, and in `vectorised.py` for thousands of (agent, arm) pairs
at once. The two agree bit for bit, so a simulated run takes the decisions that the daemons would take.
"""

from __future__ import annotations

from agentd.core.estimate.clipped import Clipped
from agentd.core.estimate.estimator import Estimate, Estimator
from agentd.core.estimate.histogram import BUCKETS, Halves, X, Y, bucket_of, buckets_of, half_of
from agentd.core.estimate.levels import Confidence
from agentd.core.estimate.trimmed import Trimmed
from agentd.core.estimate.winsorised import Winsorised

_ALL: tuple[Estimator, ...] = (Trimmed(), Winsorised(), Clipped())

ESTIMATORS: dict[str, Estimator] = {estimator.name: estimator for estimator in _ALL}
"""Every estimator by the name that `--estimator` knows it by."""

__all__ = [
    "BUCKETS",
    "ESTIMATORS",
    "Clipped",
    "Confidence",
    "Estimate",
    "Estimator",
    "Halves",
    "Trimmed",
    "Winsorised",
    "X",
    "Y",
    "bucket_of",
    "buckets_of",
    "half_of",
]

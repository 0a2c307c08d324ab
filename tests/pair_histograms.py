"""Histograms of pairs of one agent and one arm each, laid out as the vectorised estimators want them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentd.core.estimate.histogram import BUCKETS, Halves, X, Y
from agentd.core.estimate.vectorised import Floats, PairHistograms


def histograms_of(pairs: Sequence[Halves]) -> PairHistograms:
    """Lay the histograms of many pairs side by side."""
    buckets = sorted({bucket for halves in pairs for bucket in halves.occupied})

    def table(per_pair: list[list[int]]) -> Floats:
        return np.array(per_pair, dtype=np.float64).reshape(len(pairs), BUCKETS).T[buckets]

    return PairHistograms(
        np.array(buckets, dtype=np.int64),
        x_count=table([halves.counts[X] for halves in pairs]),
        x_sum=table([halves.sums[X] for halves in pairs]),
        y_count=table([halves.counts[Y] for halves in pairs]),
        y_sum=table([halves.sums[Y] for halves in pairs]),
    )

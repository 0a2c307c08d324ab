"""The winsorised mean: the extreme samples at both ends are moved inwards, not thrown away.

The share moved at each end is η + √(2η ln(1/δ)/n) + ln(1/δ)/n of all n samples, both halves together, at most ½. In
numbers k = min(⌊share·n⌋, ⌊(n−1)/2⌋): at least the median remains.

On buckets: let `low` be the bucket of the sample of rank k (counted from 0, ascending) and `high` that of rank n−1−k,
the outermost samples that are not moved. Every sample in a bucket below `low` is moved to the mean of `low`, rounded
down to the grid, and every sample above `high` to that of `high`. Samples within `low` and `high` keep their exact
values: they are as near to the quantile as the histogram can tell. So the winsorised sum is an integer and the
estimate does not depend on any order of summation; at a share of ½ it is the mean of the median's bucket to within
one grid step, or lies between the means of two buckets when the median does.
"""

from __future__ import annotations

import math

from agentd.core.estimate.estimator import EMPTY, Estimate, mean_on_grid
from agentd.core.estimate.histogram import Halves
from agentd.core.estimate.levels import Confidence


class Winsorised:
    """The mean of both halves after their extremes are moved inwards."""

    name = "winsorised"

    def estimate(self, halves: Halves, confidence: Confidence, epsilon: float) -> Estimate:
        """Estimate with epsilon as the paper's η; only the absence of samples makes it fall back."""
        size = halves.size
        if not size:
            return EMPTY
        moved = moved_at_each_end(size, confidence, epsilon)
        low, high = _bucket_of_rank(halves, moved), _bucket_of_rank(halves, size - 1 - moved)
        return Estimate(mean_on_grid(_winsorised_sum(halves, low, high), size), fallback=False)


def moved_at_each_end(size: int, confidence: Confidence, epsilon: float) -> int:
    """Count the samples to move at each end, out of size ≥ 1."""
    return min(math.floor(share_moved(size, confidence, epsilon) * size), (size - 1) // 2)


def share_moved(size: int, confidence: Confidence, epsilon: float) -> float:
    """Compute the share of the samples to move at each end, out of size ≥ 1.

    `vectorised.py` repeats this arithmetic operation by operation: change both or neither.
    """
    deviation = math.sqrt(2.0 * epsilon * confidence.log_inverse / size)
    return min(0.5, epsilon + deviation + confidence.log_inverse / size)


def _bucket_of_rank(halves: Halves, rank: int) -> int:
    """Find the bucket of the sample with a rank, from 0 for the smallest to size − 1."""
    buckets = iter(halves.occupied)
    bucket = next(buckets)
    while rank >= halves.count_at(bucket):
        rank -= halves.count_at(bucket)
        bucket = next(buckets)
    return bucket


def _winsorised_sum(halves: Halves, low: int, high: int) -> int:
    """Sum all samples, those outside the buckets low…high as if they lay at the floored mean of the nearer one."""
    floor_of_low = halves.sum_at(low) // halves.count_at(low)
    floor_of_high = halves.sum_at(high) // halves.count_at(high)
    total = 0
    for bucket in halves.occupied:
        if bucket < low:
            total += halves.count_at(bucket) * floor_of_low
        elif bucket > high:
            total += halves.count_at(bucket) * floor_of_high
        else:
            total += halves.sum_at(bucket)
    return total

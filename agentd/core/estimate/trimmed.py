"""The paper's robust trimmed mean: one half of the samples chooses an interval, the other is averaged inside it.

With N = |X|, α = max(ε, ln(1/δ)/N), the interval Z is the shortest that holds at least
⌈|Y|·(1 − 2α − √(2α ln(4/δ)/N) − ln(4/δ)/N)⌉ of the Y, and the estimate is the mean of the X inside Z. Intervals are
runs of buckets, as long as the distance of their last bucket from their first. Of equally short ones the one that
holds the most of the Y is taken, of those the leftmost; the paper allows any, but the leftmost alone would answer 0 for
Bernoulli rewards of mean 0.7 wherever the zeros are enough. Both ends of the shortest run hold a Y, or it would
not be the shortest.

While the number of Y to hold is not positive, or when no X lies in Z, there is no such mean and the mean of all
samples stands in. At t = 1000 that is so below about 130 samples. On Bernoulli rewards the shortest interval is one
point or everything: from there on the estimate is exactly 0 or 1, whichever is commoner among the Y, and only when the
number exceeds the share of the commoner does it become the mean of X; for a mean of 0.7 at t = 1000 that step comes,
with the scatter of Y, between 420 and 600 samples.
"""

from __future__ import annotations

import math

from agentd.core.estimate.estimator import EMPTY, Estimate, mean_on_grid, pooled_mean
from agentd.core.estimate.histogram import BUCKETS, Halves, X, Y
from agentd.core.estimate.levels import Confidence


class Trimmed:
    """The mean of the X inside the shortest run of buckets that holds enough of the Y."""

    name = "trimmed"

    def estimate(self, halves: Halves, confidence: Confidence, epsilon: float) -> Estimate:
        """Estimate by the paper's definition where it is defined, by the mean of all samples elsewhere."""
        if not halves.size:
            return EMPTY
        quota = quota_of_y(halves.sizes[X], halves.sizes[Y], confidence, epsilon)
        if quota > 0:
            count, total = _inside(halves, *_shortest_run(halves, quota))
            if count:
                return Estimate(mean_on_grid(total, count), fallback=False)
        return Estimate(pooled_mean(halves), fallback=True)


def quota_of_y(x_size: int, y_size: int, confidence: Confidence, epsilon: float) -> int:
    """Count the Y that the interval must hold; none, where either half is empty."""
    return math.ceil(y_size * fraction_of_y(x_size, confidence, epsilon)) if x_size else 0


def fraction_of_y(x_size: int, confidence: Confidence, epsilon: float) -> float:
    """Compute the share of the Y that the interval must hold, negative for small samples; x_size is at least 1.

    `vectorised.py` repeats this arithmetic operation by operation: change both or neither.
    """
    alpha = max(epsilon, confidence.log_inverse / x_size)
    deviation = math.sqrt(2.0 * alpha * confidence.log_four_inverse / x_size)
    return 1.0 - 2.0 * alpha - deviation - confidence.log_four_inverse / x_size


def _shortest_run(halves: Halves, quota: int) -> tuple[int, int]:
    """Find the first and last bucket of the shortest run with at least quota ≥ 1 of the Y: the fullest, then leftmost.

    One run per right end is enough to look at, that from the rightmost left end which still reaches the quota: every
    run that is as short as the shortest is among these, with all it holds.
    """
    occupied, counts = halves.occupied, halves.counts[Y]
    first, last, shortest, most = occupied[0], occupied[-1], BUCKETS, 0
    left = held = 0
    for bucket in occupied:
        held += counts[bucket]
        while held - counts[occupied[left]] >= quota:
            held -= counts[occupied[left]]
            left += 1
        length = bucket - occupied[left]
        if held >= quota and (length < shortest or (length == shortest and held > most)):
            first, last, shortest, most = occupied[left], bucket, length, held
    return first, last


def _inside(halves: Halves, first: int, last: int) -> tuple[int, int]:
    """Count and sum the X in the buckets first…last."""
    return sum(halves.counts[X][first : last + 1]), sum(halves.sums[X][first : last + 1])

"""The estimators for many (agent, arm) pairs at once: one pair per column, one occupied bucket per row.

Every estimate here equals, bit for bit, what the scalar estimator of the same name gives for that pair. Counts and
sums are integers that float64 holds exactly; the arithmetic on them follows the scalar code operation by operation,
so change both or neither. Where the scalar code branches, this one computes both sides, divides by max(count, 1) so
that empty pairs raise no warning, and selects at the end.

Rewards with two values (Bernoulli) are the main case and have a path of their own without prefix sums: some 40 passes
over one row, about 20 ns per pair where thousands are asked for at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agentd.core.estimate.histogram import BUCKETS
from agentd.core.estimate.levels import Confidence
from agentd.core.grid import UNIT

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]
Number = TypeVar("Number", bound=np.generic)

_HELD_LIMIT = 1 << 31
"""More Y than a run can hold; times a length and times a row it still fits in 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class PairHistograms:
    """The histograms of n pairs over U occupied buckets; the four tables have the shape (U, n).

    The tables hold integers, sums below 2⁵³ and counts below 2³⁰, as float64 (which costs no conversion) or int64.
    The owner may go on changing them in place: nothing derived from them is kept.
    """

    buckets: Integers
    """The buckets that any pair occupies, ascending."""
    x_count: Floats | Integers
    x_sum: Floats | Integers
    y_count: Floats | Integers
    y_sum: Floats | Integers


Estimates = tuple[Floats, Flags]
"""Per pair the value in grid steps, and whether it is a fallback; a pair without samples gets 0 and a fallback."""

VectorEstimator = Callable[[PairHistograms, Confidence, float], Estimates]


def clipped(columns: PairHistograms, confidence: Confidence, epsilon: float) -> Estimates:  # noqa: ARG001
    """Average all samples of each pair."""
    size = _total(columns.x_count) + _total(columns.y_count)
    total = _total(columns.x_sum) + _total(columns.y_sum)
    return _mean_on_grid(total, size), size == 0.0


def trimmed(columns: PairHistograms, confidence: Confidence, epsilon: float) -> Estimates:
    """Average the X of each pair in the shortest run of buckets that holds enough of its Y."""
    if len(columns.buckets) == 0:  # no pair has a sample yet
        return clipped(columns, confidence, epsilon)
    x_size, y_size = _total(columns.x_count), _total(columns.y_count)
    # Not rounded up as the scalar quota is: a count, being whole, reaches the one when it reaches the other.
    quota = y_size * fraction_of_y(x_size, confidence, epsilon)
    inside = _inside_one_or_both if len(columns.buckets) == 2 else _inside_shortest_run
    count, total = inside(columns, quota)
    # No check of the sizes: an empty X leaves no count inside, an empty Y no positive quota.
    defined = (quota > 0.0) & (count > 0.0)
    total = np.where(defined, total, _total(columns.x_sum) + _total(columns.y_sum))
    count = np.where(defined, count, x_size + y_size)
    return _mean_on_grid(total, count), ~defined


def winsorised(columns: PairHistograms, confidence: Confidence, epsilon: float) -> Estimates:
    """Average all samples of each pair after its extremes are moved inwards."""
    if len(columns.buckets) < 2:  # nothing lies outside the only bucket
        return clipped(columns, confidence, epsilon)
    counts = np.add(columns.x_count, columns.y_count, dtype=np.float64)
    sums = np.add(columns.x_sum, columns.y_sum, dtype=np.float64)
    size = _total(counts)
    moved = _moved_at_each_end(size, confidence, epsilon)
    total = (_sum_of_two if len(counts) == 2 else _sum_of_many)(counts, sums, moved)
    return _mean_on_grid(total, size), size == 0.0


VECTOR_ESTIMATORS: dict[str, VectorEstimator] = {
    "trimmed": trimmed,
    "winsorised": winsorised,
    "clipped": clipped,
}
"""The vectorised form of every estimator, by the same names."""


def _total(table: Floats | Integers) -> Floats:
    """Sum each column; two rows, the main case, are added faster than reduced."""
    total: Floats
    if len(table) == 2:
        total = np.add(table[0], table[1], dtype=np.float64)
    else:
        total = np.add.reduce(table, axis=0, dtype=np.float64)
    return total


def _mean_on_grid(total: Floats, count: Floats) -> Floats:
    mean = total / np.maximum(count, 1.0)
    return np.minimum(np.maximum(mean, 0.0, out=mean), float(UNIT), out=mean)


def fraction_of_y(x_size: Floats, confidence: Confidence, epsilon: float) -> Floats:
    """Compute `trimmed.fraction_of_y`; an empty X counts as one sample."""
    divisor = np.maximum(x_size, 1.0)
    twice_alpha = np.maximum(confidence.log_inverse / divisor, epsilon)
    twice_alpha *= 2.0
    deviation = twice_alpha * confidence.log_four_inverse
    deviation /= divisor
    np.sqrt(deviation, out=deviation)
    fraction = 1.0 - twice_alpha
    fraction -= deviation
    fraction -= confidence.log_four_inverse / divisor
    return fraction


def _inside_one_or_both(columns: PairHistograms, quota: Floats) -> tuple[Floats, Floats]:
    """Count and sum the X in the shortest run of two buckets: the one with more Y (the first, if equal), else both."""
    first_leads = columns.y_count[0] >= columns.y_count[1]
    one_suffices = np.maximum(columns.y_count[0], columns.y_count[1]) >= quota
    keeps_first = first_leads >= one_suffices  # unless the second leads and suffices
    keeps_second = ~(first_leads & one_suffices)
    count = columns.x_count[0] * keeps_first + columns.x_count[1] * keeps_second
    total = columns.x_sum[0] * keeps_first + columns.x_sum[1] * keeps_second
    return count, total


def _inside_shortest_run(columns: PairHistograms, quota: Floats) -> tuple[Floats, Floats]:
    """Count and sum the X in the shortest run of buckets that holds the quota of the Y, ties as in `trimmed.py`."""
    first, end = _shortest_run(columns.buckets, columns.y_count, quota)
    counts, sums = _prefix(columns.x_count), _prefix(columns.x_sum)
    return _row(counts, end) - _row(counts, first), _row(sums, end) - _row(sums, first)


def _shortest_run(buckets: Integers, y_count: Floats | Integers, quota: Floats) -> tuple[Rows, Rows]:
    """Find the rows first…end−1 of the shortest run per pair; anything where the Y do not reach the quota.

    For each left end the right end is found by counting the rows that fall short of it, which is quadratic in the
    rows but made of few, narrow, contiguous passes: measured twice as fast as two pointers per pair, which must
    gather, and as a binary search. Right ends only move right, so the rows before the leftmost are skipped.

    One integer ranks a run, and the least wins: its digits are the length, the Y that it lacks of _HELD_LIMIT (so that
    the one with the most goes first) and the left end.
    """
    rows = len(buckets)
    held = _prefix(y_count).astype(np.int32)  # half the width, half the time
    goal = np.ceil(np.maximum(quota, 1.0)).astype(np.int32)
    right_ends = np.append(buckets, 2 * BUCKETS)  # a run that never reaches its goal is longer than any
    best = np.full(len(quota), BUCKETS * _HELD_LIMIT * BUCKETS)
    skipped = 0
    for left in range(rows):
        right = _flags_per_column(held[skipped + 1 :] < held[left] + goal) + skipped
        rank_of_none_held = ((right_ends - buckets[left]) * _HELD_LIMIT + _HELD_LIMIT) * BUCKETS + left
        holds = _row(held, np.minimum(right + 1, rows)) - held[left]
        rank = rank_of_none_held.take(right) - np.multiply(holds, BUCKETS, dtype=np.int64)
        np.minimum(best, rank, out=best)
        skipped = int(right.min(initial=rows))
        if skipped == rows:
            break
    length, first = best // (_HELD_LIMIT * BUCKETS), best % BUCKETS
    return first, np.searchsorted(buckets, buckets.take(first) + length, side="right")


def share_moved(size: Floats, confidence: Confidence, epsilon: float) -> Floats:
    """Compute `winsorised.share_moved`; no samples count as one."""
    divisor = np.maximum(size, 1.0)
    share = np.sqrt(2.0 * epsilon * confidence.log_inverse / divisor)
    share += epsilon
    share += confidence.log_inverse / divisor
    return np.minimum(share, 0.5, out=share)


def _moved_at_each_end(size: Floats, confidence: Confidence, epsilon: float) -> Floats:
    """Compute `winsorised.moved_at_each_end`; of a pair without samples, −1."""
    moved = share_moved(size, confidence, epsilon)
    moved *= size
    return np.minimum(np.floor(moved, out=moved), np.floor((size - 1.0) * 0.5))


def _sum_of_two(counts: Floats, sums: Floats, moved: Floats) -> Floats:
    """Winsorise two buckets: one with no more samples than are moved joins the other."""
    floors = np.floor(sums / np.maximum(counts, 1.0))
    total: Floats = np.where(counts[0] <= moved, counts[0] * floors[1], sums[0])
    total += np.where(counts[1] <= moved, counts[1] * floors[0], sums[1])
    return total


def _sum_of_many(counts: Floats, sums: Floats, moved: Floats) -> Floats:
    """Winsorise any number of buckets by prefix sums."""
    count_before, sum_before = _prefix(counts), _prefix(sums)
    size = count_before[-1]
    low = _row_of_rank(count_before, moved)
    high = _row_of_rank(count_before, size - 1.0 - moved)
    below, above = _row(count_before, low), size - _row(count_before, high + 1)
    total = _row(sum_before, high + 1) - _row(sum_before, low)
    total += below * _floor_of_mean(counts, sums, low)
    total += above * _floor_of_mean(counts, sums, high)
    return total


def _row_of_rank(count_before: Floats, rank: Floats) -> Rows:
    """Find the row of the sample with a rank; the last row where there is none."""
    return _flags_per_column(count_before[1:-1] <= rank)


def _flags_per_column(flags: Flags) -> Rows:
    """Count the raised flags of each column, in bytes: there are no more rows than buckets."""
    counts: Rows = np.add.reduce(flags.view(np.uint8), axis=0, dtype=np.uint8).astype(np.intp)
    return counts


def _floor_of_mean(counts: Floats, sums: Floats, row: Rows) -> Floats:
    # A quotient below 2²⁰ cannot round up to the next integer while the count is below 2³³: ⌊fl(s/c)⌋ = s // c.
    return np.floor(_row(sums, row) / np.maximum(_row(counts, row), 1.0))


def _prefix(table: Floats | Integers) -> Floats:
    """Sum the rows before each row, and all of them in one row more; row by row, ten times faster than cumsum."""
    rows, pairs = table.shape
    prefix = np.zeros((rows + 1, pairs))
    for row in range(rows):
        np.add(prefix[row], table[row], out=prefix[row + 1])
    return prefix


def _row(table: NDArray[Number], row: Rows) -> NDArray[Number]:
    """Pick one row per column."""
    pairs = table.shape[1]
    picked: NDArray[Number] = table.ravel().take(row * pairs + np.arange(pairs))
    return picked

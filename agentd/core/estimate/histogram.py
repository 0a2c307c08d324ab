"""All that an arm's samples leave behind: exact counts and sums per bucket of the grid, for each of two halves.

The trimmed mean chooses an interval with one half of the samples (Y) and averages the other half (X) inside it. The
half of a sample follows from its key, (origin, trial), so every agent that hears the sample puts it in the same half
whatever the order of arrival. The samples themselves are never kept: the state, and with it the cost of an estimate,
is bounded by the number of buckets and does not grow with the history.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentd.core.grid import UNIT

BUCKETS = 64
"""Buckets of the histogram; an interval is found to within 1/BUCKETS, the sums inside it stay exact."""

X = 0
"""The half that is averaged."""
Y = 1
"""The half that chooses the interval."""


def half_of(origin: int, trial: int) -> int:
    """Put even origin + trial in X, odd in Y."""
    return (origin + trial) & 1


def bucket_of(reward: int) -> int:
    """Find the bucket of a reward on the grid; the division by UNIT + 1 gives UNIT itself a place in the last one."""
    return reward * BUCKETS // (UNIT + 1)


def buckets_of(rewards: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the buckets of an array of rewards, exactly as `bucket_of` does one by one."""
    return rewards * BUCKETS // (UNIT + 1)


def _per_bucket() -> tuple[list[int], list[int]]:
    return [0] * BUCKETS, [0] * BUCKETS


@dataclass(slots=True)
class Halves:
    """The samples of one arm as two histograms; indexed by half first, by bucket second."""

    counts: tuple[list[int], list[int]] = field(default_factory=_per_bucket)
    sums: tuple[list[int], list[int]] = field(default_factory=_per_bucket)
    sizes: list[int] = field(default_factory=lambda: [0, 0])
    totals: list[int] = field(default_factory=lambda: [0, 0])
    occupied: list[int] = field(default_factory=list)
    """The buckets that hold a sample of either half, ascending: an estimate walks these, not all of them."""

    @property
    def size(self) -> int:
        """Count the samples of both halves."""
        return self.sizes[X] + self.sizes[Y]

    @property
    def total(self) -> int:
        """Sum the rewards of both halves, in grid steps."""
        return self.totals[X] + self.totals[Y]

    def count_at(self, bucket: int) -> int:
        """Count the samples of both halves in a bucket."""
        return self.counts[X][bucket] + self.counts[Y][bucket]

    def sum_at(self, bucket: int) -> int:
        """Sum the rewards of both halves in a bucket, in grid steps."""
        return self.sums[X][bucket] + self.sums[Y][bucket]

    def add(self, half: int, reward: int) -> None:
        """Count one sample, a grid integer 0…UNIT; what lies outside was to be refused when it was received."""
        if not 0 <= reward <= UNIT:
            raise ValueError(f"a sample must lie on the grid 0…{UNIT}, got {reward}")
        bucket = bucket_of(reward)
        counts = self.counts
        if not (counts[X][bucket] or counts[Y][bucket]):
            insort(self.occupied, bucket)
        counts[half][bucket] += 1
        self.sums[half][bucket] += reward
        self.sizes[half] += 1
        self.totals[half] += reward

    def remove(self, half: int, reward: int) -> None:
        """Count a sample no more that was counted."""
        bucket = bucket_of(reward)
        counts = self.counts
        if not counts[half][bucket]:
            raise ValueError(f"no sample like {reward} of half {half} was counted")
        counts[half][bucket] -= 1
        self.sums[half][bucket] -= reward
        self.sizes[half] -= 1
        self.totals[half] -= reward
        if not (counts[X][bucket] or counts[Y][bucket]):
            self.occupied.remove(bucket)

    def add_all(self, halves: NDArray[np.int64], rewards: NDArray[np.int64]) -> None:
        """Count many samples at once, as `add` would one by one."""
        # A loop beats bincount up to some forty samples in two buckets or 150 in many; a round seldom brings more.
        for half, reward in zip(halves.tolist(), rewards.tolist(), strict=True):
            self.add(half, reward)

"""The histograms keep exact sums and counts in bounded memory, whatever the order of arrival."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from agentd.core.estimate import BUCKETS, Confidence, Halves, X, Y, bucket_of, buckets_of, half_of
from agentd.core.grid import UNIT


def test_even_keys_go_to_the_half_that_is_averaged_and_odd_ones_to_the_half_that_chooses() -> None:
    assert [half_of(3, trial) for trial in (1, 2, 3, 4)] == [X, Y, X, Y]
    assert [half_of(origin, 1) for origin in (0, 1, 2)] == [Y, X, Y]


def test_the_ends_of_the_grid_lie_in_the_first_and_the_last_bucket() -> None:
    assert bucket_of(0) == 0
    assert bucket_of(UNIT) == BUCKETS - 1


def test_buckets_are_ascending_and_all_in_use_and_as_wide_as_each_other_to_within_one_step() -> None:
    buckets = buckets_of(np.arange(UNIT + 1))
    assert np.all(np.diff(buckets) >= 0)
    widths = np.bincount(buckets, minlength=BUCKETS)
    assert len(widths) == BUCKETS
    assert set(widths.tolist()) <= {UNIT // BUCKETS, UNIT // BUCKETS + 1}


def test_an_array_of_rewards_falls_in_the_same_buckets_as_one_by_one() -> None:
    rewards = np.random.default_rng(1).integers(0, UNIT + 1, 500)
    assert buckets_of(rewards).tolist() == [bucket_of(reward) for reward in rewards.tolist()]


def test_a_sample_is_counted_in_its_half_and_bucket_only() -> None:
    halves = Halves()
    halves.add(Y, UNIT)
    halves.add(X, 5)
    halves.add(Y, UNIT - 1)
    assert halves.occupied == [0, BUCKETS - 1]
    assert (halves.sizes, halves.totals) == ([1, 2], [5, 2 * UNIT - 1])
    assert (halves.size, halves.total) == (3, 2 * UNIT + 4)
    assert (halves.counts[Y][BUCKETS - 1], halves.sums[Y][BUCKETS - 1]) == (2, 2 * UNIT - 1)
    assert (halves.count_at(0), halves.sum_at(0)) == (1, 5)
    assert sum(halves.counts[X]) == 1


@pytest.mark.parametrize("reward", [-1, UNIT + 1])
def test_a_sample_off_the_grid_is_refused_and_leaves_no_trace(reward: int) -> None:
    halves = Halves()
    with pytest.raises(ValueError, match="grid"):
        halves.add(X, reward)
    assert halves == Halves()


def test_many_samples_at_once_count_as_one_by_one() -> None:
    rng = np.random.default_rng(2)
    sides, rewards = rng.integers(0, 2, 200), rng.integers(0, UNIT + 1, 200)
    together, apart = Halves(), Halves()
    together.add_all(sides, rewards)
    for side, reward in zip(sides.tolist(), rewards.tolist(), strict=True):
        apart.add(side, reward)
    assert together == apart
    assert together.occupied == sorted(set(buckets_of(rewards).tolist()))


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Halves().add_all(np.array([0, 1]), np.array([7]))


def test_the_state_does_not_grow_with_the_number_of_samples() -> None:
    def footprint(samples: int) -> tuple[int, ...]:
        halves = Halves()
        rng = np.random.default_rng(3)
        halves.add_all(rng.integers(0, 2, samples), rng.integers(0, UNIT + 1, samples))
        tables = (*halves.counts, *halves.sums, halves.sizes, halves.totals, halves.occupied)
        return sys.getsizeof(halves), *(len(table) for table in tables)

    assert footprint(2_000) == footprint(20_000)


def test_a_confidence_holds_the_logarithms_of_its_delta() -> None:
    confidence = Confidence.at(1000)
    assert confidence.delta == 1e-6
    assert confidence.log_inverse == pytest.approx(13.815510557964274, rel=1e-15)
    assert confidence.log_four_inverse == pytest.approx(15.201804919084164, rel=1e-15)


def test_the_first_trial_demands_no_confidence() -> None:
    assert Confidence.at(1).log_inverse == 0.0


def test_trials_count_from_one() -> None:
    with pytest.raises(ValueError, match="from 1"):
        Confidence.at(0)

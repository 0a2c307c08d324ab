"""Both forms of every estimator against obvious, slow versions on lists of samples, and against each other."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pair_histograms import histograms_of

from agentd.core.estimate import BUCKETS, ESTIMATORS, Confidence, Estimate, Halves, X, Y, bucket_of, vectorised
from agentd.core.estimate.trimmed import fraction_of_y
from agentd.core.estimate.vectorised import VECTOR_ESTIMATORS, PairHistograms
from agentd.core.estimate.winsorised import share_moved
from agentd.core.grid import UNIT

EPSILONS = st.sampled_from([0.0, 1e-3, 0.05, 0.3])
SAMPLES = st.lists(st.integers(0, UNIT), max_size=60)
FEW_VALUES = st.lists(st.sampled_from([0, UNIT // 3, UNIT // 3 + 1, UNIT // 2, UNIT]), max_size=60)
# Weights multiply samples so that quotas become positive while the lists stay short.
WEIGHTS = st.integers(1, 12)


def halves_of(x: list[int], y: list[int]) -> Halves:
    halves = Halves()
    halves.add_all(np.zeros(len(x), dtype=np.int64), np.array(x, dtype=np.int64))
    halves.add_all(np.ones(len(y), dtype=np.int64), np.array(y, dtype=np.int64))
    return halves


def brute_force_trimmed(x: list[int], y: list[int], trial: int, epsilon: float) -> Estimate:
    """Try every interval of buckets on the lists of samples."""
    everything = sum(x) + sum(y)
    size = len(x) + len(y)
    fallback = Estimate(everything / size if size else 0.0, fallback=True)
    if not x or not y:
        return fallback
    log_inverse = 2 * math.log(trial)
    log_four_inverse = math.log(4) + log_inverse
    alpha = max(epsilon, log_inverse / len(x))
    spread = math.sqrt(2 * alpha * log_four_inverse / len(x))
    quota = math.ceil(len(y) * (1 - 2 * alpha - spread - log_four_inverse / len(x)))
    if quota <= 0:
        return fallback
    in_bucket = [bucket_of(reward) for reward in y]
    _, _, first, last = min(
        (last - first, -held, first, last)
        for first in range(BUCKETS)
        for last in range(first, BUCKETS)
        if (held := sum(first <= bucket <= last for bucket in in_bucket)) >= quota
    )
    inside = [reward for reward in x if first <= bucket_of(reward) <= last]
    return Estimate(sum(inside) / len(inside), fallback=False) if inside else fallback


def brute_force_winsorised(samples: list[int], trial: int, epsilon: float) -> Estimate:
    """Sort the samples, find the two that bound what stays, and move all samples in buckets beyond theirs."""
    if not samples:
        return Estimate(0.0, fallback=True)
    size, log_inverse = len(samples), 2 * math.log(trial)
    share = min(0.5, epsilon + math.sqrt(2 * epsilon * log_inverse / size) + log_inverse / size)
    moved = min(math.floor(share * size), (size - 1) // 2)
    ordered = sorted(samples)
    low, high = bucket_of(ordered[moved]), bucket_of(ordered[size - 1 - moved])

    def floored_mean(bucket: int) -> int:
        members = [sample for sample in samples if bucket_of(sample) == bucket]
        return sum(members) // len(members)

    def winsorised(sample: int) -> int:
        if bucket_of(sample) < low:
            return floored_mean(low)
        return floored_mean(high) if bucket_of(sample) > high else sample

    return Estimate(sum(map(winsorised, samples)) / size, fallback=False)


@settings(max_examples=150, deadline=None)
@given(st.one_of(SAMPLES, FEW_VALUES), st.one_of(SAMPLES, FEW_VALUES), WEIGHTS, st.integers(1, 50), EPSILONS)
def test_the_trimmed_mean_equals_trying_every_interval(
    x: list[int], y: list[int], weight: int, trial: int, epsilon: float
) -> None:
    x, y = x * weight, y * weight
    expected = brute_force_trimmed(x, y, trial, epsilon)
    assert ESTIMATORS["trimmed"].estimate(halves_of(x, y), Confidence.at(trial), epsilon) == expected


@settings(max_examples=150, deadline=None)
@given(st.one_of(SAMPLES, FEW_VALUES), st.one_of(SAMPLES, FEW_VALUES), st.integers(1, 1000), EPSILONS)
def test_the_winsorised_mean_equals_moving_a_sorted_list(
    x: list[int], y: list[int], trial: int, epsilon: float
) -> None:
    expected = brute_force_winsorised(x + y, trial, epsilon)
    assert ESTIMATORS["winsorised"].estimate(halves_of(x, y), Confidence.at(trial), epsilon) == expected


@settings(max_examples=60)
@given(SAMPLES, SAMPLES)
def test_the_clipped_mean_equals_the_mean_of_the_list(x: list[int], y: list[int]) -> None:
    size = len(x) + len(y)
    expected = Estimate((sum(x) + sum(y)) / size, fallback=False) if size else Estimate(0.0, fallback=True)
    assert ESTIMATORS["clipped"].estimate(halves_of(x, y), Confidence.at(9), 0.05) == expected


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, UNIT)), max_size=80), st.randoms(use_true_random=False))
def test_the_order_in_which_samples_arrive_does_not_matter(samples: list[tuple[int, int]], random: Random) -> None:
    shuffled = random.sample(samples, len(samples))
    first, second = Halves(), Halves()
    for half, reward in samples:
        first.add(half, reward)
    for half, reward in shuffled:
        second.add(half, reward)
    assert first == second


@settings(max_examples=60)
@given(SAMPLES.filter(bool), SAMPLES, st.integers(1, 1000), EPSILONS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimate_lies_between_the_smallest_and_the_largest_sample(
    name: str, x: list[int], y: list[int], trial: int, epsilon: float
) -> None:
    value = ESTIMATORS[name].estimate(halves_of(x, y), Confidence.at(trial), epsilon).value
    assert min(x + y) <= value <= max(x + y)


def pair_with(rng: np.random.Generator, buckets: NDArray[np.int64], most: int) -> Halves:
    """Fill a random histogram directly, with counts up to `most` that no list of samples could hold in time."""
    halves = Halves()
    for half in (X, Y):
        counts = rng.integers(0, most, len(buckets), endpoint=True) * (rng.random(len(buckets)) < rng.random())
        for bucket, count in zip(buckets.tolist(), counts.tolist(), strict=True):
            lowest, highest = -(-bucket * (UNIT + 1) // BUCKETS), ((bucket + 1) * (UNIT + 1) - 1) // BUCKETS
            total = int(rng.integers(count * lowest, count * highest, endpoint=True))
            halves.counts[half][bucket], halves.sums[half][bucket] = count, total
        halves.sizes[half], halves.totals[half] = sum(halves.counts[half]), sum(halves.sums[half])
    halves.occupied = [bucket for bucket in range(BUCKETS) if halves.count_at(bucket)]
    return halves


def assert_same(pairs: list[Halves], columns: PairHistograms, trial: int, epsilon: float) -> None:
    confidence = Confidence.at(trial)
    for name, estimator in ESTIMATORS.items():
        value, fallback = VECTOR_ESTIMATORS[name](columns, confidence, epsilon)
        expected = [estimator.estimate(halves, confidence, epsilon) for halves in pairs]
        assert [number.hex() for number in value.tolist()] == [estimate.value.hex() for estimate in expected], name
        assert fallback.tolist() == [estimate.fallback for estimate in expected], name


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rows=st.one_of(st.integers(1, 3), st.integers(1, BUCKETS)),
    most=st.sampled_from([1, 3, 30, 300, 10_000]),
    trial=st.integers(1, 10**6),
    epsilon=EPSILONS,
)
def test_many_pairs_at_once_equal_one_by_one_to_the_last_bit(
    seed: int, rows: int, most: int, trial: int, epsilon: float
) -> None:
    rng = np.random.default_rng(seed)
    buckets = np.sort(rng.choice(BUCKETS, rows, replace=False))
    pairs = [pair_with(rng, buckets, most) for _ in range(12)]
    assert_same(pairs, histograms_of(pairs), trial, epsilon)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), trial=st.integers(1, 10**6), epsilon=EPSILONS)
def test_bernoulli_pairs_of_any_size_equal_one_by_one_to_the_last_bit(seed: int, trial: int, epsilon: float) -> None:
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(40):
        halves = Halves()
        for half in (X, Y):
            size = int(10 ** rng.uniform(0, 4))
            ones = int(rng.binomial(size, rng.random()))
            halves.counts[half][0], halves.counts[half][-1] = size - ones, ones
            halves.sums[half][-1] = halves.totals[half] = ones * UNIT
            halves.sizes[half] = size
        halves.occupied = [bucket for bucket in (0, BUCKETS - 1) if halves.count_at(bucket)]
        pairs.append(halves)
    assert_same(pairs, histograms_of(pairs), trial, epsilon)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 10**5), min_size=50, max_size=50),
    trial=st.integers(1, 10**6),
    epsilon=EPSILONS,
)
def test_the_shares_agree_to_the_last_bit_before_rounding_to_samples_hides_a_difference(
    sizes: list[int], trial: int, epsilon: float
) -> None:
    confidence, array = Confidence.at(trial), np.array(sizes, dtype=np.float64)
    fractions = vectorised.fraction_of_y(array, confidence, epsilon)
    assert fractions.tolist() == [fraction_of_y(size, confidence, epsilon) for size in sizes]
    shares = vectorised.share_moved(array, confidence, epsilon)
    assert shares.tolist() == [share_moved(size, confidence, epsilon) for size in sizes]

"""The three estimators on samples whose answer is known, and their robustness."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agentd.core.estimate import BUCKETS, ESTIMATORS, Confidence, Estimate, Halves, X, Y
from agentd.core.estimate.trimmed import quota_of_y
from agentd.core.estimate.winsorised import moved_at_each_end
from agentd.core.grid import UNIT, quantise_all

AT_1000 = Confidence.at(1000)
STEP = UNIT // BUCKETS


def halves_of(x: list[int], y: list[int]) -> Halves:
    halves = Halves()
    for reward in x:
        halves.add(X, reward)
    for reward in y:
        halves.add(Y, reward)
    return halves


def bernoulli(size: int, ones: int) -> Halves:
    """Lay out `size` rewards per half of which `ones` are 1."""
    rewards = [UNIT] * ones + [0] * (size - ones)
    return halves_of(rewards, rewards)


def sampled(rewards: NDArray[np.float64]) -> Halves:
    halves = Halves()
    halves.add_all(np.arange(len(rewards)) & 1, quantise_all(rewards))
    return halves


def test_every_estimator_is_registered_under_its_own_name() -> None:
    assert list(ESTIMATORS) == ["trimmed", "winsorised", "clipped"]
    assert all(estimator.name == name for name, estimator in ESTIMATORS.items())


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_samples_give_zero_and_say_so(name: str) -> None:
    assert ESTIMATORS[name].estimate(Halves(), AT_1000, 0.0) == Estimate(0.0, fallback=True)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("reward", [0, 1, UNIT // 3, UNIT])
def test_equal_samples_are_their_own_mean(name: str, reward: int) -> None:
    for size in (1, 2, 500):
        halves = halves_of([reward] * size, [reward] * size)
        assert ESTIMATORS[name].estimate(halves, AT_1000, 0.05).value == reward


def test_the_clipped_mean_is_the_exact_mean_of_both_halves() -> None:
    halves = halves_of([0, 10, UNIT], [7])
    assert ESTIMATORS["clipped"].estimate(halves, AT_1000, 0.3) == Estimate((UNIT + 17) / 4, fallback=False)


@pytest.mark.parametrize(("x", "y"), [([UNIT, 0, 0], []), ([], [UNIT, 0, 0])])
def test_with_one_half_empty_the_trimmed_mean_falls_back_to_all_samples(x: list[int], y: list[int]) -> None:
    estimate = ESTIMATORS["trimmed"].estimate(halves_of(x, y), Confidence.at(1), 0.0)
    assert estimate == Estimate(UNIT / 3, fallback=True)


def test_with_no_x_inside_the_interval_the_trimmed_mean_falls_back_to_all_samples() -> None:
    halves = halves_of([0] * 200, [UNIT] * 200)
    assert quota_of_y(200, 200, AT_1000, 0.0) > 0
    assert ESTIMATORS["trimmed"].estimate(halves, AT_1000, 0.0) == Estimate(UNIT / 2, fallback=True)


def test_the_trimmed_mean_averages_the_x_in_the_shortest_interval_even_where_no_y_lies() -> None:
    middle, inside, outside = 20 * STEP + 9, 22 * STEP + 9, 40 * STEP + 9
    far = 24 * STEP + 9
    halves = halves_of([inside] * 3 + [middle] + [outside] * 196, [middle] * 95 + [far] * 95 + [0] * 10)
    assert 95 < quota_of_y(200, 200, Confidence.at(10), 0.0) <= 190
    estimate = ESTIMATORS["trimmed"].estimate(halves, Confidence.at(10), 0.0)
    assert estimate == Estimate((3 * inside + middle) / 4, fallback=False)


def middle_of_interval(y_counts: dict[int, int]) -> float:
    """Find the middle of the interval that 80 Y choose, in buckets, from an X in every bucket but the last."""
    y = [bucket * STEP + 9 for bucket, count in y_counts.items() for _ in range(count)]
    x = [bucket * STEP + 9 for bucket in range(BUCKETS - 1)] + [UNIT] * (80 - BUCKETS + 1)
    assert quota_of_y(len(x), len(y), AT_1000, 0.0) == 17
    estimate = ESTIMATORS["trimmed"].estimate(halves_of(x, y), AT_1000, 0.0)
    assert not estimate.fallback
    return (estimate.value - 9) / STEP


@pytest.mark.parametrize(
    ("y_counts", "middle"),
    [
        ({10: 39, 50: 41}, 50),
        ({10: 41, 50: 39}, 10),
        ({10: 20, 30: 25, 50: 22, 60: 13}, 30),
        ({10: 10, 12: 10, 30: 12, 32: 12, 50: 12, 60: 12, 55: 12}, 31),
        ({10: 12, 12: 12, 30: 10, 32: 10, 50: 12, 60: 12, 55: 12}, 11),
        ({10: 9, 12: 9, 14: 16, 16: 14, 40: 16, 60: 16}, 15),  # runs that overlap
        ({10: 16, 12: 14, 14: 9, 16: 9, 40: 16, 60: 16}, 11),
        ({10: 8, 11: 1, 12: 8, 30: 9, 32: 9, 50: 15, 55: 15, 60: 15}, 31),
        ({10: 8, 11: 3, 12: 8, 30: 9, 32: 9, 50: 15, 55: 15, 60: 13}, 11),  # what lies between the ends counts
    ],
)
def test_of_equally_short_intervals_the_one_that_holds_the_most_is_taken(
    y_counts: dict[int, int], middle: float
) -> None:
    assert middle_of_interval(y_counts) == middle


@pytest.mark.parametrize(
    ("y_counts", "middle"),
    [
        ({10: 40, 50: 40}, 10),
        ({10: 20, 30: 25, 50: 25, 60: 10}, 30),
        ({10: 10, 12: 10, 30: 12, 32: 12, 50: 12, 52: 12, 60: 12}, 31),
    ],
)
def test_of_equally_short_intervals_that_hold_as_much_the_leftmost_is_taken(
    y_counts: dict[int, int], middle: float
) -> None:
    assert middle_of_interval(y_counts) == middle


def test_a_longer_interval_is_not_taken_however_much_it_holds() -> None:
    assert middle_of_interval({10: 17, 30: 16, 31: 16, 50: 16, 55: 15}) == 10
    assert middle_of_interval({10: 16, 11: 16, 30: 16, 50: 17, 55: 15}) == 50


def test_the_quota_follows_the_papers_formula() -> None:
    # N = 300, δ = 10⁻⁶: α = 13.8155/300 = 0.04605, 1 − 0.09210 − √(0.09210·15.2018/300) − 0.05067 = 0.78891
    assert quota_of_y(300, 1000, AT_1000, 0.0) == 789
    # ε = 0.1 > α: 1 − 0.2 − √(0.2·15.2018/300) − 0.05067 = 0.64866
    assert quota_of_y(300, 1000, AT_1000, 0.1) == 649


def test_below_some_130_bernoulli_samples_the_trimmed_mean_is_the_mean_of_all() -> None:
    for size in range(10, 64):  # per half
        estimate = ESTIMATORS["trimmed"].estimate(bernoulli(size, size * 7 // 10), AT_1000, 0.0)
        assert estimate == Estimate(size * 7 // 10 * UNIT / size, fallback=True)
    assert not ESTIMATORS["trimmed"].estimate(bernoulli(70, 49), AT_1000, 0.0).fallback


def test_from_130_to_420_bernoulli_samples_the_trimmed_mean_is_zero_or_one() -> None:
    def value(size: int, ones: int) -> float:
        estimate = ESTIMATORS["trimmed"].estimate(bernoulli(size, ones), AT_1000, 0.0)
        assert not estimate.fallback
        return estimate.value

    # The fraction to hold is 1 − 63.3/N. Up to N = 90 either value alone suffices, to N = 211 only the commoner.
    assert quota_of_y(90, 90, AT_1000, 0.0) == 27
    assert {value(size, size * 7 // 10) for size in range(70, 211, 10)} == {UNIT}
    assert {value(size, size * 3 // 10) for size in range(70, 211, 10)} == {0}
    # Of equally many zeros and ones the zeros lie leftmost; above N = 126 neither suffices.
    assert {value(size, size // 2) for size in range(70, 127, 2)} == {0}
    assert {value(size, size // 2) for size in range(128, 200, 2)} == {0.5 * UNIT}
    # Above that the interval holds everything.
    assert {value(size, size * 7 // 10) for size in range(220, 400, 10)} == {0.7 * UNIT}


@pytest.mark.parametrize(("mean", "value"), [(0.7, UNIT), (0.3, 0)])
def test_where_both_bernoulli_values_suffice_the_trimmed_mean_is_the_commoner(mean: float, value: int) -> None:
    rng = np.random.default_rng(8)
    for size in range(140, 180):  # among 70 Y the rarer value leads at 3.6 deviations
        halves = sampled(np.where(rng.random(size) < mean, 1.0, 0.0))
        assert ESTIMATORS["trimmed"].estimate(halves, AT_1000, 0.0) == Estimate(value, fallback=False)


def test_from_some_600_bernoulli_samples_on_the_trimmed_mean_is_near_the_mean() -> None:
    near = dict.fromkeys((300, 450, 600, 900), 0)
    for size in near:
        rng = np.random.default_rng(size)
        for _ in range(100):
            value = (
                ESTIMATORS["trimmed"].estimate(sampled(np.where(rng.random(size) < 0.7, 1.0, 0.0)), AT_1000, 0.0).value
                / UNIT
            )
            near[size] += abs(value - 0.7) < 0.12  # 0.12 is 4.5 deviations of a mean of 300
    # The chance that the commoner half of the Y reaches the quota falls from certainty at 300 to 3.4 deviations at 600.
    assert near[300] <= 2
    assert 50 < near[450] < 95
    assert near[600] >= 98
    assert near[900] == 100


def test_the_winsorised_share_follows_its_formula() -> None:
    # n = 1000, η = 0.05: 0.05 + √(0.1·13.8155/1000) + 0.0138155 = 0.10098
    assert moved_at_each_end(1000, AT_1000, 0.05) == 100
    assert moved_at_each_end(1000, AT_1000, 0.0) == 13


def test_the_winsorised_mean_never_moves_the_median() -> None:
    assert [moved_at_each_end(size, AT_1000, 0.3) for size in (1, 2, 3, 4, 5, 20)] == [0, 0, 1, 1, 2, 9]


def test_the_winsorised_mean_of_few_samples_is_the_mean_of_the_medians_bucket() -> None:
    middle = 30 * STEP + 9
    halves = halves_of([0, 0, middle], [middle + 2, UNIT])
    # The two outer pairs move to ⌊(middle + middle + 2)/2⌋, the two in the median's bucket stay.
    assert ESTIMATORS["winsorised"].estimate(halves, AT_1000, 0.0).value == (5 * middle + 5) / 5


def test_a_median_between_two_buckets_lies_halfway() -> None:
    halves = halves_of([0, 10 * STEP + 9], [30 * STEP + 9, UNIT])
    assert ESTIMATORS["winsorised"].estimate(halves, AT_1000, 0.0).value == 20 * STEP + 9


def test_the_winsorised_mean_moves_the_extremes_to_the_nearest_bucket_that_stays() -> None:
    low, high = 10 * STEP + 9, 50 * STEP + 9
    halves = halves_of([0] * 13 + [low] * 487, [high] * 490 + [UNIT] * 10)
    assert moved_at_each_end(1000, AT_1000, 0.0) == 13
    assert ESTIMATORS["winsorised"].estimate(halves, AT_1000, 0.0).value == (low + high) / 2


def test_the_mean_that_extremes_move_to_is_rounded_down_to_the_grid() -> None:
    halves = halves_of([0] * 5 + [9 * STEP + 9] * 300, [9 * STEP + 10] * 695)
    total = 5 * (9 * STEP + 9) + 300 * (9 * STEP + 9) + 695 * (9 * STEP + 10)
    assert ESTIMATORS["winsorised"].estimate(halves, AT_1000, 0.0).value == total / 1000


def test_trimmed_and_winsorised_resist_liars_in_beta_samples_where_the_plain_mean_does_not() -> None:
    # Beta(8, 8) has mean ½ and deviation 0.12; 10 % of the samples are replaced by 1.
    errors: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rewards = np.where(rng.random(2000) < 0.1, 1.0, rng.beta(8, 8, 2000))
        halves = sampled(rewards)
        for name, estimator in ESTIMATORS.items():
            errors[name].append(abs(estimator.estimate(halves, AT_1000, 0.1).value / UNIT - 0.5))
    assert min(errors["clipped"]) > 0.035
    assert max(errors["trimmed"]) < 0.03
    assert max(errors["winsorised"]) < max(errors["clipped"]) / 1.5
    assert np.mean(errors["trimmed"]) < np.mean(errors["winsorised"])


class CountingList(list[int]):
    """A list that counts the elements read from it."""

    reads = 0

    def __getitem__(self, key: Any) -> Any:
        CountingList.reads += len(range(*key.indices(len(self)))) if isinstance(key, slice) else 1
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[int]:
        CountingList.reads += len(self)
        return super().__iter__()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_cost_of_an_estimate_does_not_grow_with_the_number_of_samples(name: str) -> None:
    def reads(samples: int) -> int:
        rng = np.random.default_rng(5)
        plain = sampled(rng.beta(2, 2, samples))
        counting = Halves(
            (CountingList(plain.counts[X]), CountingList(plain.counts[Y])),
            (CountingList(plain.sums[X]), CountingList(plain.sums[Y])),
            CountingList(plain.sizes),
            CountingList(plain.totals),
            CountingList(plain.occupied),
        )
        CountingList.reads = 0
        assert ESTIMATORS[name].estimate(counting, AT_1000, 0.05) == ESTIMATORS[name].estimate(plain, AT_1000, 0.05)
        return CountingList.reads

    for samples in (200, 2_000, 20_000):
        assert 0 < reads(samples) <= 16 * BUCKETS

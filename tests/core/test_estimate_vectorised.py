"""The vectorised estimators at the edges; that they equal the scalar ones is tested as a property."""

from __future__ import annotations

import numpy as np
import pytest
from pair_histograms import histograms_of

from agentd.core.estimate import ESTIMATORS, Confidence, Halves, X, Y
from agentd.core.estimate.vectorised import VECTOR_ESTIMATORS, PairHistograms
from agentd.core.grid import UNIT

AT_1000 = Confidence.at(1000)


def filled(*rewards: int) -> Halves:
    halves = Halves()
    for reward in rewards:
        halves.add(X, reward)
        halves.add(Y, reward)
    return halves


def test_every_estimator_has_a_vectorised_form() -> None:
    assert list(VECTOR_ESTIMATORS) == list(ESTIMATORS)


def test_histograms_are_laid_side_by_side_over_the_union_of_their_buckets() -> None:
    columns = histograms_of([filled(0, 0), Halves(), filled(UNIT, 0)])
    assert columns.buckets.tolist() == [0, 63]
    assert columns.x_count.tolist() == [[2, 0, 1], [0, 0, 1]]
    assert columns.y_sum.tolist() == [[0, 0, 0], [0, 0, UNIT]]


@pytest.mark.parametrize("name", VECTOR_ESTIMATORS)
@pytest.mark.parametrize("pairs", [0, 1, 3])
def test_pairs_that_never_saw_a_sample_get_zero_and_a_fallback(name: str, pairs: int) -> None:
    value, fallback = VECTOR_ESTIMATORS[name](histograms_of([Halves()] * pairs), AT_1000, 0.05)
    assert value.tolist() == [0.0] * pairs
    assert fallback.tolist() == [True] * pairs


@pytest.mark.parametrize("name", VECTOR_ESTIMATORS)
@pytest.mark.parametrize("others", [(0,), (0, UNIT), (0, UNIT // 2, UNIT)])
def test_an_empty_pair_among_others_gets_zero_and_a_fallback(name: str, others: tuple[int, ...]) -> None:
    columns = histograms_of([filled(*others), Halves()])
    for epsilon in (0.0, 0.3):
        value, fallback = VECTOR_ESTIMATORS[name](columns, AT_1000, epsilon)
        assert value[0] == sum(others) / len(others)
        assert (value[1], fallback[1]) == (0.0, True)


@pytest.mark.parametrize("name", VECTOR_ESTIMATORS)
@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_tables_of_integers_and_of_floats_give_the_same(name: str, buckets: int) -> None:
    rng = np.random.default_rng(buckets)
    counts = rng.integers(0, 400, (2, buckets, 50))
    sums = counts * (np.arange(buckets)[:, None] * UNIT // 8 + 3)
    where = np.arange(buckets) * 8
    tables = (counts[0], sums[0], counts[1], sums[1])
    whole = VECTOR_ESTIMATORS[name](PairHistograms(where, *tables), AT_1000, 0.01)
    real = VECTOR_ESTIMATORS[name](
        PairHistograms(where, *(table.astype(np.float64) for table in tables)), AT_1000, 0.01
    )
    assert whole[0].dtype == real[0].dtype == np.float64
    assert whole[0].tolist() == real[0].tolist()
    assert whole[1].tolist() == real[1].tolist()


@pytest.mark.parametrize("name", VECTOR_ESTIMATORS)
@pytest.mark.parametrize("buckets", [2, 5])
def test_an_estimate_leaves_the_tables_as_they_were(name: str, buckets: int) -> None:
    rng = np.random.default_rng(7)
    pairs = []
    for _ in range(20):
        halves = Halves()
        halves.add_all(rng.integers(0, 2, 300), rng.integers(0, buckets, 300) * UNIT // buckets)
        pairs.append(halves)
    columns, copy = histograms_of(pairs), histograms_of(pairs)
    VECTOR_ESTIMATORS[name](columns, AT_1000, 0.05)
    for table in PairHistograms.__slots__:
        assert np.array_equal(getattr(columns, table), getattr(copy, table))


@pytest.mark.parametrize("third_value", [(), (UNIT // 2,)])
def test_of_two_values_that_each_suffice_the_commoner_among_the_y_is_taken(third_value: tuple[int, ...]) -> None:
    pairs = []
    for zeros in (39, 40, 41):
        halves = Halves()
        halves.add_all(np.full(80, X), np.repeat([0, UNIT], 40))
        halves.add_all(np.full(80, Y), np.repeat([0, UNIT], [zeros, 80 - zeros]))
        pairs.append(halves)
    # A third value, of another pair, leads the same pairs through the path for any number of buckets.
    value, fallback = VECTOR_ESTIMATORS["trimmed"](histograms_of([*pairs, filled(*third_value)]), AT_1000, 0.0)
    assert value[:3].tolist() == [UNIT, 0, 0]
    assert not fallback[:3].any()


@pytest.mark.parametrize("third_value", [(), (UNIT // 2,)])
@pytest.mark.parametrize(("zeros", "value"), [(99, 1.0), (100, 0.0), (101, 0.0)])
def test_a_value_that_holds_exactly_the_quota_suffices(third_value: tuple[int, ...], zeros: int, value: float) -> None:
    halves = Halves()
    halves.add_all(np.full(200, X), np.repeat([0, UNIT], 100))
    halves.add_all(np.full(200, Y), np.repeat([0, UNIT], [zeros, 200 - zeros]))
    half_of_y = Confidence(1.0, 0.0, 0.0)  # without logarithms the quota is whole: (1 − 2ε)·200 = 100
    values, _ = VECTOR_ESTIMATORS["trimmed"](histograms_of([halves, filled(*third_value)]), half_of_y, 0.25)
    assert values[0] == ESTIMATORS["trimmed"].estimate(halves, half_of_y, 0.25).value == value * UNIT


@pytest.mark.parametrize("buckets", [(0, 63), (0, 20, 63)])
# Times 64 the first passes 2³¹; twice the second is about the largest number of Y that the tables may hold.
@pytest.mark.parametrize("most", [1 << 25, (1 << 29) - 1])
def test_one_sample_decides_between_equally_short_runs_of_many_millions(buckets: tuple[int, ...], most: int) -> None:
    y_count = np.zeros((len(buckets), 3))
    y_count[0] = most, most - 1, most
    y_count[-1] = most - 1, most, most
    x_count = np.full((len(buckets), 3), 100)
    x_sum = np.array(buckets)[:, None] * x_count * (UNIT // 63)
    columns = PairHistograms(np.array(buckets), x_count, x_sum, y_count, y_count)
    # At a contamination of ¼ less than half of the Y are enough.
    value, fallback = VECTOR_ESTIMATORS["trimmed"](columns, Confidence.at(1), 0.25)
    assert value.tolist() == [0, UNIT // 63 * 63, 0]
    assert not fallback.any()

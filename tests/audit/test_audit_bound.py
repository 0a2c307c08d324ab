"""Exact binomial bounds, and what two counts prove about ε."""

from __future__ import annotations

import math
import random

import pytest

from agentd.audit.bound import ceiling, epsilon_bound, log_at_least, log_at_most, lower_bound, p_value, upper_bound


def exact_tail(k: int, n: int, p: float) -> float:
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


@pytest.mark.parametrize(("k", "n", "p"), [(0, 10, 0.3), (3, 10, 0.3), (10, 10, 0.3), (7, 40, 0.01), (40, 40, 0.9)])
def test_tails_are_the_sums_of_their_terms(k: int, n: int, p: float) -> None:
    assert math.exp(log_at_least(k, n, p)) == pytest.approx(exact_tail(k, n, p), rel=1e-10)
    assert math.exp(log_at_most(k, n, p)) == pytest.approx(1 - exact_tail(k + 1, n, p), rel=1e-10)


def test_tails_that_no_double_holds_are_still_right_in_logarithms() -> None:
    assert log_at_least(5000, 5000, 1e-3) == pytest.approx(5000 * math.log(1e-3))


def test_bounds_without_any_and_with_only_successes_are_the_well_known_ones() -> None:
    assert lower_bound(0, 100, 0.05) == 0.0
    assert upper_bound(100, 100, 0.05) == 1.0
    assert upper_bound(0, 100, 0.05) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert lower_bound(100, 100, 0.05) == pytest.approx(0.05 ** (1 / 100))


@pytest.mark.parametrize(("k", "n"), [(1, 10), (5, 10), (50, 10_000), (9_990, 10_000)])
@pytest.mark.parametrize("alpha", [0.05, 1e-7])
def test_bounds_are_the_beta_quantiles_of_scipy(k: int, n: int, alpha: float) -> None:
    from scipy.stats import beta

    assert lower_bound(k, n, alpha) == pytest.approx(beta.ppf(alpha, k, n - k + 1), rel=1e-8)
    assert upper_bound(k, n, alpha) == pytest.approx(beta.ppf(1 - alpha, k + 1, n - k), rel=1e-8)


@pytest.mark.parametrize("p", [0.01, 0.2, 0.5, 0.97])
def test_bounds_cover_the_truth_at_least_as_often_as_they_say(p: float) -> None:
    """2,000 counts of 200 at alpha = 0.1: at most 200 misses are expected; 250 is 3.7 standard errors more."""
    chance = random.Random(5)
    counts = [sum(chance.random() < p for _ in range(200)) for _ in range(2000)]
    bounds = {k: (lower_bound(k, 200, 0.1), upper_bound(k, 200, 0.1)) for k in set(counts)}
    assert sum(p < bounds[k][0] for k in counts) <= 250
    assert sum(p > bounds[k][1] for k in counts) <= 250


def test_the_proved_epsilon_is_below_the_true_one_as_often_as_it_says() -> None:
    """q = 0.1 and p = e·q: ε is 1; of 300 bounds at alpha = 0.1 at most 30 may be above it."""
    chance = random.Random(6)
    q, p, n = 0.1, 0.1 * math.e, 400
    above, refuted = 0, 0
    for _ in range(300):
        likely = (sum(chance.random() < p for _ in range(n)), n)
        unlikely = (sum(chance.random() < q for _ in range(n)), n)
        above += epsilon_bound(likely, unlikely, 0.1) > 1.0
        refuted += p_value(likely, unlikely, 1.0) < 0.1
    assert above == refuted <= 30
    assert above > 0  # the bound is not empty words


def test_the_p_value_is_where_the_bound_crosses_the_claim() -> None:
    likely, unlikely = (400, 1000), (80, 1000)
    p = p_value(likely, unlikely, 1.0)
    assert 1e-6 < p < 0.1
    assert epsilon_bound(likely, unlikely, p * 1.001) > 1.0 > epsilon_bound(likely, unlikely, p * 0.999)


@pytest.mark.parametrize("runs", [50, 1000, 10_000])
@pytest.mark.parametrize("alpha", [0.05, 1e-6 / 8])
def test_the_ceiling_is_the_largest_claim_that_the_clearest_counts_refute(runs: int, alpha: float) -> None:
    most = ceiling(runs, alpha)
    assert p_value((runs, runs), (0, runs), most - 1e-6) < alpha < p_value((runs, runs), (0, runs), most + 1e-6)
    assert most == pytest.approx(math.log(runs / math.log(2 / alpha)), abs=0.4)


def test_equal_counts_prove_nothing() -> None:
    assert epsilon_bound((50, 100), (50, 100), 0.05) == 0.0
    assert p_value((50, 100), (50, 100), 0.5) == 1.0
    assert p_value((0, 100), (0, 100), 1.0) == 1.0

from __future__ import annotations

import math

import pytest

from agentd.core.privacy.calibrate import composed, nominal_interval, nominal_private
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.series import ReleaseSeries, scale_steps


def spent(thresholds: list[int]) -> float:
    ledger = Ledger()
    for pulls in thresholds:
        ledger.record(Release(0, pulls, pulls, scale_steps(pulls)))
    return ledger.epsilon_one_reward()


@pytest.mark.parametrize("true", [0.1, 0.3, 1.0, 3.0])
def test_the_rate_of_private_ucb_keeps_the_promise_and_hardly_any_larger_one_does(true: float) -> None:
    rate = nominal_private(true, 1000)
    assert 0.5 * true < spent(ReleaseSeries(rate).thresholds(1000)) <= true
    assert spent(ReleaseSeries(1.1 * rate).thresholds(1000)) > true


def test_a_true_epsilon_of_one_needs_the_rate_that_the_notes_say() -> None:
    assert nominal_private(1.0, 1000) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("true", [0.1, 0.3, 1.0, 3.0])
def test_the_interval_of_dp_ucb_int_is_the_shortest_that_keeps_the_promise(true: float) -> None:
    interval = math.ceil(1.0 / nominal_interval(true, 1000))
    assert spent(list(range(interval, 1001, interval))) <= true
    assert composed(range(interval - 1, 1001, interval - 1)) > true


def test_where_even_one_release_costs_too_much_there_is_none() -> None:
    assert ReleaseSeries(nominal_private(0.1, 40)).thresholds(40) == []
    assert nominal_interval(0.1, 40) < 1 / 40


def test_where_releasing_always_is_cheap_enough_the_rate_is_large() -> None:
    assert nominal_private(100.0, 5) >= 1.0
    assert nominal_interval(100.0, 5) == 1.0


def test_only_a_positive_promise_can_be_kept() -> None:
    for rate in (nominal_private, nominal_interval):
        with pytest.raises(ValueError, match="positive"):
            rate(0.0, 10)

"""The corrected release series: its thresholds, its noise scales and what they cost."""

from __future__ import annotations

import math
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from agentd.core.grid import UNIT
from agentd.core.privacy.series import ReleaseSeries, ReleaseWalk, cost, scale_steps


def test_the_thresholds_of_the_paper_notes() -> None:
    assert ReleaseSeries(0.1, 1.1).thresholds(46) == [7, 16, 26, 36, 46]


def test_the_gaps_tend_to_one_over_epsilon() -> None:
    thresholds = ReleaseSeries(0.04).thresholds(20_000)
    assert thresholds[-1] - thresholds[-2] == 25
    assert thresholds[1] - thresholds[0] < 25


@pytest.mark.parametrize("epsilon", [1.0, 1.5, 3.0, 1e300])
def test_from_epsilon_one_on_every_pull_releases(epsilon: float) -> None:
    """ε = 1 makes every pull a tie of the definition, so one lost bit would lose a release."""
    for v in (1.01, 1.1, 1.25, 1.49):
        assert ReleaseSeries(epsilon, v).thresholds(5000) == list(range(1, 5001))


@pytest.mark.parametrize(("epsilon", "v"), [(0.1, 1.1), (0.02, 1.1), (0.37, 1.3), (0.9, 1.45), (0.5, 1.05)])
def test_the_thresholds_are_those_of_forty_digit_arithmetic(epsilon: float, v: float) -> None:
    with localcontext() as context:
        context.prec = 40
        exponent, total, expected = Decimal(v) / 2, Decimal(0), []
        for x in range(1, 401):
            total += Decimal(x) ** -exponent
            if total >= 1 / (Decimal(epsilon) * Decimal(x) ** exponent):
                expected.append(x)
                total = Decimal(0)
    assert ReleaseSeries(epsilon, v).thresholds(400) == expected


def test_asking_far_ahead_first_changes_nothing() -> None:
    ahead, stepwise = ReleaseSeries(0.1), ReleaseSeries(0.1)
    assert ahead.thresholds(900) == [t for t in stepwise.thresholds(2000) if t <= 900]
    assert ahead.thresholds(10) == [7]


def test_a_walk_tells_which_pulls_release_and_remembers_none_of_them() -> None:
    walk = ReleaseWalk(0.1)
    assert [n for n in range(1, 60) if walk.step()] == [7, 16, 26, 36, 46, 56]
    assert walk.pulls == 59
    early = sys.getsizeof(walk) + sum(sys.getsizeof(getattr(walk, name)) for name in ReleaseWalk.__slots__)
    while walk.pulls < 50_000:
        walk.step()
    assert sys.getsizeof(walk) + sum(sys.getsizeof(getattr(walk, name)) for name in ReleaseWalk.__slots__) == early


def test_thresholds_are_looked_for_no_further_than_they_are_asked_for() -> None:
    """With ε = 10⁻¹² the first threshold lies beyond 10¹¹ pulls; finding it would take hours."""
    assert ReleaseSeries(1e-12).thresholds(1000) == []


def test_each_count_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = 0
    judge_next = ReleaseSeries._judge_next

    def counting(series: ReleaseSeries) -> None:
        nonlocal judged
        judged += 1
        judge_next(series)

    monkeypatch.setattr(ReleaseSeries, "_judge_next", counting)
    series = ReleaseSeries(0.1)
    for n in range(1000):
        series.thresholds(n)
    assert judged == 999


@pytest.mark.parametrize("limit", [-1, 0, 6])
def test_below_the_first_threshold_there_is_none(limit: int) -> None:
    assert ReleaseSeries(0.1).thresholds(limit) == []


def test_changing_the_returned_list_does_not_change_the_series() -> None:
    series = ReleaseSeries(0.1)
    series.thresholds(60).clear()
    assert series.thresholds(7) == [7]


@pytest.mark.parametrize("epsilon", [0.0, -0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_that_is_not_positive_and_finite_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be positive and finite"):
        ReleaseSeries(epsilon)


@pytest.mark.parametrize("v", [1.0, 1.5, 0.5, 2.0, math.nan])
def test_a_v_outside_the_papers_range_is_refused(v: float) -> None:
    with pytest.raises(ValueError, match=r"v must lie strictly between 1 and 1\.5"):
        ReleaseSeries(0.1, v)
    with pytest.raises(ValueError, match=r"v must lie strictly between 1 and 1\.5"):
        scale_steps(3, v)


def test_the_scale_is_the_power_of_the_pulls_in_grid_steps_rounded_up() -> None:
    assert scale_steps(1, 1.1) == UNIT
    assert scale_steps(256, 1.25) == 32 * UNIT
    assert scale_steps(2, 1.1) == 1_535_206
    assert scale_steps(2) == scale_steps(2, 1.1)


def test_a_release_without_pulls_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one pull"):
        scale_steps(0, 1.1)


def test_a_release_costs_sensitivity_over_scale() -> None:
    """The paper's Laplace lemma has it upside down."""
    assert cost(UNIT) == 1
    assert cost(4 * UNIT) == Fraction(1, 4)
    assert cost(3) == Fraction(UNIT, 3)


@pytest.mark.parametrize("scale", [0, -1])
def test_a_cost_without_noise_is_refused(scale: int) -> None:
    with pytest.raises(ValueError, match="positive number of grid steps"):
        cost(scale)

"""The ledger: what releases compose to, for whom, and how it survives a restart."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from agentd.core.grid import UNIT
from agentd.core.privacy.ledger import Ledger, Release, composed_epsilons, paper_bound, zeta
from agentd.core.privacy.series import ReleaseSeries, scale_steps
from agentd.core.upwards import whole_up

DELTA = 1e-5


def test_where_batches_are_disjoint_a_reward_costs_one_release_however_many_there_are() -> None:
    ledger = Ledger(disjoint=True)
    assert ledger.epsilon_one_reward() == ledger.epsilon_all_arms() == 0.0
    for trial, (arm, scale) in enumerate([(0, UNIT), (0, UNIT), (1, 2 * UNIT), (1, 2 * UNIT), (1, 4 * UNIT)], start=1):
        ledger.record(Release(arm, trial, 3, scale))
    assert ledger.epsilon_one_reward() == ledger.epsilon_one_reward(1e-5) == 1.0
    assert ledger.epsilon_all_arms() == ledger.epsilon_all_arms(1e-5) == 1.5  # one reward on each arm
    assert ledger.releases() == 5
    assert max(map(ledger.pure_epsilon, ledger.arms)) == 2.0  # as a running sum it would cost


def _after(pulls: list[int], v: float = 1.1, arm: int = 0) -> Ledger:
    """A ledger after releases of one arm at these pull counts."""
    ledger = Ledger()
    for n in pulls:
        ledger.record(Release(arm, trial=n, pulls=n, scale=scale_steps(n, v)))
    return ledger


def _repeated(scale: int, times: int, arm: int = 0) -> Ledger:
    ledger = Ledger()
    for trial in range(1, times + 1):
        ledger.record(Release(arm, trial, trial, scale))
    return ledger


def test_a_release_costs_its_sensitivity_over_its_scale() -> None:
    assert Release(arm=0, trial=9, pulls=4, scale=3 * UNIT).epsilon == Fraction(1, 3)


@pytest.mark.parametrize("fields", [(-1, 1, 1, 1), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0)])
def test_an_impossible_release_is_refused(fields: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="no release looks like this"):
        Release(*fields)


def test_nominal_a_tenth_costs_what_the_paper_notes_say() -> None:
    """Error 7 of the notes: 1000 pulls of one arm at v = 1.1; within one per cent."""
    ledger = _after(ReleaseSeries(0.1).thresholds(1000))
    assert ledger.releases() == 100
    assert ledger.pure_epsilon(0) == pytest.approx(4.66, rel=0.01)
    assert ledger.advanced_epsilon(DELTA, 0) == pytest.approx(3.24, rel=0.01)


def test_a_true_epsilon_of_one_needs_nominal_a_fiftieth() -> None:
    assert 0.9 < _after(ReleaseSeries(0.02).thresholds(1000)).pure_epsilon() < 1
    assert _after(ReleaseSeries(0.025).thresholds(1000)).pure_epsilon() > 1


def test_nominal_one_releases_at_every_pull_and_costs_forty_eight() -> None:
    """With ε = 1 every pull is a tie of the definition, and a tie releases: the cost is Σ n^(−v/2) itself."""
    ledger = _after(ReleaseSeries(1.0).thresholds(1000))
    assert ledger.pure_epsilon() == pytest.approx(math.fsum(n**-0.55 for n in range(1, 1001)), rel=1e-6)
    assert ledger.pure_epsilon() == pytest.approx(48.08, rel=0.001)
    assert ledger.advanced_epsilon(DELTA) == pytest.approx(14.06, rel=0.001)


def test_the_notes_figures_for_nominal_one_leave_out_ties_lost_to_rounding() -> None:
    """The notes say 42.6 and 13.5: j^(−v/2) and 1/x^(v/2) rounded apart skip one pull in seven."""
    half = Decimal("0.55")
    rounded, total = [], 0.0
    for n in range(1, 1001):
        total += float(Decimal(n) ** -half)
        if total >= 1 / float(Decimal(n) ** half):
            rounded.append(n)
            total = 0.0
    ledger = _after(rounded)
    assert ledger.pure_epsilon() == pytest.approx(42.6, rel=0.01)
    assert ledger.advanced_epsilon(DELTA) == pytest.approx(13.5, rel=0.01)


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.5, 1.0])
def test_the_series_keeps_the_ledger_below_the_papers_growing_bound(epsilon: float) -> None:
    for trials in (10, 100, 1000):
        spent = _after(ReleaseSeries(epsilon).thresholds(trials)).pure_epsilon()
        assert spent <= epsilon * trials**0.45 / 0.45


@pytest.mark.parametrize(("scale", "times"), [(10 * UNIT, 100), (20 * UNIT, 400), (2 * UNIT, 60)])
def test_the_advanced_epsilon_holds_for_the_worst_mechanism(scale: int, times: int) -> None:
    """Randomised response is the worst ε-private mechanism; its k-fold δ at the stated ε is a finite sum."""
    stated = _repeated(scale, times).advanced_epsilon(DELTA)
    assert stated < times * UNIT / scale
    assert _worst_delta(stated, UNIT / scale, times) <= DELTA
    assert _worst_delta(0.7 * stated, UNIT / scale, times) > DELTA, "a bound that anything would pass"


def _worst_delta(stated: float, each: float, times: int) -> float:
    """E[max(0, 1 − e^(stated − loss))] with the loss (2k − times)·each for k truthful answers."""
    truthful = math.exp(each) / (1 + math.exp(each))
    return math.fsum(
        math.comb(times, k)
        * truthful**k
        * (1 - truthful) ** (times - k)
        * max(0.0, -math.expm1(stated - (2 * k - times) * each))
        for k in range(times + 1)
    )


def test_few_releases_are_not_charged_more_than_their_sum() -> None:
    ledger = _repeated(UNIT, 2)
    assert ledger.advanced_epsilon(DELTA) == ledger.pure_epsilon() == 2


def test_one_reward_touches_one_arm_and_a_change_on_every_arm_touches_all() -> None:
    ledger = Ledger()
    for arm, scale in ((0, 2 * UNIT), (0, 4 * UNIT), (2, UNIT)):
        ledger.record(Release(arm, 1, 1, scale))
    assert ledger.epsilon_one_reward() == 1
    assert ledger.epsilon_all_arms() == 1.75
    assert ledger.epsilon_largest_release() == 1
    assert (ledger.pure_epsilon(0), ledger.pure_epsilon(1), ledger.pure_epsilon(2)) == (0.75, 0, 1)
    assert (ledger.releases(0), ledger.releases(1), ledger.releases()) == (2, 0, 3)


def test_the_promise_for_one_reward_at_delta_is_the_largest_over_the_arms() -> None:
    ledger = _repeated(10 * UNIT, 300, arm=1)
    ledger.record(Release(0, 1, 1, UNIT))
    assert ledger.epsilon_one_reward(DELTA) == ledger.advanced_epsilon(DELTA, 1)
    assert ledger.advanced_epsilon(DELTA, 0) < ledger.advanced_epsilon(DELTA, 1)
    assert ledger.epsilon_all_arms(DELTA) == ledger.advanced_epsilon(DELTA) > ledger.epsilon_one_reward(DELTA)


def test_asking_for_an_arm_without_releases_leaves_no_trace() -> None:
    ledger = _repeated(UNIT, 1)
    assert ledger.spent(7) == 0
    assert ledger.arms == [0]


def test_an_empty_ledger_has_spent_nothing() -> None:
    ledger = Ledger()
    assert ledger.epsilon_one_reward() == ledger.epsilon_one_reward(DELTA) == ledger.epsilon_all_arms() == 0
    assert ledger.epsilon_largest_release() == 0
    assert ledger.arms == []


def test_the_stated_double_is_never_below_the_exact_sum() -> None:
    """A third is not a double and its nearest double lies below it."""
    ledger = _repeated(3 * UNIT, 1)
    assert Fraction(1 / 3) < Fraction(1, 3) <= Fraction(ledger.pure_epsilon())
    assert ledger.pure_epsilon() == math.nextafter(1 / 3, 1)
    assert Fraction(1, 3) <= ledger.spent() <= Fraction(1, 3) + Fraction(1, 1 << 128)


def test_a_huge_epsilon_overflows_nothing() -> None:
    """Scale 1 is nearly no noise: ε = 2²⁰, where e^ε is beyond any double."""
    assert _repeated(1, 3).advanced_epsilon(DELTA) == 3 * UNIT


def test_the_promises_name_who_is_protected() -> None:
    ledger = _repeated(10 * UNIT, 300, arm=3)
    ledger.record(Release(1, 1, 1, UNIT))
    assert ledger.epsilon_one_reward() == ledger.pure_epsilon(3) == pytest.approx(30)
    assert ledger.epsilon_one_reward(DELTA) == ledger.advanced_epsilon(DELTA, 3)
    assert ledger.epsilon_all_arms() == ledger.pure_epsilon() == pytest.approx(31)
    assert ledger.epsilon_all_arms(DELTA) == ledger.advanced_epsilon(DELTA)
    assert ledger.epsilon_largest_release() == 1.0
    assert [(arm, ledger.releases(arm)) for arm in ledger.arms] == [(1, 1), (3, 300)]
    assert (ledger.pure_epsilon(1), ledger.advanced_epsilon(DELTA, 1), ledger.releases()) == (1.0, 1.0, 301)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, 2.0, math.nan])
def test_a_delta_that_is_no_probability_is_refused(delta: float) -> None:
    ledger = _repeated(UNIT, 1)
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        ledger.advanced_epsilon(delta)
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        paper_bound(0.1, 1.1, 1000, delta)


def test_zeta_has_its_known_values() -> None:
    assert zeta(1.1) == pytest.approx(10.5844484649508, rel=1e-14)
    assert zeta(1.5) == pytest.approx(2.612375348685488, rel=1e-15)
    assert zeta(2) == pytest.approx(math.pi**2 / 6, rel=1e-15)
    assert zeta(4) == pytest.approx(math.pi**4 / 90, rel=1e-15)


@pytest.mark.parametrize("s", [1.0, 0.5, math.nan])
def test_zeta_is_refused_where_its_series_has_no_sum(s: float) -> None:
    with pytest.raises(ValueError, match="above 1"):
        zeta(s)


def test_the_papers_bound_grows_first_and_settles_then() -> None:
    growing = 0.1 * 1000**0.45 / 0.45
    settled = 2 * 0.1 * 10.5844484649508 + math.sqrt(2 * 0.1 * 10.5844484649508 * math.log(1e5))
    assert paper_bound(0.1, 1.1, 1000, DELTA) == pytest.approx(growing, rel=1e-12)
    assert paper_bound(0.1, 1.1, 10**6, DELTA) == pytest.approx(settled, rel=1e-12)
    assert growing < settled < 0.1 * (10**6) ** 0.45 / 0.45


@pytest.mark.parametrize(("epsilon", "v", "named"), [(0.0, 1.1, "epsilon"), (0.1, 1.5, "v must")])
def test_the_papers_bound_is_refused_outside_its_lemma(epsilon: float, v: float, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        paper_bound(epsilon, v, 1000, DELTA)


@pytest.mark.parametrize("rewards", [1, 3, 5, 7, 49])
def test_what_so_many_rewards_cost_together_is_told_exactly_where_batches_are_disjoint(rewards: int) -> None:
    ledger = Ledger(disjoint=True)
    assert ledger.cost_of_rewards(rewards) == 0
    for scale in (9 * UNIT, rewards * UNIT, 8 * rewards * UNIT):
        ledger.record(Release(0, 1, 1, max(scale, rewards * UNIT)))
    assert ledger.cost_of_rewards() == Fraction(1, rewards)
    assert ledger.cost_of_rewards(rewards) == 1
    assert whole_up(ledger.cost_of_rewards(), 10**6) == -(-(10**6) // rewards)


def test_where_sums_run_on_so_many_rewards_cost_no_less_than_so_many_times_the_sum() -> None:
    ledger = Ledger()
    for _ in range(3):
        ledger.record(Release(0, 1, 1, 5 * UNIT))
    assert Fraction(3, 5) * 4 <= ledger.cost_of_rewards(4) <= Fraction(3, 5) * 4 * (1 + Fraction(1, 10**12))


def test_after_so_many_releases_of_an_arm_is_told_what_a_ledger_would_tell() -> None:
    ledger, told = Ledger(), [0.0]
    scales = [scale_steps(pulls) for pulls in range(1, 60)]
    for pulls, scale in enumerate(scales, start=1):
        ledger.record(Release(0, pulls, pulls, scale))
        told.append(ledger.epsilon_one_reward())
    assert composed_epsilons(scales, range(60)) == told
    assert composed_epsilons([], [0, 0]) == [0.0, 0.0]


def test_what_all_arms_spent_is_what_each_of_them_did() -> None:
    ledger = Ledger()
    for arm, pulls in ((0, 4), (1, 9), (0, 2), (3, 30)):
        ledger.record(Release(arm, pulls, pulls, scale_steps(pulls)))
    assert ledger.made == ledger.releases() == sum(map(ledger.releases, ledger.arms)) == 4
    assert ledger.spent() == sum(map(ledger.spent, ledger.arms))
    assert ledger.epsilon_largest_release() == pytest.approx(float(UNIT / Fraction(scale_steps(2))))

"""Grid, series, noise and ledger against the obvious way to compute the same."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentd.core.chance import Purpose, stream
from agentd.core.grid import UNIT, quantise, quantise_all
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.privacy.ledger import UNIT_BITS, Ledger, Release
from agentd.core.privacy.series import ReleaseSeries, cost, scale_steps

# A loaded machine is no fault of the code: no deadline per example.
unhurried = settings(deadline=None, max_examples=100)

rewards = st.floats(0, 1)
epsilons = st.floats(0.01, 3)
vs = st.floats(1, 1.5, exclude_min=True, exclude_max=True)
scales = st.integers(1, 1 << 44)
releases = st.lists(
    st.builds(Release, st.integers(0, 4), st.integers(1, 999), st.integers(1, 999), scales), max_size=40
)
deltas = st.floats(1e-12, 0.5)


@given(st.lists(rewards, max_size=50))
@unhurried
def test_an_array_is_quantised_as_its_elements_are(values: list[float]) -> None:
    assert quantise_all(np.array(values, dtype=np.float64)).tolist() == [quantise(value) for value in values]


@given(rewards)
@example(math.nextafter(1, 0))
@example(5e-324)
@unhurried
def test_a_quantised_reward_is_in_range_and_half_a_step_away_at_most(reward: float) -> None:
    steps = quantise(reward)
    assert 0 <= steps <= UNIT
    assert abs(Fraction(steps) - Fraction(reward) * UNIT) <= Fraction(1, 2) + Fraction(1, 1 << 50)
    assert quantise(steps / UNIT) == steps


@given(st.floats().filter(lambda value: not 0 <= value <= 1), st.lists(rewards, max_size=5))
@unhurried
def test_whatever_lies_outside_the_unit_interval_is_refused(value: float, others: list[float]) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        quantise(value)
    with pytest.raises(ValueError, match="must lie in"):
        quantise_all(np.array([*others, value]))


@given(st.lists(rewards, min_size=2, max_size=50), st.randoms(use_true_random=False))
@unhurried
def test_the_sum_on_the_grid_does_not_depend_on_the_order_of_arrival(
    values: list[float], chance: random.Random
) -> None:
    arrived = [quantise(value) for value in values]
    running = np.cumsum(quantise_all(np.array(values)))[-1]
    chance.shuffle(arrived)
    assert sum(arrived) == running
    assert sum(arrived) / UNIT == sum(steps / UNIT for steps in arrived), "and no addition of grid rewards ever rounds"


def _by_definition(epsilon: float, v: float, limit: int) -> list[int]:
    """Read the definition aloud: for every x, sum again from the last threshold."""
    thresholds = [0]
    for x in range(1, limit + 1):
        total = math.fsum(1 / j ** (v / 2) for j in range(thresholds[-1] + 1, x + 1))
        if total >= 1 / (epsilon * x ** (v / 2)):
            thresholds.append(x)
    return thresholds[1:]


@given(epsilons, vs)
@example(1.0, 1.1)
@example(0.1, 1.1)
@unhurried
def test_the_series_is_its_definition(epsilon: float, v: float) -> None:
    assert ReleaseSeries(epsilon, v).thresholds(250) == _by_definition(epsilon, v, 250)


@given(epsilons, vs, st.lists(st.integers(0, 400), max_size=20))
@unhurried
def test_the_answers_of_a_series_do_not_depend_on_the_questions_before(
    epsilon: float, v: float, questions: list[int]
) -> None:
    fresh = ReleaseSeries(epsilon, v).thresholds(1000)
    asked = ReleaseSeries(epsilon, v)
    for n in questions:
        assert asked.thresholds(n) == [threshold for threshold in fresh if threshold <= n]


@given(epsilons.filter(lambda epsilon: epsilon <= 1), vs, st.integers(1, 400))
@unhurried
def test_the_costs_of_a_series_telescope_to_the_papers_bound(epsilon: float, v: float, pulls: int) -> None:
    spent = sum(cost(scale_steps(n, v)) for n in ReleaseSeries(epsilon, v).thresholds(pulls))
    assert spent <= epsilon * pulls ** (1 - v / 2) / (1 - v / 2) * (1 + 1e-12)


@given(st.integers(1, 10**9), vs)
@unhurried
def test_a_release_never_costs_more_than_its_share(n: int, v: float) -> None:
    scale = scale_steps(n, v)
    assert cost(scale) <= Fraction(n ** (-v / 2)) * (1 + Fraction(1, 1 << 48))
    assert cost(scale) >= Fraction(n ** (-v / 2)) * (1 - Fraction(1, UNIT)) * (1 - Fraction(1, 1 << 48))


@given(st.integers(0, 2**64 - 1), st.integers(0, 500), st.lists(st.tuples(st.integers(0, 3), scales), max_size=30))
@unhurried
def test_seeded_noise_is_the_difference_of_two_geometrics_of_the_arms_own_stream(
    seed: int, agent: int, draws: list[tuple[int, int]]
) -> None:
    noise = SeededLaplace(seed, agent)
    pairs = {arm: iter(stream(seed, Purpose.NOISE, agent, arm).standard_exponential((30, 2))) for arm in range(4)}
    for arm, scale in draws:
        first, second = np.floor(np.int64(scale) * next(pairs[arm])).astype(np.int64)
        assert noise.draw(arm, scale) == first - second


def _ledger(recorded: list[Release]) -> Ledger:
    ledger = Ledger()
    for release in recorded:
        ledger.record(release)
    return ledger


def _of(recorded: list[Release], arm: int | None) -> list[Release]:
    return [release for release in recorded if arm is None or release.arm == arm]


arms = st.none() | st.integers(0, 4)


@given(releases, arms)
@unhurried
def test_the_ledger_is_the_sum_over_the_releases_each_rounded_up(recorded: list[Release], arm: int | None) -> None:
    ledger, own = _ledger(recorded), _of(recorded, arm)
    units = sum(math.ceil(release.epsilon * 2**UNIT_BITS) for release in own)
    assert ledger.spent(arm) == Fraction(units, 2**UNIT_BITS)
    assert ledger.releases(arm) == len(own)


@given(releases, arms)
@unhurried
def test_the_stated_epsilon_is_the_true_one_or_a_hair_above(recorded: list[Release], arm: int | None) -> None:
    ledger = _ledger(recorded)
    truth = sum((release.epsilon for release in _of(recorded, arm)), Fraction(0))
    for stated in (ledger.spent(arm), Fraction(ledger.pure_epsilon(arm))):
        assert truth <= stated <= truth * (1 + Fraction(1, 10**12))


@given(releases, arms, deltas)
@unhurried
def test_the_advanced_epsilon_is_the_better_of_the_two_bounds(
    recorded: list[Release], arm: int | None, delta: float
) -> None:
    ledger = _ledger(recorded)
    each = [float(release.epsilon) for release in _of(recorded, arm)]
    drift = math.fsum(e * math.tanh(e / 2) for e in each)
    spread = math.sqrt(2 * math.log(1 / delta) * math.fsum(e * e for e in each))
    stated = ledger.advanced_epsilon(delta, arm)
    assert stated == pytest.approx(min(math.fsum(each), drift + spread), rel=1e-11)
    assert stated <= ledger.pure_epsilon(arm)


@given(releases, deltas)
@unhurried
def test_one_reward_costs_the_dearest_arm_and_all_arms_cost_the_sum(recorded: list[Release], delta: float) -> None:
    ledger = _ledger(recorded)
    by_arm = [sum((r.epsilon for r in _of(recorded, arm)), Fraction(0)) for arm in range(5)]
    assert ledger.epsilon_one_reward() == pytest.approx(float(max(by_arm)), rel=1e-12)
    assert ledger.epsilon_all_arms() == pytest.approx(float(sum(by_arm)), rel=1e-12)
    assert ledger.epsilon_one_reward(delta) == max(ledger.advanced_epsilon(delta, arm) for arm in range(5))
    largest = max((release.epsilon for release in recorded), default=Fraction(0))
    assert ledger.epsilon_largest_release() == pytest.approx(float(largest), rel=1e-12)


def _promises(ledger: Ledger, delta: float) -> list[tuple[object, ...]]:
    """Everything that a ledger says, of each arm and of all."""
    by_arm = [
        (arm, ledger.releases(arm), ledger.spent(arm), ledger.pure_epsilon(arm), ledger.advanced_epsilon(delta, arm))
        for arm in (*ledger.arms, None)
    ]
    return [*by_arm, (ledger.epsilon_one_reward(), ledger.epsilon_one_reward(delta), ledger.epsilon_largest_release())]


@given(releases, st.randoms(use_true_random=False), deltas)
@unhurried
def test_the_order_of_the_releases_does_not_matter(
    recorded: list[Release], chance: random.Random, delta: float
) -> None:
    shuffled = recorded.copy()
    chance.shuffle(shuffled)
    assert _promises(_ledger(shuffled), delta) == _promises(_ledger(recorded), delta)


@given(releases, releases, deltas)
@unhurried
def test_a_restored_ledger_goes_on_as_if_nothing_had_happened(
    before: list[Release], after: list[Release], delta: float
) -> None:
    restored = Ledger()
    for release in before:
        restored.take_back(release)
    for release in after:
        restored.record(release)
    assert _promises(restored, delta) == _promises(_ledger(before + after), delta)

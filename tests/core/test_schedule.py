"""(ε, δ) values are those of a schedule that is fixed before the first reward, not of what a run released."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from small_runs import observe

from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS, PolicySettings, first_release, make_policy, schedule_of
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.schedule import LONGEST

DELTA = 1e-5
NOISED = [name for name, algorithm in ALGORITHMS.items() if algorithm.noised]
KNOBS = PolicySettings(arms=3)


def test_an_arm_that_is_pulled_a_thousand_times_costs_what_the_readme_says() -> None:
    schedule = schedule_of("private-ucb", KNOBS, 1000)
    assert schedule is not None
    assert (schedule.releases, schedule.pulls) == (1000, 1000)
    assert schedule.epsilon == pytest.approx(48, abs=0.5)
    assert schedule.at(DELTA) == pytest.approx(14, abs=0.5)


@pytest.mark.parametrize("budget", [None, 1.0, 3.5])
@pytest.mark.parametrize("epsilon", [1.0, 0.3])
@pytest.mark.parametrize("algorithm", ["private-ucb", "dp-ucb-int"])
def test_it_is_what_an_agent_releases_that_pulls_one_arm_only(
    algorithm: str, epsilon: float, budget: float | None
) -> None:
    knobs = replace(KNOBS, epsilon=epsilon, epsilon_budget=budget)
    policy = make_policy(algorithm, knobs, 0)
    for trial in range(1, 301):
        observe(policy, trial, 1, UNIT, UNIT)
    schedule = schedule_of(algorithm, knobs, 300)
    assert schedule is not None
    assert policy.ledger is not None
    assert schedule.releases == policy.ledger.releases()
    assert schedule.epsilon == policy.ledger.epsilon_one_reward()
    assert schedule.at(DELTA) == policy.ledger.epsilon_one_reward(DELTA)


def test_where_batches_are_disjoint_a_reward_is_in_one_release_however_long_the_run_is() -> None:
    for rounds in (1, 1000, LONGEST):
        schedule = schedule_of("sealed", replace(KNOBS, epsilon=0.25), rounds)
        assert schedule is not None
        assert (schedule.epsilon, schedule.at(DELTA)) == (0.25, 0.25)


@pytest.mark.parametrize("algorithm", NOISED)
def test_without_a_horizon_there_is_none(algorithm: str) -> None:
    assert schedule_of(algorithm, KNOBS, None) is None
    assert schedule_of(algorithm, KNOBS, LONGEST + 1) is None
    assert schedule_of("coop-ucb", KNOBS, 10) is None


@pytest.mark.parametrize("algorithm", NOISED)
def test_after_a_lost_round_nothing_is_fixed_unless_a_reward_is_in_one_release_only(algorithm: str) -> None:
    schedule = schedule_of(algorithm, KNOBS, 100, lost=True)
    assert (schedule is not None) == (algorithm in ("sealed", "shielded"))


def test_where_the_number_of_releases_follows_from_their_noise_losses_exceed_the_bound_more_often_than_delta() -> None:
    """Whoever stops at the most telling moment has seen more than the bound for that many releases allows.

    Releases of ε = 0.1 each; the privacy loss of each is ±0.1 at most, and one likelier than the other. An adversary
    that stops when the losses are above the bound for so many releases succeeds more often than δ: 0.0855 of 0.05.
    """
    delta, runs, most = 0.05, 4000, 400
    ledger, bounds = Ledger(), []
    for number in range(1, most + 1):
        ledger.take_back(Release(0, number, number, 10 * UNIT))
        bounds.append(ledger.advanced_epsilon(delta))
    up = math.exp(0.1) / (1 + math.exp(0.1))
    steps = np.where(np.random.Generator(np.random.Philox(key=7)).random((runs, most)) < up, 0.1, -0.1)
    ever_above = (steps.cumsum(axis=1) > np.array(bounds)[np.newaxis]).any(axis=1).mean()
    assert ever_above > 1.5 * delta
    assert (steps.sum(axis=1) > bounds[-1]).mean() <= delta  # as promised where the number is fixed


@pytest.mark.parametrize(
    ("algorithm", "epsilon", "cost"),
    [("sealed", 1.0, 1.0), ("sealed", 0.5, 0.5), ("private-ucb", 1.0, 1.0), ("dp-ucb-int", 0.25, 4 ** (-0.55))],
)
def test_what_the_first_release_costs(algorithm: str, epsilon: float, cost: float) -> None:
    assert first_release(algorithm, replace(KNOBS, epsilon=epsilon)) == pytest.approx(cost, rel=1e-5)
    assert first_release("ucb1", KNOBS) is None

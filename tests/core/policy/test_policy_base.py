"""What all policies share: the index, the names, and the part that keeps silent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_runs import news, observe, sample, samples

from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS
from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS, PolicySettings, make_policy
from agentd.core.policy.base import Silent, best_arm, widened_log


def test_the_widened_logarithm_is_the_papers_in_grid_steps() -> None:
    assert math.sqrt(widened_log(50) / 7) / UNIT == pytest.approx(math.sqrt(2 * math.log(50) / 7), rel=1e-14)


def test_the_largest_index_wins() -> None:
    """At t = 100: 0.5 + √(2 ln 100 / 50) = 0.93 against 0.9 + √(2 ln 100 / 1000) = 0.99 and 0.2 + 0.68."""
    assert best_arm([25 * UNIT, 900 * UNIT, 4 * UNIT], [50, 1000, 20], 100) == 1
    assert best_arm([25 * UNIT, 900 * UNIT, 1 * UNIT], [50, 1000, 5], 100) == 2


def test_ties_go_to_the_lowest_arm() -> None:
    assert best_arm([UNIT, UNIT, UNIT], [2, 2, 2], 9) == 0
    assert best_arm([0, UNIT, UNIT], [2, 2, 2], 9) == 1


def test_an_arm_that_nobody_pulled_comes_first() -> None:
    assert best_arm([9 * UNIT, 0, 0], [9, 0, 0], 9) == 1


def test_negative_sums_of_noised_releases_are_compared_too() -> None:
    assert best_arm([-9 * UNIT, -8 * UNIT], [2, 2], 9) == 1


def test_who_plays_alone_tells_learns_and_forgets_nothing() -> None:
    silent = Silent()
    assert silent.body() is None
    silent.learn(news(samples(sample(1, 1))))
    silent.forget(np.zeros(1, dtype=np.int64), {})
    assert not vars(silent)


def test_the_algorithms_are_the_papers_and_our_own_under_their_names() -> None:
    assert {name: algorithm.tells for name, algorithm in ALGORITHMS.items()} == {
        "ucb1": None,
        "dp-ucb-int": None,
        "coop-ucb": TOTALS,
        "coop-thompson": TOTALS,
        "private-ucb": RELEASED,
        "byzantine-ucb": SAMPLE,
        "sealed": SEALED,
        "shielded": SEALED,
    }


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_said_about_an_algorithm_is_what_it_does(name: str) -> None:
    policy = make_policy(name, PolicySettings(arms=2), 0)
    observe(policy, 1, policy.choose(1), UNIT, UNIT)
    said = policy.body()
    assert (said[0] if said else None) == ALGORITHMS[name].tells
    assert (policy.ledger is not None) == ALGORITHMS[name].noised
    assert (policy.ledger is not None and policy.ledger.disjoint) == ALGORITHMS[name].disjoint
    assert ALGORITHMS[name].name == name
    assert ALGORITHMS[name].transcript_private == (name in ("sealed", "shielded"))  # error 6 of the paper


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in ("sealed", "shielded")])
@pytest.mark.parametrize("arms", [1, 3])
def test_every_policy_of_the_paper_begins_by_pulling_each_arm(name: str, arms: int) -> None:
    policy = make_policy(name, PolicySettings(arms=arms), 0)
    pulled = []
    for trial in range(1, arms + 1):
        pulled.append(policy.choose(trial))
        observe(policy, trial, pulled[-1], UNIT, UNIT)
    assert pulled == list(range(arms))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_asking_twice_changes_nothing(name: str) -> None:
    """`estimates` and `fallbacks` of byzantine-ucb count questions; the answers stay."""
    policy = make_policy(name, PolicySettings(arms=3), 0)
    for trial in range(1, 40):
        arm = policy.choose(trial)
        assert policy.choose(trial) == arm
        observe(policy, trial, arm, UNIT if arm == 1 else 0, 0)

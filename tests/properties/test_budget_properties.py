"""A privacy budget is never exceeded, whatever is pulled, whenever the agent restarts.

200 random schedules in make test, 10,000 in make test-long.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_runs import observe

from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.coins import KeyedCoins

ARMS = 3

schedules = st.lists(
    st.tuples(st.integers(0, ARMS - 1), st.integers(0, UNIT), st.integers(0, 9)), min_size=1, max_size=80
)
"""Per trial: the arm, the reward, and 0 for a restart after it."""


def new_policy(algorithm: str, epsilon: float, v: float, budget: float) -> Any:
    chosen = PolicySettings(arms=ARMS, epsilon=epsilon, v=v, epsilon_budget=budget)
    return make_policy(algorithm, chosen, 1, KeyedCoins(1, 1))


def restarted(before: Any, after: Any, made: list[Any]) -> Any:
    """The policy as it comes back: from its snapshot and the releases on disk."""
    after.restore(before.snapshot())
    for release in made:
        after.ledger.take_back(release)
    return after


unhurried = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
budgets = given(
    algorithm=st.sampled_from(["private-ucb", "dp-ucb-int", "sealed"]),
    epsilon=st.floats(0.05, 4.0),
    v=st.floats(1.01, 1.49),
    budget=st.floats(1e-3, 12.0),
    schedule=schedules,
)


@unhurried
@budgets
def test_no_schedule_goes_past_the_budget(
    algorithm: str, epsilon: float, v: float, budget: float, schedule: list[tuple[int, int, int]]
) -> None:
    policy = new_policy(algorithm, epsilon, v, budget)
    made: list[Any] = []
    spent: dict[int, list[Fraction]] = {}
    for trial, (arm, reward, restart) in enumerate(schedule, start=1):
        released = observe(policy, trial, arm, reward, reward)
        if released is not None:
            release = released.release
            made.append(release)
            spent.setdefault(release.arm, []).append(release.epsilon)
        if restart == 0:
            policy = restarted(policy, new_policy(algorithm, epsilon, v, budget), made)
        costs = [sum(each) if algorithm != "sealed" else max(each) for each in spent.values()]
        assert all(cost <= Fraction(budget) for cost in costs)
        assert policy.ledger.releases() == len(made)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(unhurried, max_examples=10_000)
@budgets
def test_ten_thousand_schedules_do_not_either(**drawn: Any) -> None:
    test_no_schedule_goes_past_the_budget.hypothesis.inner_test(**drawn)  # type: ignore[attr-defined]

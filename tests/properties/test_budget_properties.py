"""A privacy budget is never exceeded, whatever is pulled, whenever the agent restarts.

200 random schedules here; BUDGET_SCHEDULES=10000 for the long run by hand.
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.base import Keepable
from agentd.core.policy.coins import KeyedCoins
from agentd.core.privacy.laplace import SeededLaplace

ARMS = 3
SCHEDULES = int(os.environ.get("BUDGET_SCHEDULES", "200"))

schedules = st.lists(
    st.tuples(st.integers(0, ARMS - 1), st.integers(0, UNIT), st.integers(0, 9)), min_size=1, max_size=80
)
"""Per trial: the arm, the reward, and 0 for a restart after it."""


def new_policy(algorithm: str, epsilon: float, v: float, budget: float) -> Any:
    chosen = PolicySettings(arms=ARMS, epsilon=epsilon, v=v, epsilon_budget=budget)
    return make_policy(algorithm, chosen, 1, SeededLaplace(1, 1), KeyedCoins(1, 1))


def restarted(before: Any, after: Any, made: list[Any]) -> Any:
    """The policy as it comes back: from its snapshot and the releases on disk."""
    after.restore(before.snapshot())
    for release in made:
        after.ledger.take_back(release)
    return after


@settings(max_examples=SCHEDULES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    algorithm=st.sampled_from(["private-ucb", "dp-ucb-int", "sealed"]),
    epsilon=st.floats(0.05, 4.0),
    v=st.floats(1.01, 1.49),
    budget=st.floats(1e-3, 12.0),
    schedule=schedules,
)
def test_no_schedule_goes_past_the_budget(
    algorithm: str, epsilon: float, v: float, budget: float, schedule: list[tuple[int, int, int]]
) -> None:
    policy = new_policy(algorithm, epsilon, v, budget)
    made: list[Any] = []
    spent: dict[int, list[Fraction]] = {}
    for trial, (arm, reward, restart) in enumerate(schedule, start=1):
        policy.observe(trial, arm, reward, reward)
        assert isinstance(policy, Keepable)
        for release, _ in policy.fresh:
            made.append(release)
            spent.setdefault(release.arm, []).append(release.epsilon)
        if restart == 0:
            policy = restarted(policy, new_policy(algorithm, epsilon, v, budget), made)
        costs = [sum(each) if algorithm != "sealed" else max(each) for each in spent.values()]
        assert all(cost <= Fraction(budget) for cost in costs)
        assert policy.ledger.releases() == len(made)

"""coop-ucb: own data once, everybody's newest totals once."""

from __future__ import annotations

import numpy as np
from small_runs import news, observe, sample, samples, totals

from agentd.core.bodies import TOTALS
from agentd.core.grid import UNIT
from agentd.core.message import Message
from agentd.core.policy import PolicySettings
from agentd.core.policy.coop_ucb import CoopUcb

ROW = np.array([0])


def after_first_pulls() -> CoopUcb:
    policy = CoopUcb(PolicySettings(arms=2))
    for trial, reward in ((1, UNIT), (2, 0)):
        assert policy.choose(trial) == trial - 1
        observe(policy, trial, trial - 1, reward, reward)
    return policy


def test_it_tells_all_pulls_and_what_it_says_they_paid() -> None:
    policy = CoopUcb(PolicySettings(arms=2))
    observe(policy, 1, 0, 10, 11)
    observe(policy, 2, 1, 20, 22)
    observe(policy, 3, 0, 30, 33)
    assert policy.body() == (TOTALS, [2, 44, 1, 22])


def test_it_learns_from_its_own_rewards_and_not_from_what_it_tells() -> None:
    policy = CoopUcb(PolicySettings(arms=2))
    observe(policy, 1, 0, UNIT, 0)
    observe(policy, 2, 1, 0, UNIT)
    assert policy.choose(3) == 0


def test_it_pulls_each_arm_itself_whatever_it_has_heard() -> None:
    policy = CoopUcb(PolicySettings(arms=2))
    policy.learn(news(totals(Message(1, 50, 1, (25, 25 * UNIT, 25, 0)))))
    assert policy.choose(1) == 0
    observe(policy, 1, 0, 0, 0)
    assert policy.choose(2) == 1


def test_what_others_found_changes_its_mind() -> None:
    policy = after_first_pulls()
    assert policy.choose(3) == 0
    policy.learn(news(totals(Message(1, 50, 1, (25, 0, 25, 25 * UNIT)))))
    assert policy.choose(3) == 1


def test_what_others_found_counts_until_it_is_forgotten() -> None:
    policy = after_first_pulls()
    told = totals(Message(1, 50, 1, (25, 0, 25, 25 * UNIT)))
    policy.learn(news(told))
    policy.forget(ROW, {TOTALS: told.cells})
    assert policy.choose(3) == 0


def test_newer_totals_replace_older_ones() -> None:
    policy = after_first_pulls()
    older = totals(Message(1, 50, 1, (25, 0, 25, 25 * UNIT)))
    policy.learn(news(older))
    policy.learn(news(totals(Message(1, 51, 1, (26, 26 * UNIT, 25, 0))), before=older))
    assert policy.choose(3) == 0


def test_bodies_of_another_kind_are_ignored() -> None:
    policy = after_first_pulls()
    policy.learn(news(samples(sample(1, 1, arm=1, reward=UNIT))))
    assert policy.choose(3) == 0

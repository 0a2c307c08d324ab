"""ucb1 against the formula."""

from __future__ import annotations

import math

from small_runs import observe

from agentd.core.chance import Purpose, stream
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings
from agentd.core.policy.ucb1 import Ucb1


def test_it_pulls_what_the_formula_says() -> None:
    policy = Ucb1(PolicySettings(arms=3))
    chance = stream(3, Purpose.REWARD)
    counts, sums = [0] * 3, [0.0] * 3
    for trial in range(1, 400):
        arm = policy.choose(trial)
        if trial <= 3:
            assert arm == trial - 1
        else:
            indices = [s / n + math.sqrt(2 * math.log(trial) / n) for s, n in zip(sums, counts, strict=True)]
            assert indices[arm] >= max(indices) - 1e-12
        reward = UNIT if chance.random() < (0.2, 0.8, 0.6)[arm] else 0
        observe(policy, trial, arm, reward, 0)
        counts[arm] += 1
        sums[arm] += reward / UNIT
    assert counts[1] > counts[2] > counts[0]


def test_what_others_are_told_does_not_change_what_it_learns() -> None:
    honest, liar = Ucb1(PolicySettings(arms=2)), Ucb1(PolicySettings(arms=2))
    for trial in range(1, 30):
        arm = honest.choose(trial)
        assert liar.choose(trial) == arm
        observe(honest, trial, arm, UNIT * arm, UNIT * arm)
        observe(liar, trial, arm, UNIT * arm, UNIT - UNIT * arm)


def test_after_losing_its_state_it_starts_with_every_arm_again() -> None:
    policy = Ucb1(PolicySettings(arms=3))
    pulled = []
    for trial in range(51, 54):
        pulled.append(policy.choose(trial))
        observe(policy, trial, pulled[-1], 0, 0)
    assert pulled == [0, 1, 2]

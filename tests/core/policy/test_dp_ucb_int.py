"""dp-ucb-int: round robin, refreshes at multiples of ⌈1/ε⌉, and nothing else of the rewards."""

from __future__ import annotations

import math

import pytest
from small_runs import observe

from agentd.core.chance import Purpose, stream
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings
from agentd.core.policy.dp_ucb_int import DpUcbInt
from agentd.core.privacy.series import scale_steps


class Fixed:
    """Noise that is always the same, and notes what was asked for."""

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self.asked: list[tuple[int, int]] = []

    def draw(self, arm: int, scale: int) -> int:
        self.asked.append((arm, scale))
        return self.value


@pytest.mark.parametrize(("epsilon", "interval"), [(1.0, 1), (0.5, 2), (0.3, 4), (3.0, 1)])
def test_it_pulls_in_turn_until_every_arm_had_its_first_refresh(epsilon: float, interval: int) -> None:
    noise = Fixed()
    policy = DpUcbInt(PolicySettings(arms=3, epsilon=epsilon))
    for trial in range(1, 3 * interval + 1):
        assert policy.choose(trial) == (trial - 1) % 3
        observe(policy, trial, (trial - 1) % 3, 0, 0, noise=noise)
    assert noise.asked == [(arm, scale_steps(interval, 1.1)) for arm in range(3)]
    assert policy.ledger.releases() == 3


def test_it_pulls_what_the_formula_says() -> None:
    policy, noise = DpUcbInt(PolicySettings(arms=2, epsilon=0.3)), Fixed(UNIT // 2)
    chance = stream(3, Purpose.REWARD)
    counts, sums, means = [0] * 2, [0] * 2, [0.0] * 2
    for trial in range(1, 300):
        arm = policy.choose(trial)
        if trial > 8:
            indices = [m + math.sqrt(2 * math.log(trial) / n) for m, n in zip(means, counts, strict=True)]
            assert indices[arm] >= max(indices) - 1e-12
        reward = UNIT if chance.random() < (0.4, 0.7)[arm] else 0
        observe(policy, trial, arm, reward, 0, noise=noise)
        counts[arm] += 1
        sums[arm] += reward
        if counts[arm] % 4 == 0:
            means[arm] = (sums[arm] + UNIT // 2) / UNIT / counts[arm]
    assert policy.ledger.releases() == counts[0] // 4 + counts[1] // 4


def test_between_refreshes_rewards_do_not_show_in_its_choices() -> None:
    def choices(last_rewards: int) -> list[int]:
        policy = DpUcbInt(PolicySettings(arms=2, epsilon=0.1))
        pulled = []
        for trial in range(1, 29):
            pulled.append(policy.choose(trial))
            observe(policy, trial, pulled[-1], last_rewards if trial > 20 else UNIT // 2, 0)
        return pulled

    assert choices(0) == choices(UNIT)

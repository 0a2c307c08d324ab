from __future__ import annotations

import pytest
from small_runs import observe

from agentd.core.bodies import SEALED, TOTALS
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings
from agentd.core.policy.coop_thompson import CoopThompson
from agentd.core.terms import PolicyTerms, Terms


class Noted:
    """Coins that show nothing, and remember whose they were to be."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def gauss(self, trial: int, number: int) -> list[float]:
        self.asked.append(trial)
        return [0.0] * number


def terms(agents: int, tag: int = TOTALS.tag) -> Terms:
    return Terms(2, 3, policies=(PolicyTerms("", tag, None, None, ((0, agents - 1),)),))


@pytest.mark.parametrize(
    ("agreed", "lifetime", "asked"),
    [
        (terms(10), 3, [1, 1, 1, 1, 1, 1, 1, 10, 10, 12]),
        (terms(7), 3, list(range(3, 13))),
        (terms(10), 0, list(range(3, 13))),  # it hears nobody
        (terms(10, SEALED.tag), 3, list(range(3, 13))),  # and understands nobody
        (Terms(2, 3), 3, list(range(3, 13))),  # and nobody has said who takes part
    ],
)
def test_coins_are_held_in_a_group_that_is_known_to_be_large(agreed: Terms, lifetime: int, asked: list[int]) -> None:
    coins = Noted()
    policy = CoopThompson(PolicySettings(arms=2), 1, coins)
    policy.agree(agreed, lifetime)
    arms = []
    for trial in range(1, 13):
        arms.append(policy.choose(trial))
        observe(policy, trial, arms[-1], UNIT * arms[-1], UNIT * arms[-1])
    assert coins.asked == asked
    assert arms[:2] == [1, 0]  # each agent begins with its own arm
    assert arms[2:] == [1] * 10  # and goes on with the one that pays

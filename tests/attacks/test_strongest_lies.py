"""What lies in one's own name can still do, and what they no longer can."""

from __future__ import annotations

import pytest
from lying_ring import MEANS, play
from strongest_lies import LIES, Body, ReleasedLie, SealedLie

from agentd.core.grid import UNIT

ROUNDS = 150


class OldReleases(ReleasedLie):
    """As far as 49aef1d let releases lie outside: 64 scales of n^(3/4), whatever v."""

    def reach(self, pulls: int) -> int:
        return int(63.9 * pulls**0.75 * UNIT)


class OldRecords(SealedLie):
    """As far as 49aef1d let records lie outside: 64 scales in every batch."""

    SMALLEST = 1

    def reach(self, pulls: int, batches: int, samples: int) -> int:
        return int(63.9 * (batches * samples * (UNIT / 8)) ** 0.5)

    def says(self, trial: int) -> Body | None:
        body = super().says(trial)
        return body and (*body[:4], self.reach(*body[1:4]) if body[0] == self.worst else -self.reach(*body[1:4]))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("algorithm", LIES)
def test_the_strongest_lies_pass_every_check(algorithm: str, epsilon: float) -> None:
    """Otherwise what is said of their cost would be said of weaker ones."""
    assert not play(algorithm, LIES[algorithm](MEANS, epsilon), seed=1, rounds=ROUNDS, epsilon=epsilon).dropped


@pytest.mark.parametrize(("algorithm", "lie"), [("private-ucb", OldReleases), ("sealed", OldRecords)])
def test_what_used_to_pass_is_refused_and_costs_nothing(algorithm: str, lie: type[ReleasedLie | SealedLie]) -> None:
    refused = play(algorithm, lie(MEANS), seed=1, rounds=ROUNDS)
    assert refused.dropped["body"] > ROUNDS / 2
    assert refused.regret < 1.5 * play(algorithm, None, seed=1, rounds=ROUNDS).regret + 10


@pytest.mark.parametrize("algorithm", LIES)
def test_a_liar_alone_among_seven_does_cost_something(algorithm: str) -> None:
    """Pooled sums are no defence against what could have been paid: that is what robust ones are for."""
    costs = [play(algorithm, LIES[algorithm](MEANS), seed=seed, rounds=600).regret for seed in (1, 2)]
    assert min(costs) > 1.5 * play(algorithm, None, seed=1, rounds=600).regret


def test_luck_with_noise_gives_a_sealed_liar_little_more_influence_than_its_pulls_have() -> None:
    """Where luck counted in full this lie cost all that there was to lose, 360; without a liar it is about 10."""
    assert play("sealed", SealedLie(MEANS), seed=1, rounds=600).regret < 60

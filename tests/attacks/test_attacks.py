"""What one attacker beside a ring of six can do over real sockets: where its frames break the terms, nothing at all."""

from __future__ import annotations

from functools import cache

import pytest
from ring_under_attack import Outcome, Setting, play

ROUNDS = 150

pytestmark = pytest.mark.system


@cache
def beside_a_silent_neighbour(algorithm: str) -> Outcome:
    """In lockstep, with seeds, a run has one course: what was refused left no trace in it."""
    return play(Setting(algorithm, rounds=ROUNDS))


@pytest.mark.parametrize(
    ("algorithm", "attack", "reason"),
    [
        ("private-ucb", "forged-return", "incarnation"),
        ("sealed", "invented-origins", "origin"),
        ("byzantine-ucb", "future-trials", "future"),
        pytest.param("private-ucb", "forged-incarnation", "lifetime", marks=pytest.mark.long),
        pytest.param("byzantine-ucb", "crowd", "origin", marks=pytest.mark.long),
        pytest.param("private-ucb", "long-lives", "lifetime", marks=pytest.mark.long),
    ],
)
def test_an_attack_against_the_terms_changes_no_pull_of_an_honest_agent(
    algorithm: str, attack: str, reason: str
) -> None:
    outcome = play(Setting(algorithm, attack, rounds=ROUNDS))
    assert outcome.exits == (0,) * 6
    assert outcome.dropped.get(reason, 0) > 0
    assert outcome.pulls == beside_a_silent_neighbour(algorithm).pulls


def test_free_clocks_bound_what_a_liar_can_claim_to_have_pulled() -> None:
    outcome = play(Setting("coop-ucb", "future-trials", rounds=ROUNDS, clock="free"))
    assert outcome.exits == (0,) * 6
    assert outcome.dropped.get("future", 0) > 0
    assert outcome.worst < 40  # with the claims believed, 120

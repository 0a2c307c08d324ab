"""A number that may leave is of a type that only a release can make."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from agentd.core.agent import Agent
from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS, Kind
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.base import Released
from agentd.core.policy.private_ucb import PrivateUcb
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.release import NOTHING, Noised, computed, release_of, restored
from agentd.core.terms import Terms

RELEASE = Release(0, 1, 4, 2 * UNIT)


class Watched:
    """Noise that looks at what was spent when it is drawn."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.spent: list[Fraction] = []

    def draw(self, arm: int, scale: int) -> int:
        self.spent.append(self.ledger.spent())
        return 7


class Forgetful(PrivateUcb):
    """Releases its raw sums."""

    def _release(self, release: Release) -> Released:
        released = super()._release(release)
        self._released_sums[release.arm] = self._told[release.arm]  # which mypy refuses, too
        return released


def test_a_release_is_paid_for_before_its_noise_is_drawn() -> None:
    ledger = Ledger()
    noise = Watched(ledger)
    noised = release_of(ledger, RELEASE, noise, 5)
    assert (noised, type(noised)) == (12, Noised)
    assert noise.spent == [Fraction(1, 2)]


def test_a_release_beyond_the_budget_draws_nothing_and_makes_nothing() -> None:
    ledger = Ledger(budget=0.25)
    noise = Watched(ledger)
    with pytest.raises(ValueError, match="goes past the privacy budget"):
        release_of(ledger, RELEASE, noise, 5)
    assert not noise.spent


@pytest.mark.parametrize("door", [None, object(), 5])
def test_nobody_else_makes_a_noised_value(door: object) -> None:
    with pytest.raises(TypeError, match="only a release makes a noised value"):
        Noised(door, 5)  # type: ignore[arg-type]


def test_arithmetic_makes_plain_numbers_and_post_processing_noised_ones() -> None:
    noised = release_of(Ledger(), RELEASE, SeededLaplace(1, 0), 5)
    for plain in (noised + 1, -noised, noised + noised, sum([noised, noised]), int(noised)):
        assert type(plain) is int
    assert type(computed(lambda one, other: one + 2 * other, noised, noised)) is Noised
    assert computed(lambda one, other: one + 2 * other, noised, NOTHING) == noised


def test_it_is_an_ordinary_number_to_everything_else() -> None:
    (noised,) = restored([-(1 << 40)])
    assert (repr(noised), json.dumps([noised])) == ("-1099511627776", "[-1099511627776]")
    assert np.array([[noised]], dtype=np.int64).tolist() == [[-(1 << 40)]]


@pytest.mark.parametrize(
    ("kind", "body"),
    [(RELEASED, [1, 1, 5, 0, 0, NOTHING]), (RELEASED, [0, 0, NOTHING, 1, 1, 5]), (SEALED, [0, 1, 1, 9, 5])],
)
def test_a_private_body_with_a_raw_sum_is_refused(kind: Kind, body: list[int]) -> None:
    with pytest.raises(TypeError, match=f"sum of a {kind.name} body was never released"):
        kind.require_released(body)
    kind.require_released(restored(body))


@pytest.mark.parametrize(("kind", "body"), [(TOTALS, [1, 5, 0, 0]), (SAMPLE, [0, 5])])
def test_bodies_that_promise_nothing_hold_plain_numbers(kind: Kind, body: list[int]) -> None:
    kind.require_released(body)


def test_a_policy_that_forgets_its_noise_fails_at_its_first_release() -> None:
    agent = Agent(0, Forgetful(PolicySettings(arms=2), SeededLaplace(1, 0)), terms=Terms(2, 1))
    agent.choose()
    with pytest.raises(TypeError, match="sum of a RELEASED body was never released"):
        agent.advance(UNIT)


@pytest.mark.parametrize("algorithm", ["private-ucb", "sealed"])
def test_what_was_released_in_a_life_before_may_be_said_again(algorithm: str) -> None:
    def policy() -> PrivateUcb:
        made = make_policy(algorithm, PolicySettings(arms=2, refresh=1), 0, SeededLaplace(1, 0))
        assert hasattr(made, "restore")
        return made  # type: ignore[return-value]

    first, second = policy(), policy()
    agent = Agent(0, first, terms=Terms(2, 1))
    for _ in range(40):
        agent.choose()
        agent.advance(UNIT).committed()
    second.restore(json.loads(json.dumps(first.snapshot())))
    again = Agent(0, second, terms=Terms(2, 1), trial=40)
    again.choose()
    again.advance(UNIT).committed()
    assert again.turn.outbox()

"""A number that may leave is of a type that only a release can make."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from small_runs import drawn

from agentd.core.agent import Agent
from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS, Kind
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.base import Released
from agentd.core.policy.private_ucb import PrivateUcb
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.release import NOTHING, DrawnNoise, Noised, computed, release_of, restored
from agentd.core.terms import Terms

RELEASE = Release(0, 1, 4, 2 * UNIT)


class Always:
    """Noise that is always the same."""

    def __init__(self, value: int) -> None:
        self.value = value

    def draw(self, arm: int, scale: int) -> int:
        return self.value


class Forgetful(PrivateUcb):
    """Releases its raw sums."""

    def _release(self, drawn: DrawnNoise) -> Released:
        released, arm = super()._release(drawn), drawn.release.arm
        self._released_sums[arm] = self._told[arm]  # which mypy refuses, too
        return released


def test_a_release_is_paid_for_and_noised() -> None:
    ledger = Ledger()
    noised = release_of(ledger, drawn(RELEASE, Always(7)), 5)
    assert (noised, type(noised)) == (12, Noised)
    assert ledger.spent() == Fraction(1, 2)


def test_a_release_beyond_the_budget_makes_nothing_and_uses_no_noise() -> None:
    ledger, noise = Ledger(budget=0.25), drawn(RELEASE, Always(7))
    with pytest.raises(ValueError, match="goes past the privacy budget"):
        release_of(ledger, noise, 5)
    assert not noise.is_used


@pytest.mark.parametrize("door", [None, object(), 5])
def test_nobody_else_makes_a_noised_value(door: object) -> None:
    with pytest.raises(TypeError, match="only a release makes a noised value"):
        Noised(door, 5)  # type: ignore[arg-type]


def test_arithmetic_makes_plain_numbers_and_post_processing_noised_ones() -> None:
    noised = release_of(Ledger(), drawn(RELEASE, SeededLaplace(1, 0)), 5)
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
    agent = Agent(0, Forgetful(PolicySettings(arms=2)), terms=Terms(2, 1), noise=SeededLaplace(1, 0))
    agent.choose()
    with pytest.raises(TypeError, match="sum of a RELEASED body was never released"):
        agent.advance(UNIT)


@pytest.mark.parametrize("algorithm", ["private-ucb", "sealed"])
def test_what_was_released_in_a_life_before_may_be_said_again(algorithm: str) -> None:
    def policy() -> PrivateUcb:
        made = make_policy(algorithm, PolicySettings(arms=2, refresh=1), 0)
        assert hasattr(made, "restore")
        return made  # type: ignore[return-value]

    first, second = policy(), policy()
    noise = SeededLaplace(1, 0)
    agent = Agent(0, first, terms=Terms(2, 1), noise=noise)
    for _ in range(40):
        agent.choose()
        agent.advance(UNIT).committed()
    second.restore(json.loads(json.dumps(first.snapshot())))
    again = Agent(0, second, terms=Terms(2, 1), noise=noise, trial=40)
    again.choose()
    again.advance(UNIT).committed()
    assert again.turn.outbox()

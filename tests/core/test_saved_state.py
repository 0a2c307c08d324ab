"""What an agent finds again: budgets that fall silent, snapshots that are not one's own, messages said again."""

from __future__ import annotations

from typing import Any

import pytest
from small_runs import observe

from agentd.core.agent import Agent
from agentd.core.bodies import RELEASED
from agentd.core.grid import UNIT
from agentd.core.message import Message, batch_of
from agentd.core.policy import ALGORITHMS, PolicySettings, make_policy
from agentd.core.policy.base import Restorable
from agentd.core.policy.coins import KeyedCoins
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.sealing import restored_batch
from agentd.core.saved_state import SavedState, resume
from agentd.core.terms import Terms

NOISED = [name for name, algorithm in ALGORITHMS.items() if algorithm.noised]


def policy_of(algorithm: str, **changes: Any) -> Any:
    return make_policy(algorithm, PolicySettings(arms=2, **changes), 1, KeyedCoins(1, 1))


def saved(**changes: Any) -> SavedState:
    usual: dict[str, Any] = {
        "about": {"incarnation": 4},
        "trial": 5,
        "policy": policy_of("private-ucb").snapshot(),
        "said": None,
        "releases": (),
        "refused": 0,
        "intent": None,
    }
    return SavedState(**(usual | changes))


@pytest.mark.parametrize("algorithm", NOISED)
def test_every_algorithm_that_adds_noise_can_be_kept(algorithm: str) -> None:
    policy = policy_of(algorithm)
    assert isinstance(policy, Restorable)
    with pytest.raises(ValueError, match="not the state of"):
        policy.restore({"counts": [1]})
    policy.restore(policy.snapshot())


def test_an_algorithm_without_a_ledger_cannot_be_resumed() -> None:
    agent = Agent(1, policy_of("ucb1"), terms=Terms(2, 1))
    with pytest.raises(ValueError, match="keeps no state"):
        resume(agent, saved(), 5, SeededLaplace(1, 1))


@pytest.mark.parametrize(("intent", "arm"), [(None, None), ((6, 1), 1), ((5, 1), None)])
def test_a_pull_that_nobody_counted_is_made_with_the_arm_that_was_intended(
    intent: tuple[int, int] | None, arm: int | None
) -> None:
    state = saved(intent=intent)
    assert (state.in_doubt(5), state.intended_arm, state.incarnation) == (False, arm, 4)
    agent = Agent(1, policy_of("private-ucb"), terms=Terms(2, 1), incarnation=4)
    resume(agent, state, 5, SeededLaplace(1, 1))
    assert agent.decide()[:2] == (6, arm or 0)
    assert agent.turn.possible == ()


def played(algorithm: str, arms: list[int]) -> Any:
    """A policy that has pulled these arms, each paying 1."""
    policy = policy_of(algorithm, epsilon=1.0 if algorithm in ("sealed", "shielded") else 0.5)
    for trial, arm in enumerate(arms, start=1):
        observe(policy, trial, arm, UNIT, UNIT)
    return policy


@pytest.mark.parametrize("algorithm", NOISED)
@pytest.mark.parametrize("intent", [(6, 1), None])
def test_a_trial_that_was_counted_and_is_not_in_the_state_is_given_up(
    algorithm: str, intent: tuple[int, int] | None
) -> None:
    policy = played(algorithm, [0, 1, 0, 1, 0])
    state = saved(policy=policy.snapshot(), intent=intent)
    assert state.in_doubt(6)
    agent = Agent(
        1,
        policy_of(algorithm, epsilon=1.0 if algorithm in ("sealed", "shielded") else 0.5),
        terms=Terms(2, 1),
        incarnation=6,
    )
    resume(agent, state, 6, SeededLaplace(1, 1))
    turn = agent.turn
    concerned = [1] if intent else [0, 1]
    if algorithm in ("sealed", "shielded"):
        assert [(r.arm, r.trial, r.pulls) for r in turn.possible] == [
            (arm, 6, pulls) for arm, pulls in ((0, 4), (1, 3)) if arm in concerned
        ]
        assert [turn.state["open_pulls"][arm] for arm in concerned] == [0] * len(concerned)
        assert sum(turn.state["open_pulls"]) == (3 if intent else 0)
    else:  # what was due, from the counts before
        assert list(turn.possible) == [r for arm in concerned if (r := policy.due(6, arm)) is not None]
        assert turn.state == policy.snapshot()
    assert agent.policy.ledger is not None
    assert agent.policy.ledger.releases() == len(turn.possible)
    with pytest.raises(RuntimeError, match="nothing may be chosen after trial 6 before it is committed"):
        agent.choose()
    turn.committed()
    assert agent.choose().trial == 7
    assert turn.outbox() == []


def test_what_a_running_sum_may_have_released_is_what_was_due() -> None:
    state = saved(policy=played("dp-ucb-int", [0, 1, 0, 0, 1]).snapshot(), trial=5)  # refreshed at every second pull
    agent = Agent(1, policy_of("dp-ucb-int", epsilon=0.5), terms=Terms(2, 0), incarnation=6)
    resume(agent, state, 6, SeededLaplace(1, 1))
    assert [(r.arm, r.pulls) for r in agent.turn.possible] == [(0, 4)]


def test_a_lost_round_ends_the_incarnation_and_two_lost_ones_the_state() -> None:
    agent = Agent(1, policy_of("private-ucb"), terms=Terms(2, 1), incarnation=4)
    with pytest.raises(ValueError, match="after a lost round incarnation 4 is over"):
        resume(agent, saved(), 6, SeededLaplace(1, 1))
    for counted in (4, 7):
        with pytest.raises(ValueError, match="does not go on after"):
            resume(agent, saved(), counted, SeededLaplace(1, 1))


def test_under_a_new_incarnation_nothing_that_was_said_is_said_again() -> None:
    """Its trial would not be after the incarnation; the next message tells everything anyway."""
    said = batch_of(RELEASED, [Message(1, 5, 1, (5, 5, 9, 0, 0, 0), incarnation=4)])
    agent = Agent(1, policy_of("private-ucb"), terms=Terms(2, 3), incarnation=5)
    resume(agent, saved(said=said), 5, SeededLaplace(1, 1))
    assert agent.turn.outbox() == []


def test_sealed_tells_all_its_records_at_once_after_a_lost_round() -> None:
    """Nobody holds those of the incarnation before; the hello comes first, and then its own arm."""
    policy = played("sealed", [0] * 40 + [1] * 40)
    told = [record.pulls for record in policy._own]
    assert all(told)
    agent = Agent(1, policy_of("sealed"), terms=Terms(2, 1), incarnation=81)
    resume(agent, saved(policy=policy.snapshot(), trial=80), 81, SeededLaplace(1, 1))
    agent.turn.committed()
    bodies = []
    for _ in range(3):
        agent.choose()
        turn = agent.advance(0)
        turn.committed()
        bodies += [message.body for batch in turn.outbox() for message in batch.messages()]
    assert [body[:2] for body in bodies] == [(0, 0), (1, told[1]), (0, told[0])]


@pytest.mark.parametrize(("lifetime", "said_again"), [(0, 0), (3, 1)])
def test_what_was_said_last_is_said_again_where_anything_is_said(lifetime: int, said_again: int) -> None:
    said = batch_of(RELEASED, [Message(1, 5, 1, (5, 5, 9, 0, 0, 0), incarnation=4)])
    agent = Agent(1, policy_of("private-ucb"), terms=Terms(2, lifetime), incarnation=4)
    resume(agent, saved(said=said), 5, SeededLaplace(1, 1))
    batches = agent.turn.outbox()
    assert [(m.trial, m.life, m.lifetime) for b in batches for m in b.messages()] == [(5, 3, 3)] * said_again
    assert agent.turn.outbox() == []


def test_a_seeded_source_goes_on_where_it_was() -> None:
    """One draw per release that was made: it must not repeat itself."""
    first, again = SeededLaplace(7, 1), SeededLaplace(7, 1)
    draws = [first.draw(0, 1000) for _ in range(3)]
    releases = tuple((Release(0, trial, trial, 500), 0) for trial in (1, 2))
    agent = Agent(1, policy_of("private-ucb"), terms=Terms(2, 1))
    resume(agent, saved(releases=releases), 5, again)
    assert again.draw(0, 1000) == draws[2]


@pytest.mark.parametrize(("pulls", "total"), [(-1, 0), (1, -1), (1, UNIT + 1), (True, 0)])
def test_an_open_batch_that_cannot_be_is_refused(pulls: int, total: int) -> None:
    with pytest.raises(ValueError, match="no open batch"):
        restored_batch(pulls, total)


def test_a_ledger_cannot_record_what_its_budget_does_not_admit() -> None:
    ledger = Ledger(budget=1.0)
    ledger.record(Release(0, 1, 1, UNIT))
    assert not ledger.admits(Release(0, 2, 2, 1 << 40))
    assert ledger.admits(Release(1, 2, 1, UNIT))
    with pytest.raises(ValueError, match="goes past the privacy budget"):
        ledger.record(Release(0, 2, 2, 1 << 40))
    assert (ledger.releases(), ledger.refused, ledger.arms) == (1, 1, [0])


def test_with_disjoint_batches_the_budget_bounds_each_of_them() -> None:
    ledger = Ledger(disjoint=True, budget=1.0)
    for trial in (1, 2, 3):
        ledger.record(Release(0, trial, 1, UNIT))
    assert ledger.epsilon_one_reward() == 1.0
    assert not ledger.admits(Release(0, 4, 1, UNIT - 1))


def test_an_arm_whose_budget_is_spent_goes_on_saying_what_it_said() -> None:
    policy = policy_of("private-ucb", epsilon_budget=1.7)
    bodies = []
    for trial in range(1, 7):
        observe(policy, trial, 0, UNIT, UNIT)
        bodies.append(policy.body()[1])
    assert policy.ledger.releases() == 2
    assert [body[:2] for body in bodies] == [[1, 1], [2, 2], [2, 2], [2, 2], [2, 2], [2, 2]]
    assert len({tuple(body) for body in bodies[1:]}) == 1
    observe(policy, 7, 1, UNIT, UNIT)
    assert policy.body()[1][3:5] == [1, 1], "the other arm has a budget of its own"


def test_dp_ucb_int_plays_on_without_a_release() -> None:
    policy = policy_of("dp-ucb-int", epsilon_budget=1e-6)
    for trial in range(1, 20):
        assert observe(policy, trial, policy.choose(trial), UNIT, UNIT) is None
    assert policy.ledger.releases() == 0


def test_sealed_throws_away_what_its_budget_does_not_admit() -> None:
    policy = policy_of("sealed", epsilon_budget=0.5)
    for trial in range(1, 60):
        observe(policy, trial, 0, UNIT, UNIT)
        assert policy.body() is None or policy.body()[1] == [0] * 5
    assert policy.ledger.refused > 0
    assert policy.ledger.releases() == 0

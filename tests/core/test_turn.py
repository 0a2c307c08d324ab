"""Write before send: what a pull will release is settled first, and nothing of a turn leaves before it is committed."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import observe, sample, samples

from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS, Intent, PolicySettings, intend, make_policy
from agentd.core.policy.coins import KeyedCoins
from agentd.core.policy.private_ucb import PrivateUcb
from agentd.core.privacy.laplace import ExactLaplace, SeededLaplace
from agentd.core.privacy.ledger import Release
from agentd.core.privacy.series import scale_steps
from agentd.core.saved_state import SavedState, resume
from agentd.core.terms import Terms

ARMS = 3
NOISED = [name for name, algorithm in ALGORITHMS.items() if algorithm.noised]
NOISELESS = [name for name, algorithm in ALGORITHMS.items() if not algorithm.noised]


def policy_of(algorithm: str, **changes: Any) -> Any:
    return make_policy(algorithm, PolicySettings(arms=ARMS, **changes), 1, KeyedCoins(1, 1))


def agent_of(algorithm: str, **changes: Any) -> Agent:
    return Agent(1, policy_of(algorithm, **changes), terms=Terms(ARMS, 2), noise=ExactLaplace(secrets.token_bytes))


def pulled(agent: Agent, reward: int = UNIT) -> Intent:
    """One trial of an agent that keeps nothing."""
    intent = agent.choose()
    agent.advance(reward).committed()
    return intent


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_an_outbox_is_closed_until_its_turn_is_committed(algorithm: str) -> None:
    agent = agent_of(algorithm)
    agent.receive([samples(sample(5, 1, 2))])
    agent.choose()
    turn = agent.advance(UNIT)
    with pytest.raises(RuntimeError, match="nothing may be sent after trial 1 before it is committed"):
        turn.outbox()
    turn.committed()
    heard = [origin for batch in turn.outbox() for origin in batch.origin.tolist()]
    assert sorted(heard) == ([1, 5] if ALGORITHMS[algorithm].tells else [5])
    assert turn.outbox() == []


def test_nothing_is_chosen_from_a_release_that_a_crash_could_still_undo() -> None:
    """The arm of a pull leaves too: the environment sees it."""
    agent = agent_of("sealed")
    agent.choose()
    turn = agent.advance(UNIT)
    with pytest.raises(RuntimeError, match="nothing may be chosen after trial 1 before it is committed"):
        agent.choose()
    turn.committed()
    assert agent.choose().trial == 2


def test_a_turn_that_is_over_sends_nothing_of_the_next_one() -> None:
    agent = agent_of("private-ucb")
    pulled(agent)
    first = agent.turn
    agent.choose()
    second = agent.advance(UNIT)
    assert [batch.trial.tolist() for batch in first.outbox()] == [[1]]
    with pytest.raises(RuntimeError, match="after trial 2"):
        second.outbox()


def test_the_state_of_a_turn_is_gathered_only_where_somebody_keeps_it() -> None:
    class Counting(PrivateUcb):
        asked = 0

        def snapshot(self) -> Any:
            self.asked += 1
            return super().snapshot()

    policy = Counting(PolicySettings(arms=ARMS))
    agent = Agent(1, policy, terms=Terms(ARMS, 2), noise=ExactLaplace(secrets.token_bytes))
    for _ in range(5):
        pulled(agent)
        agent.turn.outbox()
    assert policy.asked == 0
    counts = agent.turn.state["counts"]
    assert (policy.asked, agent.turn.trial, counts) == (1, 5, [2, 2, 1])


def test_what_is_for_the_disk_is_what_is_sent_and_the_state_is_gone_with_the_next_turn() -> None:
    agent = agent_of("private-ucb")
    pulled(agent)
    turn = agent.turn
    (batch,) = turn.outbox()
    assert turn.state["counts"] == [1, 0, 0]
    assert turn.message == ([batch.kind.tag, 1, *batch.body.shape], batch.body.astype("<i8").tobytes())
    pulled(agent)
    with pytest.raises(RuntimeError, match="the state after trial 1 is gone"):
        _ = turn.state


def test_without_lifetime_there_is_a_state_but_no_message() -> None:
    agent = Agent(1, policy_of("private-ucb"), terms=Terms(ARMS, 0), noise=SeededLaplace(1, 1))
    pulled(agent)
    assert (agent.turn.message, len(agent.turn.releases)) == (([], b""), 1)


@pytest.mark.parametrize("algorithm", NOISELESS)
def test_an_algorithm_without_noise_intends_no_release(algorithm: str) -> None:
    agent = agent_of(algorithm)
    for trial in range(1, 20):
        assert pulled(agent)[:3:2] == (trial, None)
        assert (agent.turn.releases, agent.turn.ledger) == ((), None)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("algorithm", NOISED)
def test_what_was_intended_is_what_is_released(algorithm: str, epsilon: float) -> None:
    agent = agent_of(algorithm, epsilon=epsilon)
    intended = []
    for _ in range(200):
        intent = pulled(agent)
        assert [released.release for released in agent.turn.releases] == ([intent.release] if intent.release else [])
        intended += [intent.release] if intent.release else []
    assert len(intended) >= 3
    assert agent.policy.ledger is not None
    assert agent.policy.ledger.releases() == len(intended)


@given(
    algorithm=st.sampled_from(NOISED),
    epsilon=st.sampled_from([0.2, 1.0, 3.0]),
    budget=st.sampled_from([None, 0.5, 2.0]),
    pulls=st.lists(st.tuples(st.integers(0, ARMS - 1), st.integers(0, UNIT), st.integers(0, UNIT)), max_size=80),
)
@settings(deadline=None, max_examples=60)
def test_what_a_pull_will_release_follows_from_no_reward(
    algorithm: str, epsilon: float, budget: float | None, pulls: list[tuple[int, int, int]]
) -> None:
    """The same arms with other rewards and other noise: the same releases, refused or not, at the same pulls."""
    one, other = (policy_of(algorithm, epsilon=epsilon, epsilon_budget=budget) for _ in range(2))
    sources = [SeededLaplace(seed, 1) for seed in (1, 2)]
    for trial, (arm, reward, another) in enumerate(pulls, start=1):
        intents = [intend(policy, trial, arm) for policy in (one, other)]
        assert intents[0][:4] == intents[1][:4]
        for intent, source in zip(intents, sources, strict=True):
            if intent.noise is not None:
                intent.noise.draw(source)
        one.observe(intents[0], reward, reward)
        other.observe(intents[1], another, another)


@pytest.mark.parametrize("algorithm", NOISED)
def test_asking_what_is_due_changes_nothing(algorithm: str) -> None:
    asked, unasked = (policy_of(algorithm, epsilon=0.4) for _ in range(2))
    for trial in range(1, 60):
        for arm in range(ARMS):
            assert asked.due(trial, arm) == asked.due(trial, arm)
        arm = unasked.choose(trial)
        for policy in (asked, unasked):
            observe(policy, trial, arm, UNIT, UNIT)
        assert asked.snapshot() == unasked.snapshot()


def test_a_release_that_the_budget_refuses_is_known_before_the_reward_and_counted_once() -> None:
    agent = agent_of("private-ucb", epsilon_budget=1.7)
    intents = [pulled(agent) for _ in range(9)]
    assert [intent.release is not None for intent in intents] == [True] * 6 + [False] * 3
    assert [intent.refused for intent in intents] == [False] * 6 + [True] * 3
    assert agent.choose() == agent.choose()
    assert agent.policy.ledger is not None
    assert agent.policy.ledger.refused == 4  # asked for the tenth pull, twice, and counted once


def test_a_pull_that_was_under_way_will_release_as_any_other() -> None:
    """An agent that comes back with the arm of an intended pull knows of its release before the reward, too."""
    before = agent_of("private-ucb")
    for _ in range(5):
        pulled(before)
    about = {"incarnation": 0}
    saved = SavedState(about, 5, before.turn.state, None, (), 0, intent=(6, 2))
    agent = agent_of("private-ucb")
    resume(agent, saved, 5, SeededLaplace(1, 1))
    assert agent.choose()[:4] == Intent(6, 2, Release(2, 6, 2, scale_steps(2)))[:4]
    turn = agent.advance(0)
    assert [release for release, _ in turn.releases] == [Release(2, 6, 2, scale_steps(2))]
    turn.committed()
    assert agent.choose().trial == 7

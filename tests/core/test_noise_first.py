"""Noise is drawn before the reward is known, once, only where something is released, and shown nowhere."""

from __future__ import annotations

import copy
import pickle
import secrets
from typing import Any

import pytest
from small_runs import ring, spec

from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS, Algorithm, Intent, PolicySettings, make_policy, register_policy
from agentd.core.policy.base import Released
from agentd.core.policy.dp_ucb_int import DpUcbInt
from agentd.core.policy.private_ucb import PrivateUcb
from agentd.core.privacy.laplace import ExactLaplace, Noise, SeededLaplace
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.release import DrawnNoise, release_of
from agentd.core.terms import Terms
from agentd.simulation.network import InMemoryNetwork

NOISED = [name for name, algorithm in ALGORITHMS.items() if algorithm.noised]
ARMS = 2


class Noting:
    """Seeded noise that writes into a list of what happened when it was asked."""

    def __init__(self, happened: list[str]) -> None:
        self._happened = happened
        self._noise = SeededLaplace(3, 1)

    def draw(self, arm: int, scale: int) -> int:
        self._happened.append("draw")
        return self._noise.draw(arm, scale)


def agent_of(algorithm: Any, noise: Noise | None = None, **changes: Any) -> Agent:
    knobs = PolicySettings(arms=ARMS, **changes)
    policy = make_policy(algorithm, knobs, 1) if isinstance(algorithm, str) else algorithm(knobs)
    return Agent(1, policy, terms=Terms(ARMS, 2), noise=noise or ExactLaplace(secrets.token_bytes))


@pytest.mark.parametrize("algorithm", NOISED)
def test_every_release_has_one_draw_and_it_comes_before_the_reward(algorithm: str) -> None:
    happened: list[str] = []
    agent = agent_of(algorithm, Noting(happened))
    released = 0
    for _ in range(60):
        happened.clear()
        intent = agent.choose()
        assert agent.choose() is intent
        drawn = happened.count("draw")
        assert drawn == (intent.release is not None)
        turn = agent.advance(UNIT)
        assert happened.count("draw") == drawn
        assert len(turn.releases) == drawn
        turn.committed()
        released += drawn
    assert released >= 3


@pytest.mark.parametrize("algorithm", NOISED)
def test_in_a_simulation_nobody_draws_once_the_reward_is_dealt(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = spec(ring(3), algorithm, rounds=40, means=(0.6, 0.5))
    network, happened, rounds = InMemoryNetwork(run), list[str](), list[str]()
    for agent in network.agents:
        agent.noise = Noting(happened)
    deal, advance = type(run.arms).deal_one, Agent.advance

    def dealing(*arguments: Any) -> int:
        happened.append("reward")
        return deal(*arguments)

    def advancing(agent: Agent, reward: int) -> Any:
        turn = advance(agent, reward)
        rounds.append(" ".join([*happened, *["release"] * len(turn.releases)]))
        happened.clear()
        return turn

    monkeypatch.setattr(type(run.arms), "deal_one", dealing)
    monkeypatch.setattr(Agent, "advance", advancing)
    network.run()
    assert set(rounds) <= {"reward", "draw reward release"}
    assert rounds.count("draw reward release") >= 3


@pytest.mark.parametrize("algorithm", NOISED)
def test_a_release_that_the_budget_refuses_draws_nothing(algorithm: str) -> None:
    happened: list[str] = []
    agent = agent_of(algorithm, Noting(happened), epsilon_budget=1e-3)
    for _ in range(60):
        agent.choose()
        agent.advance(UNIT).committed()
    assert agent.policy.ledger is not None
    assert agent.policy.ledger.refused > 0
    assert happened == []


@pytest.mark.parametrize("algorithm", ["private-ucb", "dp-ucb-int"])
def test_a_reward_is_refused_while_its_noise_is_not_drawn(algorithm: str) -> None:
    agent = agent_of(algorithm)
    agent.decide()
    with pytest.raises(RuntimeError, match=r"noise is drawn before the reward is known: call draw\(\) for trial 1"):
        agent.advance(UNIT)
    agent.draw()
    agent.draw()
    assert len(agent.advance(UNIT).releases) == 1


def test_noise_that_cannot_be_drawn_ends_an_agent_before_it_pulls_and_costs_nothing() -> None:
    class Failing:
        def draw(self, arm: int, scale: int) -> int:
            raise OSError("no randomness today")

    agent = agent_of("private-ucb", Failing())
    with pytest.raises(OSError, match="no randomness"):
        agent.choose()
    assert agent.policy.ledger is not None
    assert agent.policy.ledger.releases() == 0
    sourceless = Agent(1, make_policy("private-ucb", PolicySettings(arms=2), 1), terms=Terms(2, 2))
    with pytest.raises(ValueError, match="no source of noise"):
        sourceless.choose()


class Late(PrivateUcb):
    """Brings noise of its own, and draws it when the reward is in."""

    def _release(self, drawn: DrawnNoise) -> Released:
        fresh = DrawnNoise(drawn.release)
        fresh.draw(ExactLaplace(secrets.token_bytes))
        return super()._release(fresh)


class LateAndAlone(DpUcbInt):
    """Adds noise without the door, which an algorithm that tells nothing might."""

    def _release(self, drawn: DrawnNoise) -> Released:
        release = drawn.release
        self.ledger.record(release)
        noised = self._sums[release.arm] + ExactLaplace(secrets.token_bytes).draw(release.arm, release.scale)
        self._released_counts[release.arm], self._released_sums[release.arm] = release.pulls, noised
        return Released(release, noised)


class Unasked(PrivateUcb):
    """Says that nothing is due, and releases all the same."""

    def due(self, trial: int, arm: int) -> Release | None:
        return None

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:
        drawn = DrawnNoise(Release(intent.arm, intent.trial, 1, UNIT))
        drawn.draw(ExactLaplace(secrets.token_bytes))
        self._release(drawn)
        return super().observe(intent, reward, told)


@pytest.mark.parametrize("fault", [Late, LateAndAlone, Unasked])
def test_a_policy_that_draws_when_the_reward_is_in_ends_its_agent(fault: Any) -> None:
    agent = agent_of(fault)
    agent.choose()
    with pytest.raises(RuntimeError, match="noise drawn before the reward"):
        agent.advance(UNIT)
    assert agent.turn.trial == 0


def test_a_release_takes_noise_that_was_drawn_for_it_and_not_used() -> None:
    ledger, drawn = Ledger(), DrawnNoise(Release(0, 1, 1, UNIT))
    for source in (None, ExactLaplace(secrets.token_bytes), 5):
        with pytest.raises(TypeError, match="drawn for it before the reward"):
            release_of(ledger, source, 5)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="was not drawn"):
        release_of(ledger, drawn, 5)
    drawn.draw(SeededLaplace(1, 1))
    with pytest.raises(RuntimeError, match="drawn once"):
        drawn.draw(SeededLaplace(1, 1))
    release_of(ledger, drawn, 5)
    with pytest.raises(RuntimeError, match="was used"):
        release_of(ledger, drawn, 5)
    assert ledger.releases() == 1


def test_drawn_noise_is_shown_nowhere_and_leaves_no_memory() -> None:
    class Known:
        def draw(self, arm: int, scale: int) -> int:
            return 123_457

    agent = agent_of("private-ucb", Known())
    intent = agent.choose()
    assert intent.noise is not None
    for shown in (repr(intent), str(intent), f"{intent.noise}", repr(intent._asdict()), repr(agent.turn.trial)):
        assert "123457" not in shown
    for keep in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="in memory only"):
            keep(intent.noise)
    assert not hasattr(intent.noise, "__dict__")


def test_a_plug_in_that_asks_for_a_source_of_noise_is_refused_with_the_reason() -> None:
    old = Algorithm("old", "draws late", None, True, False, lambda s, _own, _noise, _coins: PrivateUcb(s))  # type: ignore[arg-type, misc]
    with pytest.raises(ValueError, match="agent draws before the reward is known"):
        register_policy(old)
    assert "old" not in ALGORITHMS

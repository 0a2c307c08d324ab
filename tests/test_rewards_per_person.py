"""A person behind r rewards is promised --epsilon: each reward is noised for ε over r, and never for more."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentd.cli import cli
from agentd.core.grid import UNIT
from agentd.core.privacy.sealing import Weighting
from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.errors import ConfigurationError, SettingsError
from agentd.settings import AgentSettings, TestbedSettings
from agentd.shell.agreement import narrowed
from agentd.terms_file import read_terms_file


def agent(**changes: Any) -> AgentSettings:
    usual = {"id": 1, "listen": "tcp://127.0.0.1:7001", "environment": "tcp://127.0.0.1:7000", "algorithm": "sealed"}
    return AgentSettings(**(usual | changes))


def terms(epsilon: float) -> Terms:
    policy = PolicyTerms("sealed", 4, epsilon, None, ((0, 3),))
    return Terms(run=b"run id 1", arms=3, lifetime=2, clock=Clock.LOCKSTEP, policies=(policy,))


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


@pytest.mark.parametrize(("epsilon", "rewards"), [(1.0, 1), (1.0, 10), (0.3, 7), (2.0, 1000)])
def test_so_many_rewards_together_cost_no_more_than_epsilon(epsilon: float, rewards: int) -> None:
    for policy in (
        agent(epsilon=epsilon, rewards_per_person=rewards).policy(3),
        TestbedSettings(algorithm="sealed", epsilon=epsilon, rewards_per_person=rewards).policy,
    ):
        assert rewards * Fraction(UNIT, Weighting.of(policy.epsilon).scale) <= Fraction(epsilon)
        assert policy.epsilon * rewards == pytest.approx(epsilon)


@pytest.mark.parametrize("algorithm", ["private-ucb", "dp-ucb-int", "coop-ucb", "ucb1"])
def test_where_epsilon_is_a_rate_or_nothing_it_is_refused(algorithm: str) -> None:
    complaint = f"{algorithm} promises no ε per reward; run --algorithm sealed"
    with pytest.raises(SettingsError, match=complaint):
        agent(algorithm=algorithm, rewards_per_person=2)
    with pytest.raises(SettingsError, match=complaint):
        TestbedSettings(algorithm=algorithm, rewards_per_person=2)
    with pytest.raises(SettingsError, match=complaint):
        TestbedSettings(algorithm="sealed", policies={1: algorithm}, rewards_per_person=2)
    assert run(
        "terms", "make", "--agents", "2", "--arms", "2", "--algorithm", algorithm, "--rewards-per-person", "2"
    ).exit_code
    agent(algorithm=algorithm, rewards_per_person=1)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"rewards_per_person": 0}, "--rewards-per-person must be in 1…"),
        ({"rewards_per_person": 2_000_000}, "--epsilon 1 over --rewards-per-person 2000000 is below 1e-06"),
        ({"rewards_per_person": 2, "epsilon": float("nan")}, "--epsilon must be positive"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        agent(**wrong)


def test_terms_tell_the_epsilon_of_a_reward(tmp_path: Path) -> None:
    path = tmp_path / "terms.json"
    words = ("--agents", "2", "--arms", "3", "--algorithm", "sealed", "--epsilon", "1", "--rewards-per-person", "10")
    assert run("terms", "make", *words, "--out", str(path)).exit_code == 0
    (policy,) = read_terms_file(str(path)).policies
    assert policy.epsilon == 0.1


def test_terms_may_ask_for_no_more_than_what_is_left_for_a_reward() -> None:
    settings, adopted = narrowed(agent(epsilon=1.0, rewards_per_person=10), terms(0.1))
    assert (settings.reward_epsilon, adopted) == (0.1, {})
    with pytest.raises(ConfigurationError, match=r"of each reward is 1, more than 0\.1, which is --epsilon 1 over"):
        narrowed(agent(epsilon=1.0, rewards_per_person=10), terms(1.0))


def test_a_smaller_epsilon_of_the_terms_is_that_of_a_reward_and_not_divided_again() -> None:
    settings, adopted = narrowed(agent(epsilon=1.0, rewards_per_person=10), terms(0.03))
    assert adopted == {"agreed_epsilon": 0.03}
    assert settings.reward_epsilon == settings.policy(3).epsilon == 0.03
    assert narrowed(settings, terms(0.03)) == (settings, {})


def test_an_agent_that_is_told_terms_and_no_epsilon_takes_theirs_for_a_reward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "terms.json", list[AgentSettings]()
    make = (
        "--agents",
        "2",
        "--arms",
        "3",
        "--gamma",
        "2",
        "--algorithm",
        "sealed",
        "--epsilon",
        "0.5",
        "--out",
        str(path),
    )
    assert run("terms", "make", *make).exit_code == 0
    monkeypatch.setattr("agentd.shell.daemon.run_agent", lambda settings: seen.append(settings) or 0)
    words = ("--id", "1", "--listen", "tcp://127.0.0.1:1", "--environment", "tcp://127.0.0.1:2", "--terms", str(path))
    assert run(*words, "--rewards-per-person", "4").exit_code == 0
    (settings,) = seen
    assert (settings.reward_epsilon, settings.epsilon) == (0.5, 2.0)
    assert narrowed(settings, read_terms_file(str(path)))[0].reward_epsilon == 0.5


def test_a_simulation_is_made_with_the_share_of_a_reward(tmp_path: Path) -> None:
    words = ("--algorithm", "sealed", "--agents", "3", "--rounds", "80", "--epsilon", "1", "--seed", "3", "--json")
    shared = json.loads(run("simulate", *words, "--rewards-per-person", "4", "--run-dir", str(tmp_path / "a")).output)
    plain = json.loads(run("simulate", *words[:7], "0.25", *words[8:], "--run-dir", str(tmp_path / "b")).output)
    assert shared["group_regret"] == plain["group_regret"]
    assert (shared["privacy"]["per_person_epsilon"], plain["privacy"]["per_person_epsilon"]) == (1.0, 0.25)

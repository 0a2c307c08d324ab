"""`agentd ledger`: what it shows of a state on disk, and one line for everything that goes wrong."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest
from small_runs import observe

from agentd.cli import main
from agentd.core.agent import Agent
from agentd.core.assembly import assemble
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, make_policy, schedule_of
from agentd.core.policy.coins import KeyedCoins
from agentd.core.privacy.laplace import ExactLaplace
from agentd.core.terms import Terms
from agentd.settings import AgentSettings
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.keeper import state_identity


def spend(place: Path, trials: int, **changes: Any) -> StateJournal:
    """The state of an agent that pulled its first arm so often; still held."""
    usual = {"id": 3, "listen": "tcp://127.0.0.1:7003", "environment": "tcp://127.0.0.1:7000", "state": str(place)}
    settings = AgentSettings(**({"algorithm": "private-ucb"} | usual | changes))  # type: ignore[arg-type]
    policy: Any = make_policy(settings.algorithm, settings.policy(2), 3, KeyedCoins(1, 3))
    agent = Agent(3, policy, terms=Terms(2, 1), noise=ExactLaplace(secrets.token_bytes))
    journal = StateJournal.open(place, state_identity(settings))
    once = {"rounds": settings.rounds, "rewards_per_person": settings.rewards_per_person}
    journal.join(agent.turn, run="00" * 8, arms=2, incarnation=0, once=once)
    for _ in range(trials):
        agent.choose()
        journal.commit(agent.advance(UNIT))
    return journal


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["ledger", *arguments])
    streams = capsys.readouterr()
    return int(end.value.code or 0), streams.out, streams.err


def test_it_tells_releases_and_epsilon_per_arm_and_in_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spend(tmp_path, 9).close()
    code, output, _ = said(capsys, str(tmp_path), "--json")
    report = json.loads(output)
    assert code == 0
    assert (report["agent"], report["algorithm"], report["trial"], report["incarnation"]) == (3, "private-ucb", 9, 0)
    policy: Any = make_policy("private-ucb", PolicySettings(arms=2), 3, KeyedCoins(1, 3))
    for arm in report["per_arm"]:
        for trial in range(1, arm["releases"] + 1):
            observe(policy, trial, arm["arm"], 0, 0)
        assert arm["pure"] == policy.ledger.pure_epsilon(arm["arm"])
        assert arm["tight"] is arm["advanced"] is None  # how many there were may follow from rewards
    assert report["total"]["releases"] == sum(arm["releases"] for arm in report["per_arm"]) == 9
    assert report["one_reward"]["pure"] == max(arm["pure"] for arm in report["per_arm"])
    assert report["one_reward"]["tight"] is report["schedule"] is None  # no horizon was fixed
    assert report["paper_bound"] > 0


def test_values_at_delta_are_those_of_the_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spend(tmp_path, 9, rounds=100).close()
    report = json.loads(said(capsys, str(tmp_path), "--json")[1])
    schedule = schedule_of("private-ucb", PolicySettings(arms=2), 100)
    assert schedule is not None
    assert (report["schedule"]["pulls"], report["schedule"]["releases"]) == (100, 100)
    assert report["schedule"]["pure"] == schedule.epsilon > report["one_reward"]["pure"]
    assert report["schedule"]["tight"] <= report["schedule"]["advanced"] == schedule.at(1e-5)
    assert report["one_reward"]["tight"] == report["schedule"]["tight"]
    output = said(capsys, str(tmp_path))[1]
    assert "fixed before the run, for an arm that is pulled in all 100 rounds with 100 releases: ε = " in output
    spend(tmp_path / "none", 9).close()
    assert (
        "at δ = 1e-05 nothing is told: how many releases there may be was not fixed"
        in said(capsys, str(tmp_path / "none"))[1]
    )


def test_it_tells_what_a_person_has_spent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spend(tmp_path, 120, algorithm="sealed", epsilon=2.0, rewards_per_person=2).close()
    report = json.loads(said(capsys, str(tmp_path), "--json")[1])
    assert (report["epsilon"], report["one_reward"]["pure"]) == (1.0, 1.0)
    assert report["one_person"] == {"rewards": 2, "pure": 2.0}
    output = said(capsys, str(tmp_path))[1]
    assert "one reward: ε = 1 of everything that leaves an agent (each reward is in one release only)" in output
    assert "a person behind 2 of its rewards: ε = 2" in output


def test_the_table_is_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spend(tmp_path, 9, epsilon_budget=2.0).close()
    code, output, _ = said(capsys, str(tmp_path))
    assert code == 0
    assert "agent 3 of run 0000000000000000, incarnation 0, private-ucb with nominal ε = 1, after trial 9" in output
    assert "arm  releases   pure" in output
    assert "one reward: ε = 1.684 of the noised sums, given the sequence of pulls, which itself leaks" in output
    assert "a person behind r of its rewards: r times that" in output
    assert "the budget is spent: " in output


def test_what_may_have_been_released_and_lost_is_shown_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(tmp_path, 4).close()
    clean = json.loads(said(capsys, str(tmp_path), "--json")[1])
    assert "possible" not in said(capsys, str(tmp_path))[1]
    return_in_doubt(tmp_path, 5)
    report = json.loads(said(capsys, str(tmp_path), "--json")[1])
    assert (clean["total"]["possible"], clean["trial"], clean["incarnation"]) == (0, 4, 0)
    assert (report["total"]["possible"], report["trial"], report["incarnation"]) == (2, 5, 5)  # due on both arms
    assert report["total"]["releases"] == clean["total"]["releases"] + 2
    assert [arm["possible"] for arm in report["per_arm"]] == [1, 1]
    assert report["one_reward"]["pure"] > clean["one_reward"]["pure"]
    output = said(capsys, str(tmp_path))[1]
    assert "releases  possible" in output
    assert "possible: 2 of these releases may have been made by a life whose last round was lost" in output


def test_nothing_is_told_at_delta_after_a_lost_round_or_beyond_the_horizon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who can crash an agent decides how many rounds are lost, and a horizon that was passed has fixed nothing."""
    spend(tmp_path / "lost", 4, rounds=100).close()
    assert json.loads(said(capsys, str(tmp_path / "lost"), "--json")[1])["schedule"] is not None
    return_in_doubt(tmp_path / "lost", 5)
    spend(tmp_path / "passed", 9, rounds=8).close()
    for place in ("lost", "passed"):
        report = json.loads(said(capsys, str(tmp_path / place), "--json")[1])
        assert report["schedule"] is report["one_reward"]["advanced"] is report["one_reward"]["tight"] is None


def return_in_doubt(place: Path, counted: int) -> None:
    """Take the state up where the environment has counted one trial more."""
    where = {"listen": "tcp://127.0.0.1:7003", "environment": "tcp://127.0.0.1:7000", "state": str(place)}
    settings = AgentSettings(id=3, algorithm="private-ucb", **where)  # type: ignore[arg-type]
    noise = ExactLaplace(secrets.token_bytes)
    journal = StateJournal.open(place, state_identity(settings))
    agent = assemble(
        *(3, settings.algorithm, settings.policy(2), Terms(2, 1)),
        noise=noise,
        incarnation=counted,
        trial=counted,
        saved=journal.saved,
    )
    journal.join(agent.turn, run="00" * 8, arms=2, incarnation=counted)
    journal.close()


def test_it_reads_while_the_agent_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = spend(tmp_path, 4)
    assert json.loads(said(capsys, str(tmp_path), "--json")[1])["trial"] == 4
    journal.close()


def test_one_reward_of_sealed_is_in_one_release_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spend(tmp_path, 120, algorithm="sealed").close()
    report = json.loads(said(capsys, str(tmp_path), "--json")[1])
    assert report["total"]["releases"] > 2
    assert report["one_reward"]["pure"] == 1.0
    assert report["total"]["pure"] == report["total"]["releases"]
    assert report["paper_bound"] is None


def test_a_run_directory_shows_all_its_agents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for agent in (10, 9):
        spend(tmp_path / "state" / f"agent-{agent}", agent, id=agent).close()
    code, output, _ = said(capsys, str(tmp_path))
    assert code == 0
    assert [line.split()[:3] for line in output.splitlines()[1:]] == [["9", "9", "9"], ["10", "10", "10"]]
    assert [each["agent"] for each in json.loads(said(capsys, str(tmp_path), "--json")[1])] == [9, 10]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["."], 78, "holds no agent's state: there is no ledger.db in it"),
        ([".", "--delta", "0"], 2, "--delta must lie in"),
        ([], 2, "Missing argument 'STATE'"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    arguments: list[str], code: int, complaint: str, empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, output, errors = said(capsys, *arguments)
    assert (found, output) == (code, "")
    assert errors.count("\n") == 1
    assert complaint in errors


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, and we are in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path

"""An agent's own arms: how trials are numbered, what settings are refused, and that a state of any age is safe."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agentd_processes import Process
from click.testing import CliRunner
from evidence import until, wall_ms
from loopback import events, free_address

from agentd.cli import cli
from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.sealed import Sealed
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.saved_state import SavedState, resume
from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.errors import ConfigurationError, SettingsError
from agentd.settings import AgentSettings
from agentd.shell.alone.own_arms import OwnArms, trials_due
from agentd.shell.alone.standing import Standing
from agentd.shell.alone.ticks import Ticks
from agentd.shell.environment_client import RunOver
from agentd.shell.json_log import open_log
from agentd.terms_file import write_terms_file

START_MS = 1_790_000_000_000
TERMS = Terms(
    run=b"own arms",
    arms=2,
    lifetime=1,
    clock=Clock.FREE,
    interval_us=100_000,
    start_ms=START_MS,
    policies=(PolicyTerms("sealed", 4, 1.0, 1.1, ((0, 2),)),),
)


def settings(**changes: Any) -> AgentSettings:
    usual: dict[str, Any] = {
        "id": 0,
        "listen": "tcp://127.0.0.1:7100",
        "environment": "python:math:dist",
        "terms": "terms.json",
        "clock": "free",
        "interval_s": 0.1,
        "algorithm": "sealed",
        "gamma": 1,
    }
    return AgentSettings(**(usual | changes))


def saved(trial: int, incarnation: int, policy: Sealed | None = None) -> SavedState:
    policy = policy or Sealed(PolicySettings(arms=2), 0, None)  # type: ignore[arg-type]
    return SavedState({"incarnation": incarnation}, trial, policy.snapshot(), None, (), 0, None)


def begun(state: SavedState | None, age_ms: int, terms: Terms = TERMS, **changes: Any) -> tuple[int, int]:
    """The first trial and the incarnation of a life that begins then."""

    async def begin() -> tuple[int, int]:
        chosen = settings(environment="http://127.0.0.1:9/", **changes)
        arms = OwnArms(chosen, terms, open_log(None, "error"), asyncio.Event(), lambda: START_MS + age_ms)
        arms.begin(state)
        welcome = await arms.hello(0, None, 1.0)
        arms.close()
        return welcome.next_trial, welcome.incarnation

    return asyncio.run(begin())


@pytest.mark.parametrize(("age_ms", "trial"), [(0, 2), (99, 2), (100, 3), (1_000, 12)])
def test_a_life_begins_with_the_first_trial_that_is_not_due(age_ms: int, trial: int) -> None:
    assert begun(None, age_ms) == (trial, trial - 1)


def test_no_life_begins_where_another_has_been() -> None:
    """Whatever the state says, and also where the clock has gone back since it was written."""
    assert begun(saved(trial=5, incarnation=2), 10_000) == (102, 101)
    assert begun(saved(trial=500, incarnation=2), 10_000) == (502, 501)
    assert begun(saved(trial=5, incarnation=700), 10_000) == (702, 701)


def test_a_clock_that_is_before_the_run_is_not_gone_by() -> None:
    assert begun(None, -1_000) == (2, 1)
    with pytest.raises(ConfigurationError, match="set the clock"):
        begun(None, -60_000)


def test_a_run_whose_last_trial_is_due_is_over() -> None:
    with pytest.raises(RunOver):
        begun(None, 10_000, Terms(**{**_values(TERMS), "horizon": 100}))
    with pytest.raises(RunOver):
        begun(None, 10_000, rounds=50)


def _values(terms: Terms) -> dict[str, Any]:
    return {name: getattr(terms, name) for name in terms.__slots__}


def test_terms_that_do_not_say_how_often_are_refused() -> None:
    for change in ({"interval_us": 0}, {"start_ms": 0}, {"clock": Clock.OPEN}):
        with pytest.raises(ConfigurationError, match="--clock free --interval"):
            begun(None, 0, Terms(**{**_values(TERMS), **change}))


def test_in_lockstep_a_life_begins_at_the_beginning() -> None:
    assert trials_due(Terms(2, 1, clock=Clock.LOCKSTEP, start_ms=START_MS), 10_000) == 0


def test_missed_ticks_are_passed_over() -> None:
    ticks = Ticks(10.0, 0.5)
    ticks.not_before(9.0)
    assert ticks.due_s == 10.0
    ticks.go_on(10.1)
    assert ticks.due_s == 10.5
    ticks.go_on(12.2)
    assert ticks.due_s == 12.5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"terms": None}, "--terms FILE"),
        ({"environment": "exec:"}, "names no command"),
        ({"environment": "https://hub/"}, "does not speak"),
        ({"algorithm": "private-ucb", "state": "here"}, "run --algorithm sealed"),
        ({"clock": "lockstep", "state": "here"}, "needs --clock free"),
        ({"bounds": (1.0, 1.0)}, "--bounds"),
        ({"max_outstanding": 2, "algorithm": "ucb1"}, "--max-outstanding"),
        ({"max_outstanding": 65}, "--max-outstanding"),
        ({"bounds": (0.0, float("inf"))}, "--bounds"),
        ({"bounds": (-1e308, 1e308)}, "--bounds"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings(**changes)


def test_a_file_of_settings_names_no_code(tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text('environment = "exec:touch /tmp/never"\n', encoding="utf-8")
    done = CliRunner().invoke(cli, ["agent", "--id", "0", "--listen", "tcp://127.0.0.1:7100", "--config", str(config)])
    assert isinstance(done.exception, ConfigurationError)
    assert "nothing in a file of settings is ever run" in str(done.exception)


def sealed_agent(pulls: int) -> tuple[Agent, Sealed]:
    policy = make_policy("sealed", PolicySettings(arms=2), 0)
    assert isinstance(policy, Sealed)
    agent = Agent(0, policy, terms=Terms(2, 1), noise=SeededLaplace(1, 0))
    for _ in range(pulls):
        agent.choose()
        agent.advance(UNIT).committed()
    return agent, policy


def test_a_state_that_nobody_counts_gives_up_all_that_was_open_and_charges_it() -> None:
    _, policy = sealed_agent(3)
    state = saved(3, 0, policy)
    assert sum(state.policy["open_pulls"]) == 3
    again = make_policy("sealed", PolicySettings(arms=2), 0)
    assert isinstance(again, Sealed)
    agent = Agent(0, again, terms=Terms(2, 1), noise=SeededLaplace(1, 0), incarnation=40)
    resume(agent, state, 40, SeededLaplace(1, 0), uncounted=True)
    assert agent.trial == 40
    assert again.snapshot()["open_pulls"] == again.snapshot()["open_sums"] == [0, 0]
    assert len(agent.turn.possible) == again.ledger.releases() == 2
    with pytest.raises(RuntimeError, match="before it is committed"):
        agent.turn.outbox()


@pytest.mark.parametrize("counted", [2, 3])
def test_nor_does_it_go_on_with_a_trial_that_may_have_been(counted: int) -> None:
    _, policy = sealed_agent(3)
    agent, _ = sealed_agent(0)
    with pytest.raises(ValueError, match="nobody counts"):
        resume(agent, saved(3, 0, policy), counted, SeededLaplace(1, 0), uncounted=True)


class TestStanding:
    def test_the_favoured_arm_is_told_with_its_released_mean_within_the_bounds(self) -> None:
        _, policy = sealed_agent(200)
        standing = Standing("sealed", (-1.0, 3.0))
        for arm in (1, 1, 0, 1):
            standing.pulled(arm)
        said = standing.told(policy)
        mean = policy.released_means()[1]
        assert (said["favoured"], said["share"]) == (1, 0.75)
        assert mean is None or said["released_mean"] == pytest.approx(-1.0 + 4.0 * mean, abs=1e-5)

    def test_nothing_is_told_where_pulls_follow_raw_rewards(self) -> None:
        standing = Standing("private-ucb", (0.0, 1.0))
        standing.pulled(0)
        assert standing.told(make_policy("private-ucb", PolicySettings(arms=2), 0)) == {}


@pytest.mark.system
def test_hostile_arms_end_no_agent(tmp_path: Path) -> None:
    """NaN and a line without end, a crash, a hang: all of it is counted, and the agent says goodbye as usual."""
    arm = tmp_path / "arm.py"
    arm.write_text(
        "import os, signal, sys\n"
        "life = os.open(sys.argv[1], os.O_CREAT | os.O_APPEND | os.O_WRONLY)\n"
        "os.write(life, b'.')\n"
        "life = os.stat(sys.argv[1]).st_size\n"
        "for line in sys.stdin:\n"
        "    print('nan' if life == 1 else 0.6180339, flush=True)\n"
        "    sys.stdin.readline()\n"
        "    if life == 1: os.write(1, b'9' * 100000)\n"
        "    if life == 2: os._exit(3)\n"
        "    signal.pause()\n",
        encoding="ascii",
    )
    terms = Terms(**{**_values(TERMS), "start_ms": wall_ms(), "interval_us": 1_000_000})
    write_terms_file(tmp_path / "terms.json", terms)
    log = tmp_path / "log.jsonl"
    flags = (
        "--terms",
        str(tmp_path / "terms.json"),
        "--log-file",
        str(log),
        "--environment",
        f"exec:python3 -S {arm} {tmp_path}/lives",
    )
    with Process("--id", "0", "--listen", free_address(), *flags) as agent:
        wanted = {"ended", "late", "range", "too-long"}
        until(lambda: {entry["reason"] for entry in events(log) if "reason" in entry} >= wanted)
        agent.terminate()
        assert agent.wait() == 0, agent.errors
    (counted,) = events(log, "pulls that counted as the lower bound")
    assert counted["range"] >= 1
    assert "0.618" not in json.dumps(events(log)), "no reward is in the log"

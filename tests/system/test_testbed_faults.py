"""What twenty real agents survive: kills, restarts, a pause; and that all algorithms agree over the wire."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence import until
from running_testbeds import PATIENT, agentd_json, end_all, here_json, read_json, start

from agentd.core.policy import ALGORITHMS
from deploy.testbed.control import ask, kill_agent, restart_agent

pytestmark = [pytest.mark.system, pytest.mark.slow]

AGENTS = 20
ROUNDS = 1000
FLAGS = ("--agents", str(AGENTS), "--edge-probability", "0.3", "--rounds", str(ROUNDS), "--round-timeout", "2")
REJOIN_S = 5.0
LONG_GONE = 600
"""Rounds without somebody: more than ten seconds of them, and fewer than there are."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory, in a world where no other testbed exists; whatever a test leaves running is ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "run"
    end_all()


def trial_of(place: Path, agent: int) -> int:
    status = read_json(place / "status.json") or {"agents": []}
    return next((int(row["trial"]) for row in status["agents"] if row["id"] == agent), 0)


def events_of(place: Path, agent: int) -> list[dict[str, Any]]:
    log = place / "logs" / f"agent-{agent}.jsonl"
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def pulls_made(place: Path) -> list[int]:
    with np.load(place / "pulls.npz") as file:
        return [int(number) for number in (file["arm"] != 65_535).sum(axis=1)]


def pid_of(place: Path, agent: int) -> int:
    return int(read_json(place / "testbed.json")["children"][f"agent-{agent}"]["pid"])


def test_three_of_twenty_are_killed_two_come_back_and_the_others_finish(place: Path) -> None:
    chance = np.random.Generator(np.random.Philox(key=20))
    with start("up", *FLAGS, "--algorithm", "byzantine-ucb", "--run-dir", str(place), "--json") as process:
        round_ = 5
        for agent in (3, 11, 17):
            until(lambda round_=round_: trial_of(place, 0) > round_)
            kill_agent(place, agent)
            round_ = trial_of(place, 0) + int(chance.integers(1, 30))
        asked = {}
        for agent in (3, 11):
            before = trial_of(place, agent)
            asked[agent] = datetime.now(UTC)
            restart_agent(place, agent)
            until(lambda agent=agent, before=before: trial_of(place, agent) > before)
        out, _ = process.communicate(timeout=240)
    summary = json.loads(out)
    made = pulls_made(place)
    assert made[17] < ROUNDS
    assert [made[agent] for agent in range(AGENTS) if agent != 17] == [ROUNDS] * (AGENTS - 1)
    assert [lost["agent"] for lost in summary["agents_lost"]] == [17]
    assert summary["group_regret"] > 0
    for agent in (3, 11):
        _, ready = [event["timestamp"] for event in events_of(place, agent) if event["event"] == "ready"]
        back_s = (datetime.fromisoformat(ready) - asked[agent]).total_seconds()
        assert back_s < REJOIN_S, f"agent {agent} needed {back_s} s to be heard by its neighbours again"
    for agent in set(range(AGENTS)) - {3, 11, 17}:
        done = next(event for event in events_of(place, agent) if event["event"] == "done")
        # Each (origin, trial) counts at most once, however often it was heard.
        assert done["heard"] <= sum(made) - made[agent]


def test_an_agent_that_is_paused_catches_up(place: Path) -> None:
    with start("up", *FLAGS, "--algorithm", "coop-ucb", "--run-dir", str(place), "--json") as process:
        until(lambda: trial_of(place, 0) > 5)
        os.kill(pid_of(place, 4), signal.SIGSTOP)
        behind = trial_of(place, 4)
        until(lambda: trial_of(place, 0) > behind + LONG_GONE)  # the others go on
        assert process.poll() is None
        os.kill(pid_of(place, 4), signal.SIGCONT)
        out, _ = process.communicate(timeout=240)
    assert json.loads(out)["agents_lost"] == []
    assert pulls_made(place) == [ROUNDS] * AGENTS


def test_a_testbed_is_stopped_in_order_though_an_agent_is_paused(place: Path) -> None:
    with start("up", *FLAGS, "--run-dir", str(place), "--json") as process:
        until(lambda: trial_of(place, 0) > 5)
        os.kill(pid_of(place, 4), signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=240)
    assert json.loads(out)["agents_lost"] == []
    assert [event["event"] for event in events_of(place, 4)][-1] == "done"


def test_an_environment_that_is_killed_and_started_again_counts_every_pull_once(place: Path) -> None:
    agents, rounds = 8, 800
    flags = ("--agents", str(agents), "--edge-probability", "0.5", "--rounds", str(rounds), *PATIENT)
    with start("up", *flags, "--run-dir", str(place), "--json") as process:
        for round_ in (5, 100, 200):
            until(lambda round_=round_: trial_of(place, 0) > round_)
            ask(place, "restart", "environment")  # SIGKILL, whatever is under way, and a new process
        out, _ = process.communicate(timeout=240)
    summary = json.loads(out)
    assert (summary["agents_lost"], summary["failure"]) == ([], "")
    assert [event["what"] for event in summary["events"]].count("environment killed") == 3
    assert pulls_made(place) == [rounds] * agents
    # A record of 16 bytes per pull behind a head of 32: none is missing, none is there twice.
    assert (place / "pulls.journal").stat().st_size == 32 + 16 * agents * rounds


def test_an_environment_that_dies_is_started_again_and_the_run_is_the_one_without_the_crash(
    place: Path, tmp_path: Path
) -> None:
    flags = ("--agents", "6", "--edge-probability", "0.5", "--rounds", "500", "--seed", "12")
    with start("up", *flags, *PATIENT, "--run-dir", str(place)) as process:
        until(lambda: trial_of(place, 0) > 50)
        os.kill(int(read_json(place / "testbed.json")["children"]["environment"]["pid"]), signal.SIGKILL)
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    what = "environment died (killed by SIGKILL) and was started again from its journal"
    assert what in out
    summary = read_json(place / "summary.json")
    assert ([fault["what"] for fault in summary["faults"]], summary["failure"]) == ([what], "")
    simulated = tmp_path / "simulated"
    here_json("simulate", *flags, "--run-dir", str(simulated))
    assert (simulated / "pulls.npz").read_bytes() == (place / "pulls.npz").read_bytes()
    assert read_json(simulated / "summary.json")["group_regret"] == summary["group_regret"]


GAMMAS = ("1", "2", "full")
ONCE = [*((name, "2", "4") for name in ALGORITHMS), ("sealed", "1", "4"), ("private-ucb", "full", "4")]
"""Every algorithm once; `make test-long` runs all of them with every γ."""
ALL = [(name, gamma, seed) for name in ALGORITHMS for gamma in GAMMAS for seed in ("1", "2", "3")]


@pytest.mark.parametrize(
    ("algorithm", "gamma", "seed"), [*ONCE, *(pytest.param(*each, marks=pytest.mark.long) for each in ALL)]
)
def test_every_algorithm_pulls_the_same_arms_over_the_wire_as_in_both_engines(
    algorithm: str, gamma: str, seed: str, place: Path, tmp_path: Path
) -> None:
    flags = ("--agents", "12", "--edge-probability", "0.3", "--rounds", "200", "--gamma", gamma, "--seed", seed)
    agentd_json("up", *flags, *PATIENT, "--algorithm", algorithm, "--run-dir", str(place))
    over_the_wire = (place / "pulls.npz").read_bytes()
    for engine in ("agents", "vector"):
        simulated = tmp_path / engine
        here_json("simulate", *flags, "--algorithm", algorithm, "--engine", engine, "--run-dir", str(simulated))
        assert (simulated / "pulls.npz").read_bytes() == over_the_wire, engine

"""Testbeds whose agents share processes: the same pulls, and what happens when one of these processes is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence import until
from running_testbeds import (
    PATIENCE_S,
    PATIENT,
    agentd,
    agentd_json,
    end_all,
    here_json,
    nothing_runs,
    pids_of,
    read_json,
)

from agentd.runs.status import read_status
from deploy.testbed.control import kill_agent, restart_agent

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory, in a world where no other testbed exists; whatever a test leaves running is ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "run"
    end_all()


def pulls(run_dir: Path) -> tuple[Any, Any]:
    with np.load(run_dir / "pulls.npz") as file:
        return file["arm"], file["reward"]


def same_pulls(one: Path, other: Path) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(pulls(one), pulls(other), strict=True))


def trials(run_dir: Path) -> dict[int, int]:
    status = read_status(run_dir)
    return {agent.id: agent.trial for agent in status.agents} if status else {}


def events(run_dir: Path, agent: int, what: str) -> list[dict[str, object]]:
    lines = (run_dir / "logs" / f"agent-{agent}.jsonl").read_text(encoding="utf-8").splitlines()
    return [said for said in map(json.loads, lines) if said["event"] == what]


@pytest.mark.parametrize("algorithm", ["private-ucb", "sealed"])
def test_agents_that_share_processes_do_to_the_bit_what_the_simulation_does(
    algorithm: str, place: Path, tmp_path: Path
) -> None:
    flags = ("--agents", "9", "--edge-probability", "0.5", "--rounds", "40", "--seed", "11", "--algorithm", algorithm)
    run = agentd_json("up", *flags, *PATIENT, "--per-process", "4", "--run-dir", str(place))
    simulated = here_json("simulate", *flags, "--run-dir", str(tmp_path / "simulated"))
    assert same_pulls(place, tmp_path / "simulated")
    for figure in ("group_regret", "messages", "dropped"):
        assert run[figure] == simulated[figure], figure
    assert (run["interrupted"], run["agents_lost"], run["failure"]) == (False, [], "")
    assert len({mark["pid"] for mark in read_json(place / "testbed.json")["children"].values()}) == 1 + 3
    assert {path.name for path in (place / "logs").glob("agent-*.jsonl")} == {f"agent-{i}.jsonl" for i in range(9)}
    assert nothing_runs(pids_of(place))


@pytest.mark.long
@pytest.mark.parametrize("per_process", [1, 50, 100])
def test_two_hundred_agents_pull_the_same_however_many_share_a_process(
    per_process: int, place: Path, tmp_path: Path
) -> None:
    flags = ("--agents", "200", "--edge-probability", "0.05", "--rounds", "60", "--gamma", "2", "--seed", "4")
    patient = ("--round-timeout", "120", "--ready-timeout", "300")
    agentd("up", *flags, *patient, "--per-process", str(per_process), "--run-dir", str(place))
    here_json("simulate", *flags, "--run-dir", str(tmp_path / "simulated"))
    assert same_pulls(place, tmp_path / "simulated")


def test_when_a_process_is_killed_the_others_go_on_and_its_agents_come_back_with_their_states(place: Path) -> None:
    flags = ("--agents", "6", "--edge-probability", "1", "--rounds", "100000", "--round-timeout", "1")
    agentd("up", *flags, "--per-process", "3", "--epsilon", "4", "--state", "--detach", "--run-dir", str(place))
    until(lambda: min(trials(place).values(), default=0) > 5, PATIENCE_S)
    kill_agent(place, 4)
    until(lambda: agentd_json("status", str(place))["down"] == [3, 4, 5], PATIENCE_S)
    at_first = trials(place)
    until(lambda: all(trials(place)[agent] > at_first[agent] + 5 for agent in (0, 1, 2)), PATIENCE_S)
    before = trials(place)  # what was under way at the kill is counted by now
    until(lambda: all(trials(place)[agent] > before[agent] + 5 for agent in (0, 1, 2)), PATIENCE_S)
    assert all(trials(place)[agent] == before[agent] for agent in (3, 4, 5))
    restart_agent(place, 5)
    until(lambda: agentd_json("status", str(place))["down"] == [], PATIENCE_S)
    until(lambda: all(trials(place)[agent] > before[agent] + 5 for agent in range(6)), PATIENCE_S)
    for agent in (3, 4, 5):
        first, second = events(place, agent, "joined")
        assert first["trial"] == 0
        assert second["trial"] in (before[agent], before[agent] + 1), "it went on where it was"
    told = [one["what"] for one in agentd_json("chaos", "history", "--run-dir", str(place))]
    assert told == [
        "agent-4 killed, with all 3 agents of its process",
        "agent-5 restarted, with all 3 agents of its process",
    ]
    agentd("down", str(place))
    assert nothing_runs(pids_of(place))


def test_a_process_that_dies_unasked_is_told_of_and_ends_no_other(place: Path) -> None:
    flags = ("--agents", "4", "--edge-probability", "1", "--rounds", "100000", "--round-timeout", "1", "--seed", "1")
    agentd("up", *flags, "--per-process", "2", "--detach", "--run-dir", str(place))
    children = read_json(place / "testbed.json")["children"]
    os.kill(children["agent-2"]["pid"], signal.SIGKILL)
    until(lambda: agentd_json("status", str(place))["down"] == [2, 3], PATIENCE_S)
    before = trials(place)[0]
    until(lambda: trials(place)[0] > before + 5, PATIENCE_S)
    agentd("down", str(place))
    lost = read_json(place / "summary.json")["agents_lost"]
    assert [(one["agent"], one["exit_code"]) for one in lost] == [(2, -9), (3, -9)]


def test_an_agent_that_cannot_start_takes_no_other_of_its_process_down(place: Path) -> None:
    flags = ("--agents", "4", "--edge-probability", "1", "--rounds", "100000", "--round-timeout", "1", "--epsilon", "4")
    agentd("up", *flags, "--per-process", "2", "--state", "--detach", "--run-dir", str(place))
    until(lambda: min(trials(place).values(), default=0) > 3, PATIENCE_S)
    kill_agent(place, 0)
    until(lambda: agentd_json("status", str(place))["down"] == [0, 1], PATIENCE_S)
    for file in (place / "state" / "agent-1").iterdir():
        file.write_bytes(b"somebody else's")
    restart_agent(place, 0)
    before = trials(place)
    until(lambda: all(trials(place)[agent] > before[agent] + 5 for agent in (0, 2, 3)), PATIENCE_S)
    agentd("down", str(place))
    assert [one["agent"] for one in read_json(place / "summary.json")["agents_lost"]] == [1]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--per-process", "0"), "--per-process must be a number of agents ≥ 1, or 'auto', got '0'"),
        (("--per-process", "2", "--transport", "tcp"), "processes of many agents speak ipc"),
        (("--per-process", "2", "--keys"), "a key is for one agent's links"),
        (("--per-process", "2", "--runtime", "compose", "--keys"), "agents that share a container have none"),
    ],
)
def test_what_processes_of_many_agents_cannot_do_is_refused_in_a_sentence(flags: tuple[str, ...], said: str) -> None:
    told = agentd("up", "--agents", "4", *flags, code=2)
    assert said in told.stderr

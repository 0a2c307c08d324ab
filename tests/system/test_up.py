"""Testbeds of real processes: agents and environment over ZeroMQ on loopback."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence import until
from running_testbeds import (
    CONTRACT,
    PATIENCE_S,
    PATIENT,
    agentd,
    agentd_json,
    end_all,
    here_json,
    nothing_runs,
    pids_of,
    read_json,
    start,
)

from agentd.runs.scenario import make_scenario
from agentd.settings import Pace, TestbedSettings
from deploy.local import ports
from deploy.local.local_runtime import LOCAL
from deploy.local.ports import reserve
from deploy.testbed.control import kill_agent, restart_agent
from deploy.testbed.display import Nothing
from deploy.testbed.launch import carry_out
from deploy.testbed.runtime import Wanted

pytestmark = pytest.mark.system

ENDLESS = ("--agents", "4", "--edge-probability", "1", "--rounds", "100000", "--round-timeout", "1")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory, in a world where no other testbed exists; whatever a test leaves running is ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "run"
    end_all()


def pulls(run_dir: Path) -> dict[str, Any]:
    with np.load(run_dir / "pulls.npz") as file:
        return {name: file[name] for name in ("arm", "reward")}


def detached(place: Path, *flags: str) -> Any:
    return agentd_json("up", *ENDLESS, *flags, "--detach", "--run-dir", str(place))


@pytest.mark.parametrize("algorithm", ["private-ucb", "byzantine-ucb"])
def test_a_seeded_testbed_does_to_the_bit_what_the_simulation_does(algorithm: str, place: Path, tmp_path: Path) -> None:
    flags = ("--agents", "5", "--edge-probability", "0.6", "--rounds", "40", "--seed", "11", "--algorithm", algorithm)
    lies = ("--byzantine", "1", "--contamination", "0.5")
    run = agentd_json("up", *flags, *lies, *PATIENT, "--run-dir", str(place))
    simulated = here_json("simulate", *flags, *lies, "--run-dir", str(tmp_path / "simulated"))
    assert {path.name for path in place.iterdir()} >= CONTRACT
    for name, table in pulls(tmp_path / "simulated").items():
        np.testing.assert_array_equal(pulls(place)[name], table)
    for figure in ("group_regret", "messages", "dropped", "gamma", "diameter", "seed"):
        assert run[figure] == simulated[figure], figure
    assert run["privacy"] | {"simulated": True, "note": simulated["privacy"]["note"]} == simulated["privacy"]
    assert run["privacy"]["note"] == "reproducible, not private"
    assert (run["interrupted"], run["agents_lost"], run["failure"]) == (False, [], "")
    assert read_json(place / "summary.json") == {key: value for key, value in run.items() if key != "run_dir"}
    assert {path.name for path in (place / "logs").glob("agent-*.jsonl")} == {f"agent-{i}.jsonl" for i in range(5)}
    assert nothing_runs(pids_of(place))


def test_a_group_that_knows_its_size_does_to_the_bit_what_the_simulation_does(place: Path, tmp_path: Path) -> None:
    """From eight agents on `sealed` holds its coins; how many there are comes with the welcome."""
    flags = ("--agents", "9", "--edge-probability", "0.6", "--rounds", "40", "--seed", "11", "--algorithm", "sealed")
    agentd_json("up", *flags, "--epsilon", "3", *PATIENT, "--run-dir", str(place))
    here_json("simulate", *flags, "--epsilon", "3", "--run-dir", str(tmp_path / "simulated"))
    for name, table in pulls(tmp_path / "simulated").items():
        np.testing.assert_array_equal(pulls(place)[name], table)


def test_two_runs_of_a_seed_have_ids_of_their_own_and_the_same_pulls(place: Path, tmp_path: Path) -> None:
    flags = ("--agents", "4", "--edge-probability", "1", "--rounds", "30", "--seed", "11", "--policy", "3=ucb1")
    first = agentd_json("up", *flags, *PATIENT, "--run-dir", str(place))
    second = agentd_json("up", *flags, *PATIENT, "--run-dir", str(tmp_path / "second"))
    assert first["run"] != second["run"]
    assert first["terms"] != second["terms"]
    assert first["group_regret"] == second["group_regret"]
    simulated = here_json("simulate", "--engine", "agents", *flags, "--run-dir", str(tmp_path / "simulated"))
    assert simulated["dropped"] == first["dropped"] == {}, "an agent with another policy is no stranger"
    for other in ("second", "simulated"):
        for name, table in pulls(tmp_path / other).items():
            np.testing.assert_array_equal(pulls(place)[name], table)


def test_noise_without_a_seed_is_another_each_time_and_said_to_be_private(place: Path, tmp_path: Path) -> None:
    flags = ("--agents", "3", "--edge-probability", "1", "--rounds", "30", "--arms", "0.9,0.1")
    first = agentd_json("up", *flags, "--run-dir", str(place))
    second = agentd_json("up", *flags, "--run-dir", str(tmp_path / "second"))
    assert first["run"] != second["run"]
    assert first["privacy"]["note"] == ""
    assert read_json(place / "manifest.json")["seed"] is None
    assert all(agent["seed"] is None for agent in read_json(place / "plan.json")["agents"])


def test_people_get_a_banner_lines_and_a_table(place: Path) -> None:
    flags = ("--agents", "3", "--edge-probability", "1", "--rounds", "30", "--seed", "1")
    said = agentd("up", *flags, "--run-dir", str(place)).stdout
    assert said.startswith("sealed: 3 agents")
    assert "reproducible, not private" in said
    assert "group regret" in said
    assert "coop-thompson: every pull shared, not private" in said
    assert str(place) in said


def test_agents_can_run_each_on_its_own_clock(place: Path) -> None:
    flags = ("--agents", "3", "--edge-probability", "1", "--rounds", "20", "--clock", "free", "--interval", "0.01")
    run = agentd_json("up", *flags, "--run-dir", str(place))
    assert (pulls(place)["arm"] != 65_535).all()
    assert run["agents_lost"] == []


def test_ctrl_c_stops_everything_and_leaves_a_complete_run_directory(place: Path) -> None:
    with start("up", *ENDLESS, "--run-dir", str(place), "--json") as process:
        until(lambda: (read_json(place / "status.json") or {}).get("pulls", 0) > 20)
        pids = pids_of(place)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    summary = json.loads(out)
    assert summary["interrupted"] is True
    assert 0 < summary["rounds_made"] < summary["rounds"]
    assert summary["yardstick"]["rounds"] == summary["rounds_made"]
    curve = (place / "regret.csv").read_text(encoding="utf-8").splitlines()
    assert len(curve) == 1 + summary["rounds_made"]
    assert (summary["agents_lost"], summary["failure"]) == ([], "")
    assert {path.name for path in place.iterdir()} >= CONTRACT
    made = int((pulls(place)["arm"] != 65_535).sum())
    assert made > 20
    assert len(pids) == 5
    assert nothing_runs(pids)
    assert agentd_json("ps") == []


def test_a_detached_testbed_is_listed_watched_and_ended(place: Path) -> None:
    started = detached(place)
    assert started["state"] == "running"
    (listed,) = agentd_json("ps")
    assert [entry["name"] for entry in listed["processes"] if entry["running"]] == [
        "supervisor",
        "environment",
        *(f"agent-{agent}" for agent in range(4)),
    ]
    about = agentd_json("status")
    assert (about["run_dir"], about["agents"], about["down"], about["rounds"]) == (str(place), 4, [], 100_000)
    until(lambda: agentd_json("status")["round"] > about["round"])
    logged = [json.loads(line) for line in agentd("logs", "2", "environment", "--json").stdout.splitlines()]
    assert {line.get("agent") for line in logged} >= {2}
    assert any(line.get("role") == "environment" for line in logged)
    pids = pids_of(place)
    assert "stopped 4 agents and the environment" in agentd("down").stdout
    assert nothing_runs(pids)
    assert agentd("down").stdout == "no testbed is running\n"
    assert "it had ended already" in agentd("down", str(place)).stdout
    assert agentd_json("status")["summary"]["interrupted"] is True
    assert {path.name for path in place.iterdir()} >= CONTRACT


def test_logs_follow_until_the_testbed_has_ended(place: Path) -> None:
    detached(place)
    with start("logs", "--follow", "-n", "1") as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline()
        agentd("down")
        out, _ = follower.communicate(timeout=PATIENCE_S)
    assert follower.returncode == 0
    assert "done" in out, "what the agents said at their end is shown too"


def trial_of(place: Path, agent: int) -> int:
    return int(read_json(place / "status.json")["agents"][agent]["trial"])


def test_an_agent_that_is_killed_is_missed_and_comes_back(place: Path) -> None:
    detached(place)
    kill_agent(place, 1)
    assert until(lambda: agentd_json("status")["down"]) == [1]
    stopped_at = trial_of(place, 1)
    until(lambda: trial_of(place, 0) > stopped_at + 5)  # the others go on without it
    restart_agent(place, 1)
    until(lambda: trial_of(place, 1) > stopped_at)
    assert agentd_json("status")["down"] == []
    agentd("down")
    summary = read_json(place / "summary.json")
    assert [event["what"] for event in summary["events"]] == ["agent-1 killed", "agent-1 restarted"]
    assert summary["agents_lost"] == []


def test_a_lost_agent_is_reported_and_the_others_finish(place: Path) -> None:
    rounds = 2000  # some seconds: it must not be done before it is killed, even if this process waits for a processor
    flags = ("--agents", "4", "--edge-probability", "1", "--rounds", str(rounds), "--round-timeout", "1")
    with start("up", *flags, "--run-dir", str(place), "--json") as process:
        until(lambda: (read_json(place / "testbed.json") or {}).get("state") == "running")
        os.kill(read_json(place / "testbed.json")["children"]["agent-2"]["pid"], signal.SIGKILL)
        out, complaint = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert json.loads(out)["agents_lost"] == [{"agent": 2, "exit_code": -9, "why": "killed by SIGKILL"}]
    assert "lost: agent 2: killed by SIGKILL" in complaint
    made = (pulls(place)["arm"] != 65_535).sum(axis=1)
    assert made[2] < rounds
    assert [int(made[agent]) for agent in (0, 1, 3)] == [rounds] * 3


def test_processes_end_when_their_supervisor_is_killed_and_down_cleans_up(place: Path) -> None:
    started = detached(place)
    pids = pids_of(place)
    os.kill(started["supervisor"], signal.SIGKILL)
    until(lambda: nothing_runs(pids))
    assert agentd_json("status")["state"] == "crashed"
    assert "nothing of it was running any more" in agentd("down", str(place)).stdout
    assert (place / "pulls.npz").is_file(), "the environment was told to end and wrote its files"


def test_ports_that_are_taken_are_refused_by_name_before_anything_starts(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where testbeds of other tests do not search, so that nobody takes what is released here.
    monkeypatch.setattr(ports, "FIRST_PORT", random.SystemRandom().randrange(5_000, 10_000))
    with reserve(4) as free:
        base = free.base_port
    with socket.create_server(("127.0.0.1", base + 2)):
        refused = agentd("up", "--agents", "4", "--base-port", str(base), "--run-dir", str(place), code=78)
    assert f"port {base + 2} on 127.0.0.1 is taken" in refused.stderr
    assert not place.exists()


def test_nobody_is_quicker_than_the_agents_at_ports_that_were_chosen(place: Path) -> None:
    scenario = make_scenario(TestbedSettings(agents=3, edge_probability=1.0, rounds=10))
    wanted = Wanted(run_dir=place, pace=Pace(ready_timeout_s=PATIENCE_S), transport="tcp")
    prepared = LOCAL.prepare(scenario, wanted)
    assert len(prepared.plan.ports) == 4
    for port in prepared.plan.ports:
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port), reuse_port=True)
    result = carry_out(prepared, Nothing())
    assert (result.ending.exit_code, result.summary["rounds"]) == (0, 10)
    assert nothing_runs(pids_of(place))


def test_a_machine_that_is_too_small_is_told_what_is_missing(place: Path) -> None:
    small = ("prlimit", "--nofile=64:64", "--")
    refused = agentd("up", "--agents", "50", "--run-dir", str(place), code=78, prefix=small)
    assert refused.stderr.startswith("error: this machine cannot carry 50 agents: the supervisor needs 244 open files")
    assert "ulimit -Hn 244" in refused.stderr
    assert not place.exists()


@pytest.mark.slow
def test_fifty_agents_start_and_finish(place: Path) -> None:
    flags = ("--agents", "50", "--edge-probability", "0.15", "--rounds", "10", "--seed", "5")
    run = agentd_json("up", *flags, "--run-dir", str(place))
    assert (pulls(place)["arm"] != 65_535).all()
    assert run["agents_lost"] == []

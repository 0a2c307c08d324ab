"""Few containers, many agents: the same pulls, and what happens when one of these containers dies."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from container_image import docker_or_skip
from evidence import until
from running_testbeds import PATIENCE_S, PATIENT, agentd, agentd_json, read_json

from agentd.runs.status import read_status
from deploy.containers.containers import ids_of
from deploy.containers.docker import Docker, find_composes
from deploy.plan.plan import own_log_name
from deploy.testbed.control import kill_agent, restart_agent

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def docker() -> Docker:
    return docker_or_skip()


@pytest.fixture(autouse=True)
def _compose_is_there(docker: Docker) -> None:
    if not find_composes():
        pytest.skip("there is no compose: neither `docker compose` nor docker-compose")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory, in a world where no other testbed exists; whatever a test leaves is removed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "run"
    agentd("down", "--all", code=None)


def trials(run_dir: Path) -> dict[int, int]:
    status = read_status(run_dir)
    return {agent.id: agent.trial for agent in status.agents} if status else {}


def joined_at(run_dir: Path, agent: int) -> list[int]:
    lines = (run_dir / own_log_name(agent)).read_text(encoding="utf-8").splitlines()
    return [said["trial"] for said in map(json.loads, lines) if said["event"] == "joined"]


def test_containers_of_many_agents_do_to_the_byte_what_the_simulation_does(
    docker: Docker, agentd_image: str, place: Path, tmp_path: Path
) -> None:
    flags = ("--agents", "9", "--edge-probability", "0.5", "--rounds", "40", "--seed", "11")
    where = ("--runtime", "compose", "--image", agentd_image, "--per-process", "4")
    run = agentd_json("up", *where, *flags, *PATIENT, "--run-dir", str(place))
    agentd("simulate", *flags, "--run-dir", str(tmp_path / "simulated"))
    assert (tmp_path / "simulated" / "pulls.npz").read_bytes() == (place / "pulls.npz").read_bytes()
    assert (run["interrupted"], run["agents_lost"], run["failure"]) == (False, [], "")
    assert {path.name for path in (place / "logs").glob("agent-*.jsonl")} == {f"agent-{i}.jsonl" for i in range(9)}
    assert len({mark["container"] for mark in read_json(place / "testbed.json")["children"].values()}) == 1 + 3
    assert not ids_of(docker, str(read_json(place / "testbed.json")["project"]))


def test_when_a_container_dies_the_others_go_on_and_its_agents_come_back_with_their_states(
    docker: Docker, agentd_image: str, place: Path
) -> None:
    flags = ("--agents", "6", "--edge-probability", "1", "--rounds", "100000", "--round-timeout", "1")
    where = ("--runtime", "compose", "--image", agentd_image, "--per-process", "3", "--run-dir", str(place))
    agentd("up", *flags, *where, "--epsilon", "4", "--state", "--detach")
    until(lambda: min(trials(place).values(), default=0) > 5, PATIENCE_S)
    assert len(ids_of(docker, str(read_json(place / "testbed.json")["project"]))) == 1 + 2
    kill_agent(place, 4)
    until(lambda: agentd_json("status", str(place))["down"] == [3, 4, 5], PATIENCE_S)
    at_first = trials(place)
    until(lambda: all(trials(place)[agent] > at_first[agent] + 5 for agent in (0, 1, 2)), PATIENCE_S)
    before = trials(place)  # what was under way at the kill is counted by now
    restart_agent(place, 5)
    until(lambda: agentd_json("status", str(place))["down"] == [], PATIENCE_S)
    until(lambda: all(trials(place)[agent] > before[agent] + 5 for agent in range(6)), PATIENCE_S)
    for agent in (3, 4, 5):
        first, second = joined_at(place, agent)
        assert first == 0
        assert second in (before[agent], before[agent] + 1), "it went on where it was"
    told = [one["what"] for one in agentd_json("chaos", "history", "--run-dir", str(place))]
    assert told == [
        "agent-4 killed, with all 3 agents of its process",
        "agent-5 restarted, with all 3 agents of its process",
    ]
    # A process that crashes is Docker's to start again, with all of its agents.
    os.kill(read_json(place / "testbed.json")["children"]["agent-0"]["pid"], signal.SIGKILL)
    until(lambda: all(len(joined_at(place, agent)) == 2 for agent in (0, 1, 2)), PATIENCE_S)
    before = trials(place)
    until(lambda: all(trials(place)[agent] > before[agent] + 5 for agent in range(6)), PATIENCE_S)
    agentd("down", str(place))
    assert any((place / "state" / "agent-1").iterdir())

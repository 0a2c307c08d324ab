"""Containers as the registry, `down` and `ps` see them; Docker itself is asked in the system tests."""

from __future__ import annotations

import json
import os
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentd.cli import cli
from agentd.errors import ConfigurationError, ToolMissing
from agentd.runs.directory import RunDirectory
from agentd.runs.scenario import make_scenario
from agentd.runs.summary import manifest
from agentd.settings import TestbedSettings
from deploy.containers import containers, lent_directories
from deploy.containers.compose import COMPOSE, ComposeLauncher
from deploy.containers.containers import ContainerMark, Inspected
from deploy.containers.docker import Compose, Docker
from deploy.containers.swarm import StackLauncher
from deploy.local.local_runtime import LOCAL
from deploy.testbed import registry
from deploy.testbed.process_marks import ProcessMark
from deploy.testbed.registry import State

DOCKER = Docker("docker", "28", "20")


@pytest.fixture
def _without_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


@pytest.mark.usefixtures("_without_docker")
@pytest.mark.parametrize("runtime", ["compose", "swarm"])
def test_without_docker_one_line_says_so_and_nothing_is_made(runtime: str, tmp_path: Path) -> None:
    refused = run("up", "--runtime", runtime, "--agents", "2", "--run-dir", str(tmp_path / "run"))
    assert isinstance(refused.exception, ToolMissing)
    assert "Docker is needed" in str(refused.exception)
    assert "\n" not in str(refused.exception)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("_without_docker")
def test_a_testbed_in_containers_can_be_looked_at_without_docker(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    testbed = registry.new_testbed(b"12345678", place, 2, runtime="compose", project="agentd-1")
    registry.record(testbed)
    read = registry.read(place)
    assert (read.runtime, read.project, read.running()) == ("compose", "agentd-1", {})
    assert run("ps", str(place), "--json").exit_code == 0


@pytest.mark.usefixtures("_without_docker")
def test_what_is_left_in_containers_is_not_forgotten_where_docker_is_missing(tmp_path: Path) -> None:
    testbed = registry.new_testbed(b"12345678", tmp_path, 2, runtime="compose", project="agentd-1")
    registry.record(registry.replace(testbed, supervisor=ProcessMark(2**22 + 1, 1)))
    refused = run("down", str(tmp_path))
    assert isinstance(refused.exception, ToolMissing)
    assert registry.read(tmp_path).state is not State.ENDED


def test_the_registry_keeps_the_ids_of_containers(tmp_path: Path) -> None:
    testbed = registry.new_testbed(b"12345678", tmp_path, 1, runtime="compose", project="agentd-1")
    marks = {"environment": ContainerMark("f00", 7), "agent-0": ContainerMark("ba5", 0)}
    registry.record(registry.replace(testbed, children=marks))
    assert registry.read(tmp_path).children == marks
    written = json.loads((tmp_path / "testbed.json").read_text(encoding="utf-8"))
    assert written["children"]["environment"] == {"container": "f00", "pid": 7}


@pytest.mark.parametrize("data", [{"container": "", "pid": 1}, {"container": "x"}, {"container": "x", "pid": -1}])
def test_what_is_no_mark_of_a_container_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="not the mark of a container"):
        COMPOSE.read_mark(data)


def test_processes_and_containers_are_told_apart() -> None:
    process, container = {"pid": 7, "started": 3}, {"container": "x", "pid": 7}
    assert LOCAL.read_mark(process) == ProcessMark(7, 3)
    assert COMPOSE.read_mark(container) == ContainerMark("x", 7)
    for runtime, data in ((LOCAL, container), (COMPOSE, process)):
        with pytest.raises(ValueError, match="not the mark of"):
            runtime.read_mark(data)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"agentd.role": "agent", "agentd.id": "3"}, "agent-3"),
        ({"agentd.role": "environment"}, "environment"),
        ({}, None),
    ],
)
def test_containers_are_named_by_their_labels(labels: dict[str, str], name: str | None) -> None:
    assert containers.name_of(labels) == name


def test_flags_that_mean_nothing_for_a_runtime_are_refused() -> None:
    assert "--image means nothing with --runtime local" in str(run("up", "--image", "x").exception)
    refused = run("up", "--runtime", "compose", "--base-port", "17000")
    assert "--base-port means nothing with --runtime compose" in str(refused.exception)


def test_nobody_is_root_inside_and_others_are_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert containers.user_inside() == "10001:10001"
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 100)
    assert containers.user_inside() == "1000:100"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_only_what_containers_write_is_lent_and_all_of_it_taken_back(tmp_path: Path) -> None:
    parts = [tmp_path / name for name in ("environment", "logs/agent-0", "state/agent-0", "seats/agent-0")]
    for part in parts:
        part.mkdir(parents=True)
    (tmp_path / "logs" / "supervisor.log").touch()
    lent_directories.lend(tmp_path, "10001:10001")
    assert {path.stat().st_uid for path in parts} == {10001}
    kept = [tmp_path, tmp_path / "logs", tmp_path / "logs" / "supervisor.log", tmp_path / "state", tmp_path / "seats"]
    assert {path.stat().st_uid for path in kept} == {0}
    (parts[2] / "away").symlink_to(kept[2])
    os.chown(kept[2], 1234, 1234)
    lent_directories.take_back(tmp_path)
    assert {path.lstat().st_uid for path in tmp_path.rglob("*") if path != kept[2]} == {0}
    assert kept[2].stat().st_uid == 1234, "a link was followed"


def test_what_the_environment_left_is_moved_if_it_is_plain_and_no_longer_than_it_can_be(tmp_path: Path) -> None:
    """The container has gone, and may have left anything under the names that are expected."""
    place, precious = tmp_path / "run", tmp_path / "precious"
    scenario = make_scenario(TestbedSettings(agents=2, edge_probability=1.0, rounds=5, seed=1))
    for name in ("environment/logs", "logs/agent-0", "logs/agent-1"):
        (place / name).mkdir(parents=True)
    RunDirectory(place).write_json("manifest.json", manifest(scenario, "compose"))
    precious.write_text("precious")
    apart = place / "environment"
    (apart / "environment.json").symlink_to(precious)
    os.mkfifo(apart / "reports.json")
    (apart / "pulls.journal").write_bytes(bytes(32 + 16 * 2 * 5 + 1))
    os.link(precious, apart / "seats.journal")
    (apart / "status.json").write_text("{}")
    (apart / "pulls.npz").write_text("a bomb")
    (apart / "logs" / "environment.jsonl").write_text("{}")
    (place / "logs/agent-0/agent-0.jsonl").write_text("{}")
    (place / "logs/agent-1/agent-1.jsonl").symlink_to(precious)
    lent_directories.take_back(place)
    assert {path.name for path in place.iterdir() if path.is_file()} == {"manifest.json", "status.json"}
    assert {path.name for path in (place / "logs").iterdir()} == {"environment.jsonl", "agent-0.jsonl", "agent-1"}
    assert {path.stat().st_mode & 0o777 for path in place.rglob("*.jsonl") if not path.is_symlink()} == {0o600}
    (apart / "pulls.journal").write_bytes(bytes(32 + 16 * 2 * 5))
    lent_directories.take_back(place)
    assert (place / "pulls.journal").is_file()
    assert precious.read_text() == "precious"


def test_containers_of_another_directory_are_not_touched_whatever_its_testbed_json_says(tmp_path: Path) -> None:
    mine, sent = tmp_path / "mine", tmp_path / "sent"
    project = containers.new_project(mine)
    assert containers.is_project_of(project, mine)
    for wrong in (project, "", "agentd-1", f"{project}x", f"--{project}"):
        assert not containers.is_project_of(wrong, sent)
    testbed = registry.new_testbed(b"12345678", sent, 2, runtime="compose", project=project)
    assert COMPOSE.running(testbed) == {}
    assert not COMPOSE.has_left_over(testbed)
    for act in (COMPOSE.end_left_over, COMPOSE.control):
        with pytest.raises(ConfigurationError, match="nothing is done to them"):
            act(testbed)


def test_routes_of_this_machine_are_taken_but_not_the_default_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "route"
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    lines = (
        "eth0\t00000000\t0100A8C0\t3\t0\t0\t0\t00000000\t0\t0\t0\neth0\t0000C00A\t0\t1\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    )
    table.write_text(head + lines, encoding="ascii")
    monkeypatch.setattr(containers, "_ROUTES", table)
    assert containers._routes() == [IPv4Network("10.192.0.0/16")]


@pytest.mark.parametrize("services", [3, 60, 500])
def test_the_old_compose_may_do_everything_at_once(services: int, tmp_path: Path) -> None:
    launcher = ComposeLauncher(DOCKER, Compose(("docker-compose",), "1.29.2"), "agentd-1", tmp_path, services)
    assert int(launcher.environment["COMPOSE_PARALLEL_LIMIT"]) >= 2 * services
    assert launcher.start(["agent-0"])[:3] == ["docker-compose", "--project-name", "agentd-1"]
    assert launcher.patience_s(services) > services


def inspected(**changes: Any) -> Inspected:
    about: dict[str, Any] = {"running": False, "restarting": False, "exit_code": 1, "out_of_memory": False}
    return Inspected(names=("agent-0",), service="agent-0", mark=ContainerMark("x", 0), **{**about, **changes})


def test_whether_a_container_returns_is_dockers_to_say_and_in_a_swarm_a_matter_of_counting(tmp_path: Path) -> None:
    compose = ComposeLauncher(DOCKER, Compose(("docker", "compose"), "2.26.1"), "agentd-1", tmp_path, 3)
    assert compose.returns(inspected(restarting=True), 1, 1)
    assert not compose.returns(inspected(), -9, 1)
    assert not compose.returns(None, 1, 1)
    swarm = StackLauncher(DOCKER, "agentd-1", tmp_path, {"services": {}})
    assert swarm.returns(None, 1, 3)
    assert not swarm.returns(None, 1, 4)
    assert not swarm.returns(None, 0, 1)


def test_a_stack_is_deployed_a_batch_at_a_time(tmp_path: Path) -> None:
    launcher = StackLauncher(DOCKER, "agentd-1", tmp_path, {"services": {"a": {"image": "one"}, "b": {"image": "two"}}})
    command = launcher.start(["b"])
    assert command[-1] == "agentd-1"
    assert Path(command[-2]).read_text(encoding="utf-8") == "services:\n  b:\n    image: two\n"
    assert launcher.start_again("b", "id")[-1] == "agentd-1_b"

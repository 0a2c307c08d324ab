"""Testbeds in containers, by compose and by a swarm: skipped, with the reason, where there is no Docker."""

from __future__ import annotations

import json
import os
import secrets
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from container_image import docker_or_skip
from evidence import until
from running_testbeds import CONTRACT, PATIENCE_S, PATIENT, agentd, agentd_json, end_all, here_json, read_json, start
from swarms import swarm_of_one

from agentd.core.message import TOKEN_BYTES
from agentd.runs.scenario import make_scenario
from agentd.runs.status import APART, read_status
from agentd.settings import TestbedSettings
from deploy.containers import containers
from deploy.containers.compose import COMPOSE
from deploy.containers.compose_document import RUN_DIR
from deploy.containers.containers import ids_of, networks_of, user_inside
from deploy.containers.docker import Docker, find_composes
from deploy.containers.swarm import INIT
from deploy.plan.plan import own_log_name
from deploy.testbed.control import kill_agent, restart_agent
from deploy.testbed.display import Nothing
from deploy.testbed.launch import carry_out
from deploy.testbed.runtime import Wanted

pytestmark = [pytest.mark.system, pytest.mark.slow]

SMALL = ("--agents", "4", "--edge-probability", "0.7", "--rounds", "40", "--seed", "11")
ENDLESS = ("--agents", "3", "--edge-probability", "1", "--rounds", "100000", "--round-timeout", "1")
MUCH = 4000


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
    end_all()


def project_of(place: Path) -> str:
    return str(read_json(place / "testbed.json")["project"])


def nothing_is_left(docker: Docker, project: str) -> bool:
    return not ids_of(docker, project) and not networks_of(docker, project)


def owners(place: Path) -> set[int]:
    return {path.lstat().st_uid for path in (place, *place.rglob("*")) if not stat.S_ISSOCK(path.lstat().st_mode)}


def pulls_in(place: Path) -> int:
    status = read_status(place)
    return status.pulls if status is not None else 0


def same_as_the_simulation(place: Path, tmp_path: Path, flags: tuple[str, ...]) -> bool:
    here_json("simulate", *flags, "--run-dir", str(tmp_path / "simulated"))
    return (tmp_path / "simulated" / "pulls.npz").read_bytes() == (place / "pulls.npz").read_bytes()


def test_containers_do_to_the_bit_what_the_simulation_does(
    docker: Docker, agentd_image: str, place: Path, tmp_path: Path
) -> None:
    run = agentd_json("up", "--runtime", "compose", "--image", agentd_image, *SMALL, *PATIENT, "--run-dir", str(place))
    assert same_as_the_simulation(place, tmp_path, SMALL)
    assert (run["runtime"], run["interrupted"], run["agents_lost"], run["failure"]) == ("compose", False, [], "")
    assert read_json(place / "manifest.json")["runtime"] == "compose"
    assert {path.name for path in place.iterdir()} >= CONTRACT
    assert {path.name for path in (place / "logs").glob("agent-*.jsonl")} == {f"agent-{i}.jsonl" for i in range(4)}
    assert nothing_is_left(docker, project_of(place))
    assert owners(place) == {os.getuid()}


def test_a_policy_in_a_file_travels_into_the_containers(agentd_image: str, place: Path, tmp_path: Path) -> None:
    """The one of the page on policies, which has noise and a body of its own."""
    page = (Path(__file__).parents[2] / "docs" / "writing-a-policy.md").read_text(encoding="utf-8")
    (tmp_path / "poll.py").write_text(
        page.partition("```python file=poll.py\n")[2].partition("```")[0], encoding="utf-8"
    )
    flags = (*SMALL, "--rounds", "60", "--epsilon", "3", "--algorithm", "poll.py:PollOnce")
    run = agentd_json("up", "--runtime", "compose", "--image", agentd_image, *flags, *PATIENT, "--run-dir", str(place))
    assert (run["algorithm"], run["dropped"]) == ("poll-once", {})
    assert run["privacy"]["per_agent_epsilon"] == pytest.approx(3.0, abs=1e-4)  # its scale is a whole number
    assert run["messages"] > 0
    agentd("simulate", *flags, "--run-dir", str(tmp_path / "simulated"))  # by itself: it registers what is in the file
    assert (tmp_path / "simulated" / "pulls.npz").read_bytes() == (place / "pulls.npz").read_bytes()
    assert [path.name for path in (place / "policies").iterdir()] == ["0-poll.py"]


def test_an_environment_that_crashes_in_its_container_goes_on_from_its_journal(
    docker: Docker, agentd_image: str, place: Path, tmp_path: Path
) -> None:
    longer = ("--agents", "3", "--edge-probability", "1", "--rounds", "400", "--seed", "11")
    flags = ("--runtime", "compose", "--image", agentd_image, *longer, *PATIENT, "--run-dir", str(place))
    with start("up", *flags) as process:
        until(lambda: pulls_in(place) > 100)
        os.kill(read_json(place / "testbed.json")["children"]["environment"]["pid"], signal.SIGKILL)
        out, err = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == 0, out + err
    assert "the environment died and its runtime started it again; the run goes on" in out
    assert [fault["what"] for fault in read_json(place / "summary.json")["faults"]] == ["environment restarted"]
    assert same_as_the_simulation(place, tmp_path, longer)


def inside(docker: Docker, container: str, command: str) -> str:
    return docker.run(["exec", container, "sh", "-c", command], check=False).stdout


def test_containers_are_confined_and_come_back_and_what_is_left_of_them_is_removed(
    docker: Docker, agentd_image: str, place: Path
) -> None:
    flags = ("--runtime", "compose", "--image", agentd_image, "--run-dir", str(place))
    started = agentd_json("up", *ENDLESS, *flags, "--detach")
    assert started["state"] == "running"
    (listed,) = agentd_json("ps")
    running = {entry["name"]: entry for entry in listed["processes"] if entry["running"]}
    assert list(running)[:2] == ["supervisor", "environment"]
    assert set(running) == {"supervisor", "environment", "agent-0", "agent-1", "agent-2"}
    assert_confined(docker, running["agent-1"]["container"])
    assert_secrets_stay_apart(docker, {name: entry.get("container", "") for name, entry in running.items()})
    assert_crash_is_overcome(place, running["agent-1"])
    assert_kill_and_restart_are_the_operators(place)
    assert {json.loads(line).get("agent") for line in agentd("logs", "2", "--json").stdout.splitlines()} == {2}

    project = project_of(place)
    os.kill(started["supervisor"], signal.SIGKILL)
    until(lambda: agentd_json("status")["state"] == "without supervisor")
    assert len(ids_of(docker, project)) == 4
    (removed,) = agentd_json("down")
    assert set(removed["killed"]) == {"environment", "agent-0", "agent-1", "agent-2"}
    assert nothing_is_left(docker, project)
    assert (place / "state" / "agent-1").is_dir(), "what must survive a crash"
    assert any((place / "state" / "agent-1").iterdir())
    assert (place / "pulls.npz").is_file(), "the environment was told to end and wrote its files"
    assert owners(place) == {os.getuid()}
    assert agentd("down").stdout == "no testbed is running\n"


def assert_confined(docker: Docker, container: str) -> None:
    said = inside(docker, container, "id -u; cat /proc/*/status; touch /x || echo read-only; touch /tmp/x && echo tmp")
    lines = said.splitlines()
    assert lines[0] == user_inside().partition(":")[0] != "0"
    capabilities = {line.split()[1] for line in lines if line.startswith(("CapEff:", "CapPrm:", "CapBnd:"))}
    assert capabilities == {"0000000000000000"}
    assert {line.split()[1] for line in lines if line.startswith("NoNewPrivs:")} == {"1"}
    assert lines[-2:] == ["read-only", "tmp"]


def assert_secrets_stay_apart(docker: Docker, ids: dict[str, str]) -> None:
    """An agent sees its own secret and state, the environment nobody's, and no command line holds one."""
    found = f"cd {RUN_DIR}; find . -name 'agent-*' -type d | sort | tr '\\n' ' '"
    assert inside(docker, ids["agent-1"], found) == "./logs/agent-1 ./seats/agent-1 ./state/agent-1 "
    assert inside(docker, ids["environment"], found) == ""
    everything = inside(docker, ids["environment"], f"cd {RUN_DIR}; ls")
    assert {"testbed.json", "manifest.json", "plan.json", "docker-compose.yml"}.isdisjoint(everything.split())
    secret = inside(docker, ids["agent-1"], f"cat {RUN_DIR}/seats/agent-1/seat").strip()
    assert len(bytes.fromhex(secret)) == TOKEN_BYTES
    assert secret not in docker.run(["inspect", ids["agent-1"], ids["environment"]]).stdout


LINKED = ("supervisor.log", "docker.log", "stderr.log", "failures.jsonl", "agent-0.jsonl", "agent-1.jsonl")


def test_a_container_that_turns_against_its_host_writes_to_nothing_but_what_is_its_own(
    docker: Docker, agentd_image: str, place: Path, tmp_path: Path
) -> None:
    """It puts links, pipes and escape sequences wherever it may write; the host looks, goes on, and ends in order."""
    flags = ("--runtime", "compose", "--image", agentd_image, "--run-dir", str(place))
    agentd_json("up", *ENDLESS, *flags, "--detach")
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    (listed,) = agentd_json("ps")
    ids = {entry["name"]: entry.get("container", "") for entry in listed["processes"]}
    links = f"for f in {' '.join(LINKED)}; do rm -f $f; ln -s {victim} $f; done"
    inside(docker, ids["agent-1"], f"cd {RUN_DIR}/logs; {links}; cd agent-1; {links}")
    inside(
        docker, ids["agent-2"], f"cd {RUN_DIR}/logs/agent-2; rm *; mkfifo agent-2.jsonl; rm ../../seats/agent-2/seat"
    )
    inside(
        docker, ids["environment"], f"cd {RUN_DIR}; {links}; cd logs; {links}; rm ../status.json; mkfifo ../status.json"
    )
    assert agentd_json("status")["state"] == "running"
    assert json.loads(agentd("logs", "0", "-n", "1", "--json").stdout)["agent"] == 0
    assert agentd("logs", "1", "2").stdout == ""
    restart_agent(place, 0)
    agentd("chaos", "partition", "0|1", "--for", "100ms")
    agentd("down", str(place))
    assert victim.read_text(encoding="utf-8") == "precious"
    assert {path.name for path in place.iterdir()} >= CONTRACT
    assert (place / "seats" / "agent-2" / "seat").is_file(), "the secret was drawn for it and is only read"
    plain = [path for path in place.rglob("*") if not path.is_symlink() and (path.is_file() or path.is_dir())]
    assert [path for path in plain if path.stat().st_mode & 0o077] == (
        [place / "chaos", place / "chaos" / "links.json"] if os.geteuid() == 0 else []
    ), "another user reads the faults, in a directory that only their owner may enter"
    assert place.stat().st_mode & 0o777 == 0o700


def trial_of(place: Path, agent: int) -> int:
    status = read_status(place)
    assert status is not None
    return status.agents[agent].trial


def times_joined(place: Path, agent: int) -> int:
    return (place / own_log_name(agent)).read_text(encoding="utf-8").count('"event": "joined"')


def assert_crash_is_overcome(place: Path, entry: dict[str, Any]) -> None:
    """Its process dies, as by a bug; Docker starts the container again and the agent goes on."""
    before = trial_of(place, 1)
    os.kill(entry["pid"], signal.SIGKILL)
    until(lambda: read_json(place / "testbed.json")["children"]["agent-1"]["pid"] not in (entry["pid"], 0))
    until(lambda: times_joined(place, 1) == 2)
    until(lambda: trial_of(place, 1) > before)
    faults = (place / "faults.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["what"] for line in faults] == ["agent-1 restarted"]


def assert_kill_and_restart_are_the_operators(place: Path) -> None:
    """As with processes: who was killed on demand stays down until it is restarted."""
    kill_agent(place, 2)
    assert until(lambda: agentd_json("status")["down"]) == [2]
    stopped_at = trial_of(place, 2)
    restart_agent(place, 2)
    until(lambda: trial_of(place, 2) > stopped_at)
    assert agentd_json("status")["down"] == []


def test_ctrl_c_leaves_no_container_and_a_complete_run_directory(
    docker: Docker, agentd_image: str, place: Path
) -> None:
    flags = ("--runtime", "compose", "--image", agentd_image, "--run-dir", str(place), "--json")
    with start("up", *ENDLESS, *flags) as process:
        until(lambda: pulls_in(place) > 20)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    summary = json.loads(out)
    assert (summary["interrupted"], summary["agents_lost"], summary["failure"]) == (True, [], "")
    assert {path.name for path in place.iterdir()} >= CONTRACT
    assert nothing_is_left(docker, project_of(place))


def test_containers_that_cannot_start_fail_the_testbed_with_a_reason(
    docker: Docker, agentd_image: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compose is told a project that it cannot make: the subnet was taken between the look and the start."""
    name = f"agentd-test-{secrets.token_hex(4)}"
    docker.run(["network", "create", "--internal", "--subnet", "10.255.253.0/24", name])
    monkeypatch.setattr(containers, "taken_subnets", lambda _: [])
    try:
        scenario = make_scenario(TestbedSettings(agents=2, edge_probability=1.0, rounds=10))
        wanted = Wanted(run_dir=place, image=agentd_image, subnet="10.255.253.0/24")
        prepared = COMPOSE.prepare(scenario, wanted)
        result = carry_out(prepared, Nothing())
    finally:
        docker.run(["network", "rm", name])
    assert result.ending.exit_code == 1
    assert result.ending.failure.startswith("the containers of environment did not start: ")
    assert "overlap" in result.ending.failure
    assert nothing_is_left(docker, prepared.project)


def test_an_image_that_is_not_there_is_refused_before_anything_is_made(docker: Docker, place: Path) -> None:
    refused = agentd("up", "--runtime", "compose", "--image", "agentd:nowhere", "--run-dir", str(place), code=78)
    assert "there is no image agentd:nowhere here; make it with agentd image build" in refused.stderr
    assert not place.exists()


def test_a_subnet_in_use_is_refused_by_name(docker: Docker, agentd_image: str, place: Path) -> None:
    name = f"agentd-test-{secrets.token_hex(4)}"
    docker.run(["network", "create", "--internal", "--subnet", "10.255.254.0/24", name])
    try:
        flags = ("--image", agentd_image, "--subnet", "10.255.254.0/25", "--run-dir", str(place))
        refused = agentd("up", "--runtime", "compose", *flags, code=78)
    finally:
        docker.run(["network", "rm", name])
    assert "--subnet 10.255.254.0/25 overlaps with 10.255.254.0/24" in refused.stderr


def make_directories(file: Path) -> None:
    """What the first lines of a printed file tell an operator to do."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("#   install"):
            subprocess.run(line.removeprefix("#   ").split(), cwd=file.parent, check=True)


def test_a_container_of_the_printed_file_that_is_made_anew_finds_its_state(
    docker: Docker, agentd_image: str, place: Path, tmp_path: Path
) -> None:
    compose, subnet = find_composes()[0], f"10.253.{secrets.randbelow(250)}.0/24"
    # So much that no machine is slow enough to spend it before the container is made anew: 40 are gone after 900 pulls.
    budget = ("--epsilon-budget", str(MUCH), "--algorithm", "private-ucb")
    file = tmp_path / "docker-compose.yml"
    flags = (*ENDLESS, *budget, "--image", agentd_image, "--subnet", subnet)
    file.write_text(agentd("compose", *flags).stdout, encoding="utf-8")
    make_directories(file)
    project = ("--project-name", f"agentd-test-{secrets.token_hex(4)}", "--file", str(file))
    try:
        compose.run([*project, "up", "--detach"], timeout_s=PATIENCE_S, environment=dict(os.environ))
        until(lambda: pulls_in(place) > 60)
        compose.run([*project, "rm", "--stop", "--force", "agent-1"], timeout_s=PATIENCE_S)
        stopped_at = trial_of(place, 1)
        compose.run([*project, "up", "--detach", "--no-deps", "agent-1"], timeout_s=PATIENCE_S)
        # The status file is a moment behind: what it said of the agent then may still be of its first life.
        until(lambda: times_joined(place, 1) == 2 and trial_of(place, 1) > stopped_at + 5)
    finally:
        compose.run([*project, "down"], check=False, timeout_s=PATIENCE_S)
    log = [json.loads(line) for line in (place / own_log_name(1)).read_text(encoding="utf-8").splitlines()]
    first, second = [event["trial"] for event in log if event["event"] == "joined"]
    assert (first, second > 0) == (0, True)
    ledger = agentd_json("ledger", str(place))[1]
    assert (ledger["incarnation"], ledger["trial"] > stopped_at) == (0, True), "one life, in one ledger"
    assert 0 < ledger["one_reward"]["pure"] <= MUCH


@pytest.mark.parametrize("generation", ["docker-compose", "docker compose"])
def test_the_printed_file_runs_by_itself(
    generation: str, docker: Docker, agentd_image: str, place: Path, tmp_path: Path
) -> None:
    compose = next((one for one in find_composes() if " ".join(one.command) == generation), None)
    if compose is None:
        pytest.skip(f"there is no {generation} here")
    subnet = f"10.254.{secrets.randbelow(250)}.0/24"
    file = tmp_path / "docker-compose.yml"
    file.write_text(
        agentd("compose", *SMALL, *PATIENT, "--image", agentd_image, "--subnet", subnet).stdout, encoding="utf-8"
    )
    make_directories(file)
    project = ("--project-name", f"agentd-test-{secrets.token_hex(4)}", "--file", str(file))
    try:
        compose.run([*project, "up"], timeout_s=PATIENCE_S, environment={**os.environ, "COMPOSE_PARALLEL_LIMIT": "64"})
    finally:
        compose.run([*project, "down"], check=False, timeout_s=PATIENCE_S)
    assert same_as_the_simulation(place / APART, tmp_path, SMALL)


def test_a_swarm_is_never_made_silently_and_does_to_the_bit_what_the_simulation_does(
    docker: Docker, agentd_image: str, place: Path, tmp_path: Path
) -> None:
    """One test, because Docker is in a swarm or is not, whoever else is testing."""
    if docker.info()["Swarm"]["LocalNodeState"] == "inactive":
        refused = agentd("up", "--runtime", "swarm", "--image", agentd_image, "--run-dir", str(place), code=69)
        assert INIT in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert docker.info()["Swarm"]["LocalNodeState"] == "inactive"
        assert not place.exists()
    with swarm_of_one(docker):
        assert_swarm_runs(docker, agentd_image, place)
    assert same_as_the_simulation(place, tmp_path, SMALL)


def assert_swarm_runs(docker: Docker, agentd_image: str, place: Path) -> None:
    run = agentd_json("up", "--runtime", "swarm", "--image", agentd_image, *SMALL, *PATIENT, "--run-dir", str(place))
    assert (run["runtime"], run["agents_lost"], run["failure"]) == ("swarm", [], "")
    assert nothing_is_left(docker, project_of(place))
    assert owners(place) == {os.getuid()}

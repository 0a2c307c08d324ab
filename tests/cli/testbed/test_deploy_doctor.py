"""What the doctor finds, and what it makes of it."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path

import pytest

from agentd.cli import main
from agentd.cli.testbed import doctor_checks as doctor
from agentd.cli.testbed.doctor import line
from agentd.cli.testbed.doctor_checks import Finding, State
from agentd.errors import ToolMissing
from deploy.local.preflight import Limit, Room

PLENTY = Room(
    files_soft=1024, files_hard=20_000, threads=(Limit("a", 9000, "x"),), megabytes=(Limit("this machine", 900, "y"),)
)


def parts(findings: list[Finding]) -> dict[str, Finding]:
    return {one.part: one for one in findings}


def test_a_missing_extra_is_told_with_its_purpose_and_remedy_and_is_not_fatal() -> None:
    def version_of(name: str) -> str:
        if name in ("rich", "numpy"):
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    found = parts(list(doctor.look_at_packages(version_of)))
    assert line(found["rich"]) == (
        "rich                 missing  for live displays and progress bars  →  pip install 'agentd-bandits[ui]'"
    )
    assert not found["rich"].is_fatal
    assert found["numpy"].is_fatal
    assert found["click"] == Finding("click", State.OK, "1.0", required=True)
    with pytest.raises(ToolMissing, match=r"^missing: numpy \(pip install numpy\)$"):
        doctor.refuse_if_fatal(list(found.values()))


def test_room_is_told_in_agents_by_the_tightest_limit() -> None:
    threads = (Limit("loose", 9000, "x"), Limit("tight", 30, "raise it"))
    room = Room(files_soft=8, files_hard=1 << 62, threads=threads, megabytes=(Limit("this machine", 900, "y"),))
    found = parts(list(doctor.look_at_room(room)))
    assert found["threads"] == Finding("threads", State.SCARCE, "room for about 7 agents: tight", "raise it")
    assert found["memory"].detail == "room for about 50 agents: 900 MB left by this machine"
    assert found["open files"].detail.startswith("room for any number of agents")


def test_a_machine_with_plenty_is_told_no_remedies() -> None:
    assert [(one.state, one.remedy) for one in doctor.look_at_room(PLENTY)] == [(State.OK, "")] * 3


def test_without_docker_one_line_says_what_it_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (only,) = doctor.look_at_docker()
    assert (only.part, only.state, only.required) == ("docker client", State.MISSING, False)
    assert "apt install docker.io" in only.remedy


def test_chaos_in_containers_needs_root_for_kills_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.engines, "find_client", lambda: "/usr/bin/docker")
    states = {root: [one.state for one in doctor.look_at_chaos(root=root)] for root in (True, False)}
    assert states == {True: [State.OK] * 3, False: [State.OK, State.OK, State.SCARCE]}
    monkeypatch.setattr(doctor.engines, "find_client", lambda: None)
    assert len(list(doctor.look_at_chaos(root=False))) == 2


@pytest.mark.system
def test_a_machine_without_a_safe_place_for_sockets_is_told_what_works() -> None:
    assert doctor.look_at_sockets("/run/user/7").state is State.OK
    missing = doctor.look_at_sockets(None)
    assert (missing.state, missing.is_fatal) == (State.MISSING, False)
    assert "--transport tcp" in missing.detail


def test_the_verb_examines_this_machine_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json"])
    assert ended.value.code == 0
    found = {one["part"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["python"]["state"] == found["pyzmq"]["state"] == "ok"
    assert {"kernel", "docker client", "memory", "open files"} <= set(found)
    assert {one["state"] for one in found.values()} <= {"ok", "scarce", "missing"}
    assert all(one["remedy"] for one in found.values() if one["state"] != "ok")


IMPORTED_AS = {"dp-accounting": "dp_accounting", "pyzmq": "zmq"}


@pytest.mark.parametrize("package", [*doctor.REQUIRED_PACKAGES, *doctor.OPTIONAL_PACKAGES])
def test_nothing_is_listed_that_no_command_uses(package: str) -> None:
    root = Path(__file__).parents[3]
    name = IMPORTED_AS.get(package, package)
    import_of = re.compile(rf"(import|from) {name}\b|import_module\(\"{name}[.\"]")
    files = (path for folder in ("agentd", "deploy", "topology") for path in (root / folder).rglob("*.py"))
    assert any(import_of.search(path.read_text(encoding="utf-8")) for path in files)

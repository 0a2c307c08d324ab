"""Whether a machine can carry a testbed, and what it is told when it cannot."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path

import pytest

from agentd.errors import ConfigurationError
from agentd.runs.scenario import make_scenario
from agentd.settings import Pace, TestbedSettings
from deploy.local import cgroups, preflight
from deploy.local.preflight import Limit, Needs, Room, needs_of, room_left, shortages
from deploy.plan.plan import Plan, make_plan

NEEDS = Needs(agents=200, files=900, files_of="an agent with 32 neighbours", threads=612, megabytes=16 * 200 + 100)
PLENTY = Room(
    files_soft=10_000, files_hard=10_000, threads=(Limit("a", 10_000, "b"),), megabytes=(Limit("c", 9999, "d"),)
)


def plan_of(agents: int, probability: float = 1.0) -> Plan:
    scenario = make_scenario(TestbedSettings(agents=agents, edge_probability=probability, seed=1))
    return make_plan(scenario, run=b"x" * 8, base_port=17000, run_dir=Path(), pace=Pace())


def test_a_machine_with_room_for_all_lacks_nothing() -> None:
    assert list(shortages(NEEDS, PLENTY)) == []


def test_missing_files_are_named_with_the_process_and_the_command() -> None:
    (line,) = shortages(NEEDS, replace(PLENTY, files_hard=899))
    assert line == (
        "an agent with 32 neighbours needs 900 open files, but the hard limit is 899 "
        "(raise it: ulimit -Hn 900 as root, or LimitNOFILE=900 in a systemd unit)"
    )


def test_missing_threads_are_named_with_the_limit_and_its_remedy() -> None:
    (line,) = shortages(NEEDS, replace(PLENTY, threads=(Limit("ulimit -u (700)", 611, "raise it: ulimit -u"),)))
    assert line == "612 threads are needed, but ulimit -u (700) leaves 611 (raise it: ulimit -u)"


def test_missing_memory_is_named_with_how_many_agents_would_fit() -> None:
    (line,) = shortages(NEEDS, replace(PLENTY, megabytes=(Limit("this machine", 1000, "stop something else"),)))
    assert line == (
        "about 3300 MB of memory are needed, but this machine leaves 1000 MB (stop something else, or use --agents 56)"
    )


def test_an_overdrawn_limit_leaves_nothing_rather_than_less() -> None:
    room = replace(PLENTY, threads=(Limit("x", -5, "y"),), megabytes=(Limit("x", -5, "y"),))
    assert ["leaves 0" in line for line in shortages(NEEDS, room)] == [True, True]


def test_all_shortages_are_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    poor = Room(files_soft=8, files_hard=8, threads=(Limit("a", 1, "b"),), megabytes=(Limit("c", 1, "d"),))
    monkeypatch.setattr(preflight, "room_left", lambda: poor)
    with pytest.raises(ConfigurationError, match=r"this machine cannot carry 4 agents: .*open files.*threads.*memory"):
        preflight.check(plan_of(4))


@pytest.mark.parametrize("hard", [4096, resource.RLIM_INFINITY])
def test_a_soft_limit_below_the_need_is_raised_to_the_hard_one(hard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (8, hard) if which == resource.RLIMIT_NOFILE else (-1, -1))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: changed.append((which, limits)))
    preflight.check(plan_of(4))
    assert changed == [(resource.RLIMIT_NOFILE, (hard, hard))]


def test_a_soft_limit_that_suffices_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "room_left", lambda: PLENTY)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: pytest.fail("changed a limit for nothing"))
    preflight.check(plan_of(4))


def test_needs_grow_with_the_agents_and_their_links() -> None:
    few, many = needs_of(plan_of(4)), needs_of(plan_of(60))
    assert few.files < many.files
    assert few.threads < many.threads
    assert few.megabytes < many.megabytes
    assert many.files_of == "the supervisor"
    star = replace(
        plan_of(60), agents=(replace(plan_of(60).agents[0], peers={n: f"tcp://h:{n}" for n in range(1, 201)}),)
    )
    assert needs_of(star).files_of == "an agent with 200 neighbours"


def test_this_machine_tells_its_limits() -> None:
    room = room_left()
    assert room.files_hard >= room.files_soft > 0
    assert any("kernel" in limit.name and limit.left > 0 for limit in room.threads)
    assert any(limit.name == "this machine" and limit.left > 0 for limit in room.megabytes)


def test_a_limit_on_processes_counts_the_threads_that_run_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_is_exempt", lambda: False)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    limit = next(limit for limit in preflight._thread_limits() if limit.name == "ulimit -u (1000)")
    assert limit.left < 1000


def test_limits_of_control_groups_hold_up_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup").write_text("0::/outer/inner\n", encoding="ascii")
    inner = tmp_path / "fs" / "outer" / "inner"
    inner.mkdir(parents=True)
    for place, name, content in (
        (inner, "pids.max", "max"),
        (inner, "pids.current", "7"),
        (inner.parent, "pids.max", "100"),
        (inner.parent, "pids.current", "40"),
        (inner, "memory.max", str(64 << 20)),
        (inner, "memory.current", str(60 << 20)),
        (inner, "memory.stat", f"anon 5\ninactive_file {16 << 20}\n"),
    ):
        (place / name).write_text(f"{content}\n", encoding="ascii")
    monkeypatch.setattr(cgroups, "MEMBERSHIP", tmp_path / "cgroup")
    monkeypatch.setattr(cgroups, "MOUNT", tmp_path / "fs")
    assert list(cgroups.pids_left()) == [(str(inner.parent / "pids.max"), 60)]
    assert list(cgroups.bytes_left()) == [(str(inner / "memory.max"), 20 << 20)], "cached files can be given back"


def test_the_older_control_groups_are_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup").write_text("5:cpu:/\n4:memory:/box\n3:pids,misc:/box\n", encoding="ascii")
    memory, pids = tmp_path / "fs" / "memory" / "box", tmp_path / "fs" / "pids" / "box"
    memory.mkdir(parents=True)
    pids.mkdir(parents=True)
    (memory / "memory.limit_in_bytes").write_text("1000\n", encoding="ascii")
    (memory / "memory.usage_in_bytes").write_text("400\n", encoding="ascii")
    (pids / "pids.max").write_text("10\n", encoding="ascii")
    (pids / "pids.current").write_text("4\n", encoding="ascii")
    monkeypatch.setattr(cgroups, "MEMBERSHIP", tmp_path / "cgroup")
    monkeypatch.setattr(cgroups, "MOUNT", tmp_path / "fs")
    assert list(cgroups.bytes_left()) == [(str(memory / "memory.limit_in_bytes"), 600)]
    assert list(cgroups.pids_left()) == [(str(pids / "pids.max"), 6)]


def test_a_machine_without_control_groups_has_no_such_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "MEMBERSHIP", tmp_path / "nothing")
    assert list(cgroups.pids_left()) == list(cgroups.bytes_left()) == []

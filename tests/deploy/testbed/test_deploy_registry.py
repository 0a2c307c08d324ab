"""Testbeds as they are written down and found again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from held_logs import opened_logs

from agentd.errors import ConfigurationError
from deploy.testbed import registry
from deploy.testbed.process_marks import ProcessMark
from deploy.testbed.registry import FILE, State, Testbed, announce, choose, known, mark_ended, new_testbed, record

NOBODY = ProcessMark(2**22 - 1, 12345)
"""A process that does not exist: numbers end before it, or somebody else started at another time."""


HELD: list[int] = []
"""The logs that this process has open, as a supervisor has."""


@pytest.fixture(autouse=True)
def _state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    while HELD:
        os.close(HELD.pop())


def written(place: Path, *, created: float = 1.0, announced: bool = True, **changes: object) -> Testbed:
    HELD.extend(opened_logs(place))
    testbed = replace(new_testbed(b"12345678", place.resolve(), 3), created=created, **changes)  # type: ignore[arg-type]
    record(testbed)
    if announced:
        announce(testbed)
    return testbed


def test_a_testbed_survives_being_written_down(tmp_path: Path) -> None:
    testbed = written(tmp_path / "run", children={"agent-0": ProcessMark.own(), "environment": NOBODY})
    assert registry.read(tmp_path / "run") == testbed
    assert testbed.supervisor.pid == os.getpid()


def test_what_runs_is_asked_of_the_kernel_and_not_of_the_file(tmp_path: Path) -> None:
    testbed = written(tmp_path / "run", supervisor=NOBODY, children={"agent-0": ProcessMark.own(), "agent-1": NOBODY})
    assert not testbed.is_supervised()
    assert list(testbed.running()) == ["agent-0"]
    assert testbed.is_running()
    assert not replace(testbed, children={"agent-1": NOBODY}).is_running()


def test_processes_of_another_boot_do_not_run_whatever_their_numbers(tmp_path: Path) -> None:
    testbed = written(tmp_path / "run", boot="another", children={"agent-0": ProcessMark.own()})
    assert not testbed.is_supervised()
    assert testbed.running() == {}


def test_an_ended_testbed_does_not_run_even_if_its_supervisor_lives_on(tmp_path: Path) -> None:
    ended = mark_ended(written(tmp_path / "run"))
    assert ended.is_supervised(), "a demo runs several testbeds in one process"
    assert not registry.read(tmp_path / "run").is_running()


def test_the_newest_running_testbed_is_meant_where_none_is_named(tmp_path: Path) -> None:
    written(tmp_path / "old", created=1.0)
    middle = written(tmp_path / "middle", created=2.0)
    written(tmp_path / "new", created=3.0, state=State.ENDED)
    assert choose(None) == middle
    assert choose(str(tmp_path / "new")).created == 3.0
    assert [testbed.created for testbed in known()] == [3.0, 2.0, 1.0]


def test_the_newest_testbed_is_meant_where_none_runs(tmp_path: Path) -> None:
    written(tmp_path / "old", created=1.0, state=State.ENDED)
    new = written(tmp_path / "new", created=3.0, state=State.ENDED)
    assert choose(None) == new


def test_without_any_testbed_the_operator_is_told_how_to_start_one() -> None:
    with pytest.raises(ConfigurationError, match="there is no testbed; start one with agentd up"):
        choose(None)


def test_a_directory_without_a_testbed_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no testbed"):
        registry.read(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"run": "x"}', b"\xff\xfe", b'{"children": []}', b"[" * 5000],
)
def test_a_damaged_description_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ConfigurationError, match="is damaged"):
        registry.read(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [("supervisor", {"pid": 1, "started": 0}), ("supervisor", None), ("state", "sleeping"), ("created", "noon"),
     ("children", {"agent-0": {"pid": True}}), ("agents", None)],
)  # fmt: skip
def test_a_description_with_a_wrong_field_is_refused(field: str, value: object, tmp_path: Path) -> None:
    written(tmp_path, announced=False)
    content = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    (tmp_path / FILE).write_text(json.dumps({**content, field: value}), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="is damaged"):
        registry.read(tmp_path)


def test_pointers_that_lead_nowhere_are_passed_over_and_dropped(tmp_path: Path) -> None:
    gone = written(tmp_path / "gone")
    (gone.run_dir / FILE).unlink()
    (registry.pointers() / "00-noise.json").write_text("not json", encoding="utf-8")
    there = written(tmp_path / "there")
    assert known() == [there]
    kept = {json.loads(path.read_text(encoding="utf-8"))["run_dir"] for path in registry.pointers().glob("*-3*.json")}
    assert kept == {str(there.run_dir)}


def test_pointers_of_ended_testbeds_are_kept_only_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_KEPT", 2)
    for number in range(4):
        written(tmp_path / str(number), created=number, state=State.ENDED)
    running = written(tmp_path / "running", created=0.5)
    assert {testbed.created for testbed in known()} == {3.0, 2.0, running.created}


def test_the_same_directory_announced_twice_is_one_testbed(tmp_path: Path) -> None:
    testbed = written(tmp_path / "run")
    announce(testbed)
    assert known() == [testbed]


def test_a_state_directory_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigurationError, match="set XDG_STATE_HOME"):
        written(tmp_path / "run")


def test_a_relative_state_home_is_not_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert registry.pointers() == tmp_path / ".local" / "state" / "agentd" / "testbeds"


def test_the_testbed_that_is_meant_is_that_of_the_directory_one_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "a/runs/1", created=1.0)
    written(tmp_path / "a/runs/2", created=2.0, state=State.ENDED)
    written(tmp_path / "b/runs/1", created=9.0)
    (tmp_path / "c").mkdir()
    meant = {}
    for place in ("a", "a/runs/2", "b", "c"):
        monkeypatch.chdir(tmp_path / place)
        meant[place] = choose(None).created
    assert meant["a"] == 1.0, "the one that runs, though another is newer"
    assert meant["a/runs/2"] == 2.0, "the one that one stands in, though it has ended"
    assert meant["b"] == meant["c"] == 9.0

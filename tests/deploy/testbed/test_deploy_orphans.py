"""What happens to a testbed when its supervisor, its fork server or its terminal goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentd.cli import cli
from deploy.local import local_runtime
from deploy.testbed import registry
from deploy.testbed.process_marks import ProcessMark, send, stop, wait_for
from deploy.testbed.registry import State

HERE = Path(__file__).parent
PATIENCE_S = 120.0


@pytest.fixture(autouse=True)
def _state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Running:
    """A supervisor in a process group of its own, as under a terminal."""

    def __init__(self, place: Path, behaviour: str) -> None:
        self.place = place
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "orphan_maker.py"), str(place), behaviour],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            env={**os.environ, "PYTHONPATH": str(HERE)},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "runs\n", self.process.communicate()[1]

    @property
    def children(self) -> list[ProcessMark]:
        return list(registry.read(self.place).children.values())

    def fork_server(self) -> ProcessMark:
        parent = self.children[0].parent()
        assert parent is not None
        mark = ProcessMark.of(parent)
        assert mark is not None
        return mark

    def clean_up(self) -> None:
        stop(self.children, 1.0)
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def waiting(place: Path) -> Iterator[Running]:
    running = Running(place, "wait")
    yield running
    running.clean_up()


def test_children_end_with_a_supervisor_that_was_killed(waiting: Running) -> None:
    children = waiting.children
    server = waiting.fork_server()
    assert len(children) == 4
    waiting.process.kill()
    assert wait_for(children, PATIENCE_S) == []
    assert wait_for([server], PATIENCE_S) == [], "the fork server follows"


def test_children_that_outlive_a_killed_supervisor_are_found_by_down(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_runtime, "GRACE_S", 1.0)
    running = Running(place, "hang")
    agents = [mark for name, mark in registry.read(place).children.items() if name != "environment"]
    running.process.kill()
    running.process.wait()
    assert wait_for(agents, 0.5) == agents, "they ignore SIGTERM"
    result = CliRunner().invoke(cli, ["down", "--json"])
    (stopped,) = json.loads(result.output)
    assert {"agent-0", "agent-1", "agent-2"} <= set(stopped["killed"])
    assert [mark for mark in agents if mark.is_running()] == []
    assert registry.read(place).state is State.ENDED
    running.clean_up()


def test_children_end_with_their_fork_server(waiting: Running) -> None:
    children = waiting.children
    assert send(waiting.fork_server(), signal.SIGKILL)
    assert wait_for(children, PATIENCE_S) == []
    waiting.process.wait(PATIENCE_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_is_the_supervisors_to_answer(waiting: Running, number: signal.Signals) -> None:
    """Ctrl-C, `timeout` and a closing terminal signal everybody at once; agents must not take it for a second one."""
    children = waiting.children
    os.killpg(waiting.process.pid, number)
    assert waiting.process.wait(PATIENCE_S) == 128 + number
    assert wait_for(children, PATIENCE_S) == []
    summary = json.loads((waiting.place / "summary.json").read_text(encoding="utf-8"))
    assert summary["interrupted"] is True
    assert summary["agents_lost"] == []
    assert summary["failure"] == ""
    assert registry.read(waiting.place).state is State.ENDED


def test_nothing_at_all_is_left_after_a_testbed_has_ended(waiting: Running) -> None:
    server = waiting.fork_server()
    waiting.process.terminate()
    waiting.process.wait(PATIENCE_S)
    assert wait_for([server], PATIENCE_S) == []
    assert not (waiting.place / "control.sock").exists()

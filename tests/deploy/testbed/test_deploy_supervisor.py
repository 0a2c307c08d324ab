"""The supervisor with stand-ins for agents and environment: crashes, hangs, exit codes, restarts."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import standins
from evidence import until

from agentd.errors import AgentdError
from agentd.runs.fault_log import read_faults
from agentd.runs.scenario import make_scenario
from agentd.settings import Pace, TestbedSettings
from deploy.local.local_processes import LocalProcesses
from deploy.local.local_runtime import LOCAL
from deploy.plan.names import STDERR
from deploy.testbed import registry
from deploy.testbed.control import ask
from deploy.testbed.launch import carry_out
from deploy.testbed.lifecycle import Lost, Phase
from deploy.testbed.process_marks import ProcessMark
from deploy.testbed.processes import ending_text
from deploy.testbed.registry import State, new_testbed
from deploy.testbed.runtime import Prepared, Wanted
from deploy.testbed.supervisor import LOG, Ending, Supervisor, View

AGENTS = 3


class Watcher:
    """A display that calls back once the testbed runs."""

    tick_s: float | None = 0.05

    def __init__(self, on_running: Callable[[], None] = lambda: None) -> None:
        self.views: list[View] = []
        self._on_running: Callable[[], None] | None = on_running

    def update(self, view: View) -> None:
        self.views.append(view)
        if view.phase is Phase.RUNNING and self._on_running is not None:
            self._on_running, act = None, self._on_running
            act()


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prepared]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    settings = TestbedSettings(agents=AGENTS, edge_probability=1.0, rounds=20, seed=1)
    wanted = Wanted(run_dir=tmp_path / "run", pace=Pace(ready_timeout_s=120.0))
    made = LOCAL.prepare(make_scenario(settings), wanted)
    yield made
    made.release()


def stand_ins(prepared: Prepared, agents: dict[int, str] | None = None, environment: str = "serve") -> LocalProcesses:
    return LocalProcesses(
        prepared.directory.path,
        agent=partial(standins.agent, agents or {}),
        environment=partial(standins.environment, environment),
    )


def supervise(
    prepared: Prepared,
    agents: dict[int, str] | None = None,
    environment: str = "serve",
    *,
    watcher: Watcher | None = None,
    on_ready: Callable[[], None] = lambda: None,
    grace_s: float = 5.0,
    revivals: int = 0,
) -> Ending:
    """Run a testbed of stand-ins; nothing may be left of it."""
    place = prepared.directory.path
    processes = stand_ins(prepared, agents, environment)
    supervisor = Supervisor(
        prepared.plan,
        prepared.environment,
        new_testbed(prepared.plan.run, place, AGENTS),
        processes,
        watcher or Watcher(),
        grace_s=grace_s,
        environment_grace_s=grace_s,
        revivals=revivals,
        on_ready=on_ready,
    )
    ending = supervisor.run()
    assert [child.name for child in processes.children.values() if child.mark and child.mark.is_running()] == []
    assert not (place / "control.sock").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return ending


def go(prepared: Prepared) -> None:
    (prepared.directory.path / standins.GO).touch()


def test_a_testbed_whose_agents_finish_is_done(prepared: Prepared) -> None:
    ending = supervise(prepared, dict.fromkeys(range(AGENTS), "finish on go"), on_ready=lambda: go(prepared))
    assert (ending.exit_code, ending.failure, ending.lost, ending.stopped_by) == (0, "", (), None)


def test_agents_that_finish_before_anybody_looks_are_fine_too(prepared: Prepared) -> None:
    assert supervise(prepared).exit_code == 0


def test_a_crash_while_running_loses_that_agent_and_no_other(prepared: Prepared) -> None:
    behaviours = {0: "finish on go", 1: "crash on go", 2: "finish on go"}
    watcher = Watcher()
    ending = supervise(prepared, behaviours, watcher=watcher, on_ready=lambda: go(prepared))
    assert ending.lost == (Lost(1, 3, "ended with exit code 3"),)
    assert (ending.exit_code, ending.failure) == (1, "")
    assert "agent-1: ended with exit code 3" in (prepared.directory.path / LOG).read_text(encoding="utf-8")


def test_an_agent_that_cannot_listen_fails_the_run_with_a_line_that_names_the_place(prepared: Prepared) -> None:
    ending = supervise(prepared, {0: "wait", 1: "wait", 2: "refuse"})
    listen = prepared.plan.agents[2].listen
    assert ending.exit_code == 1
    assert ending.failure == (
        f"agent-2 failed before the testbed was ready: cannot listen on {listen}: address already in use"
    )
    assert ending.lost[0].exit_code == 78


def test_a_bug_in_an_agent_is_named_and_its_traceback_kept(prepared: Prepared) -> None:
    ending = supervise(prepared, {0: "stumble", 1: "wait", 2: "wait"})
    assert "RuntimeError: a bug; a bug, see logs/stderr.log" in ending.failure
    assert "Traceback" in (prepared.directory.path / STDERR).read_text(encoding="utf-8")


def test_an_exit_code_is_reported_where_an_agent_says_nothing(prepared: Prepared) -> None:
    ending = supervise(prepared, {0: "exit 69", 1: "wait", 2: "wait"})
    assert ending.lost == (Lost(0, 69, "ended with exit code 69"),)


def test_ctrl_c_stops_everything_in_order(prepared: Prepared) -> None:
    behaviours = dict.fromkeys(range(AGENTS), "wait")
    ending = supervise(prepared, behaviours, on_ready=lambda: signal.raise_signal(signal.SIGINT))
    assert (ending.exit_code, ending.stopped_by, ending.lost, ending.failure) == (130, signal.SIGINT, (), "")


def test_ctrl_c_while_starting_stops_what_has_started(prepared: Prepared) -> None:
    class Impatient(Watcher):
        def update(self, view: View) -> None:
            if not self.views:
                signal.raise_signal(signal.SIGINT)
            super().update(view)

    ending = supervise(prepared, dict.fromkeys(range(AGENTS), "wait"), "silent", watcher=Impatient())
    assert (ending.exit_code, ending.failure) == (130, "")


def test_an_agent_that_ignores_sigterm_is_killed_after_its_grace(prepared: Prepared) -> None:
    def stop_when_it_hangs() -> None:
        hangs = prepared.directory.path / "hangs-1"
        until(hangs.exists)
        signal.raise_signal(signal.SIGTERM)

    ending = supervise(prepared, {0: "wait", 1: "hang", 2: "wait"}, on_ready=stop_when_it_hangs, grace_s=4.0)
    assert ending.exit_code == 128 + signal.SIGTERM
    assert ending.lost == (Lost(1, -signal.SIGKILL, "did not stop within 4 s and was killed"),)


def test_an_environment_that_ignores_sigterm_is_killed_too_and_reported(prepared: Prepared) -> None:
    ending = supervise(
        prepared, dict.fromkeys(range(AGENTS), "finish on go"), "hang", on_ready=lambda: go(prepared), grace_s=0.3
    )
    assert ending.failure == "the environment did not stop within 0.3 s and was killed"
    assert ending.exit_code == 1


def test_a_second_ctrl_c_waits_for_nobody(prepared: Prepared) -> None:
    def twice() -> None:
        until((prepared.directory.path / "hangs-1").exists)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    ending = supervise(prepared, {0: "wait", 1: "hang", 2: "wait"}, "hang", on_ready=twice, grace_s=240.0)
    assert ending.exit_code == 130
    assert ending.wall_s < 120.0


def test_an_environment_that_cannot_start_fails_the_run_with_its_reason(prepared: Prepared) -> None:
    ending = supervise(prepared, environment="refuse")
    assert ending.failure == (
        f"the environment failed: cannot listen on {prepared.plan.environment}: address already in use"
    )


def test_an_environment_that_crashes_ends_the_run(prepared: Prepared) -> None:
    behaviours = dict.fromkeys(range(AGENTS), "wait")
    ending = supervise(prepared, behaviours, "crash on go", on_ready=lambda: go(prepared))
    assert ending.failure == "the environment failed: ended with exit code 5"
    assert ending.lost == ()


def test_an_environment_that_dies_is_started_again_once_and_that_is_told_everywhere(prepared: Prepared) -> None:
    watcher = Watcher()
    behaviours = dict.fromkeys(range(AGENTS), "finish after a crash")
    ending = supervise(
        prepared, behaviours, "crash once", watcher=watcher, on_ready=lambda: go(prepared), revivals=LOCAL.revivals
    )
    assert (ending.exit_code, ending.failure, ending.lost) == (0, "", ())
    what = "environment died (ended with exit code 5) and was started again from its journal"
    place = prepared.directory.path
    assert [(one["verb"], one["what"]) for one in read_faults(place)] == [("restart", what)]
    assert what in (place / LOG).read_text(encoding="utf-8")
    assert watcher.views[-1].notices == (f"the {what}; the run goes on",)


def test_an_environment_that_dies_again_ends_the_run(prepared: Prepared) -> None:
    behaviours = dict.fromkeys(range(AGENTS), "wait")
    ending = supervise(prepared, behaviours, "crash on go", on_ready=lambda: go(prepared), revivals=LOCAL.revivals)
    assert ending.failure == "the environment failed: ended with exit code 5"
    assert len(read_faults(prepared.directory.path)) == 1


class Chaos(threading.Thread):
    """Does things to a running testbed from outside, as another command would."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self._act = act
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            self._act()
        except BaseException as fault:
            self.fault = fault

    def finish(self) -> None:
        self.join()
        if self.fault is not None:
            raise self.fault


def test_a_killed_agent_is_down_until_it_is_restarted(prepared: Prepared) -> None:
    place = prepared.directory.path
    watcher = Watcher()

    def act() -> None:
        before = registry.read(place).children["agent-1"]
        ask(place, "kill", "agent-1")
        until(lambda: any(view.down == (1,) for view in watcher.views))
        started = ask(place, "restart", "agent-1")["pid"]
        assert started != before.pid
        until(lambda: registry.read(place).children["agent-1"].pid == started)
        running = {entry["name"]: entry["pid"] for entry in ask(place, "status")["children"]}
        assert running["agent-1"] == started
        go(prepared)

    chaos = Chaos(act)
    ending = supervise(prepared, dict.fromkeys(range(AGENTS), "finish on go"), watcher=watcher, on_ready=chaos.start)
    chaos.finish()
    assert (ending.exit_code, ending.lost) == (0, ())
    faults = [json.loads(line)["what"] for line in (place / "faults.jsonl").read_text(encoding="utf-8").splitlines()]
    assert faults == ["agent-1 killed", "agent-1 restarted"]


def test_a_running_agent_and_the_environment_can_be_restarted(prepared: Prepared) -> None:
    place = prepared.directory.path

    def act() -> None:
        for name in ("agent-2", "environment"):
            before = registry.read(place).children[name]
            pid = ask(place, "restart", name)["pid"]
            assert pid != before.pid
            assert not before.is_running()
            assert ProcessMark.of(pid) is not None
        go(prepared)

    chaos = Chaos(act)
    ending = supervise(prepared, dict.fromkeys(range(AGENTS), "finish on go"), on_ready=chaos.start)
    chaos.finish()
    assert (ending.exit_code, ending.failure, ending.lost) == (0, "", ())


def test_what_cannot_be_done_is_refused(prepared: Prepared) -> None:
    place = prepared.directory.path

    def act() -> None:
        ask(place, "kill", "agent-0")
        until(lambda: ask(place, "status")["children"][1]["exit_code"] == -9)
        with pytest.raises(AgentdError, match="agent-0 is not running and the testbed is running"):
            ask(place, "kill", "agent-0")
        with pytest.raises(AgentdError, match="no process of this testbed has that name"):
            ask(place, "restart", "agent-3")
        ask(place, "stop")

    chaos = Chaos(act)
    ending = supervise(prepared, dict.fromkeys(range(AGENTS), "wait"), on_ready=chaos.start)
    chaos.finish()
    assert ending.stopped_by == signal.SIGTERM
    assert [lost.agent for lost in ending.lost] == [0]


def test_a_testbed_of_stand_ins_leaves_a_complete_run_directory(prepared: Prepared) -> None:
    processes = stand_ins(prepared, {1: "crash on go"})
    result = carry_out(prepared, Watcher(), processes=processes, on_ready=lambda: go(prepared))
    place = prepared.directory.path
    for name in (
        "manifest.json",
        "topology.json",
        "plan.json",
        "pulls.npz",
        "regret.csv",
        "regret.svg",
        "summary.json",
    ):
        assert (place / name).is_file(), name
    summary = json.loads((place / "summary.json").read_text(encoding="utf-8"))
    assert summary["interrupted"] is False
    assert summary["runtime"] == "local"
    assert summary["group_regret"] == 0.0, "nobody pulled"
    assert result.summary["run"] == prepared.plan.run.hex()
    assert registry.read(place).state is State.ENDED
    assert registry.known()[0].run_dir == place.resolve()


def test_the_display_sees_the_testbed_start_and_run(prepared: Prepared) -> None:
    watcher = Watcher(on_running=lambda: go(prepared))
    supervise(prepared, dict.fromkeys(range(AGENTS), "finish on go"), watcher=watcher)
    phases = [view.phase for view in watcher.views]
    assert phases == sorted(phases)
    assert Phase.RUNNING in phases
    last = watcher.views[-1]
    assert (last.agents, last.rounds, last.down) == (AGENTS, 20, ())
    assert last.status is not None
    assert last.status.messages == 30


@pytest.mark.parametrize(
    ("code", "text"),
    [(3, "ended with exit code 3"), (-9, "killed by SIGKILL"), (-1000, "killed by signal 1000")],
)
def test_exit_codes_read_as_words(code: int, text: str) -> None:
    assert ending_text(code) == text

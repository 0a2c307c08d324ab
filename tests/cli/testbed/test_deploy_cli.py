"""The testbed verbs on testbeds that are only written down, and on orphans."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from held_logs import started_for

from agentd.cli import cli
from agentd.errors import ConfigurationError, SettingsError
from deploy.testbed import stopping
from deploy.testbed.process_marks import ProcessMark
from deploy.testbed.registry import State, Testbed, announce, new_testbed, read, record

NOBODY = ProcessMark(2**22 - 1, 12345)


@pytest.fixture(autouse=True)
def _state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Works for the testbed in `run`."""
    with started_for(tmp_path / "run") as process:
        yield process
        process.kill()


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def output(*args: str) -> Any:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def written(place: Path, **changes: object) -> Testbed:
    (place / "logs").mkdir(parents=True, exist_ok=True)
    testbed = replace(new_testbed(b"12345678", place.resolve(), 2), **changes)  # type: ignore[arg-type]
    record(testbed)
    announce(testbed)
    return testbed


def mark_of(process: subprocess.Popen[bytes]) -> ProcessMark:
    mark = ProcessMark.of(process.pid)
    assert mark is not None
    return mark


@pytest.fixture
def orphaned(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> Testbed:
    """A testbed whose supervisor is gone; of its agents one runs, and one number belongs to a stranger now."""
    stranger = replace(ProcessMark.own(), started=ProcessMark.own().started - 1)
    children = {"environment": NOBODY, "agent-0": mark_of(sleeper), "agent-1": stranger}
    return written(tmp_path / "run", supervisor=NOBODY, state=State.RUNNING, children=children)


def test_without_testbeds_reading_and_stopping_say_so() -> None:
    assert run("down").output == "no testbed is running\n"
    assert run("down", "--all").exit_code == 0
    assert output("down") == []
    assert "no testbed is running" in run("ps").output
    assert output("ps") == []
    assert isinstance(run("status").exception, ConfigurationError)
    assert isinstance(run("logs").exception, ConfigurationError)


def test_down_ends_exactly_the_processes_that_were_written_down(
    orphaned: Testbed, sleeper: subprocess.Popen[bytes]
) -> None:
    (orphaned.run_dir / "control.sock").touch()
    (stopped,) = output("down")
    assert stopped["killed"] == ["agent-0"]
    assert "its supervisor was gone; ended 1 process" in stopped["did"]
    assert sleeper.wait() == -signal.SIGTERM
    assert ProcessMark.own().is_running(), "whoever got an old number is left alone"
    assert read(orphaned.run_dir).state is State.ENDED
    assert not (orphaned.run_dir / "control.sock").exists()


def test_down_twice_does_no_harm(orphaned: Testbed) -> None:
    assert run("down", str(orphaned.run_dir)).exit_code == 0
    again = run("down", str(orphaned.run_dir))
    assert (again.exit_code, again.output) == (0, f"{orphaned.run_dir}: it had ended already\n")


def test_down_notes_that_a_crashed_testbed_has_ended(tmp_path: Path) -> None:
    crashed = written(tmp_path / "run", supervisor=NOBODY, state=State.RUNNING, children={"agent-0": NOBODY})
    assert "nothing of it was running any more" in run("down", str(crashed.run_dir)).output
    assert read(crashed.run_dir).state is State.ENDED


def test_down_signals_a_supervisor_whose_socket_is_gone(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    testbed = written(tmp_path / "run", supervisor=mark_of(sleeper), state=State.RUNNING)
    assert "stopped 2 agents and the environment" in run("down", str(testbed.run_dir)).output
    assert sleeper.wait() == -signal.SIGTERM


def test_a_supervisor_that_does_not_obey_is_killed_with_all_it_left(
    tmp_path: Path, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "SUPERVISOR_EXTRA_S", -4.9)
    program = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True)\nwhile 1: signal.pause()"
    with started_for(tmp_path / "run", program, stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        supervisor = ProcessMark.of(stubborn.pid)
        testbed = written(tmp_path / "run", supervisor=supervisor, children={"agent-0": mark_of(sleeper)})
        assert "ended 1 process" in run("down", str(testbed.run_dir)).output
        assert stubborn.wait() == -signal.SIGKILL
    assert sleeper.wait() == -signal.SIGTERM


def test_down_takes_the_newest_or_all(tmp_path: Path) -> None:
    with started_for(tmp_path / "old") as first, started_for(tmp_path / "new") as second:
        old = written(tmp_path / "old", created=1.0, supervisor=NOBODY, children={"agent-0": mark_of(first)})
        new = written(tmp_path / "new", created=2.0, supervisor=NOBODY, children={"agent-0": mark_of(second)})
        assert [stopped["run_dir"] for stopped in output("down")] == [str(new.run_dir)]
        assert first.poll() is None
        assert [stopped["run_dir"] for stopped in output("down", "--all")] == [str(old.run_dir)]


def test_a_directory_and_all_is_too_much() -> None:
    assert isinstance(run("down", "somewhere", "--all").exception, SettingsError)


def test_ps_tells_who_runs(orphaned: Testbed, sleeper: subprocess.Popen[bytes]) -> None:
    (listed,) = output("ps")
    assert listed["state"] == "without supervisor"
    running = {entry["name"]: entry["running"] for entry in listed["processes"]}
    assert running == {"supervisor": False, "environment": False, "agent-0": True, "agent-1": False}
    text = run("ps", str(orphaned.run_dir)).output
    assert f"{sleeper.pid:8}  agent-0\n" in text
    assert "environment  (ended)" in text


def test_ps_shows_ended_testbeds_only_when_asked(tmp_path: Path) -> None:
    written(tmp_path / "run", state=State.ENDED)
    assert output("ps") == []
    assert [listed["state"] for listed in output("ps", "--all")] == ["ended"]


def status_file(place: Path) -> None:
    agents = [
        {"id": 0, "trial": 40, "messages": 7, "dropped": 1, "done": False, "blamed": {"slow": [1]}},
        {"id": 1, "trial": 30, "messages": 5, "dropped": 0, "done": False},
    ]
    status = {"rounds": 100, "group_regret": 12.5, "pulls": 70, "pulls_per_s": 9.0, "agents": agents}
    (place / "status.json").write_text(json.dumps(status), encoding="utf-8")


def test_status_joins_what_the_environment_wrote_with_what_the_kernel_knows(orphaned: Testbed) -> None:
    status_file(orphaned.run_dir)
    about = output("status")
    assert about["down"] == [1]
    assert (about["round"], about["rounds"], about["group_regret"], about["messages"]) == (40, 100, 12.5, 12)
    text = run("status").output
    assert "agents          2, down: 1" in text
    assert "round           40 of 100" in text
    assert "without supervisor" in text
    assert about["blamed"] == {"0": {"slow": [1]}}
    assert "blamed          agent 0: slow (says 1)\n" in text + "\n"
    graph = {"nodes": [{"id": 0}, {"id": 1}, {"id": 2}], "links": [{"source": 0, "target": n} for n in (1, 2)]}
    (orphaned.run_dir / "topology.json").write_text(json.dumps(graph), encoding="utf-8")
    assert "agent 0: slow (says 1: 1 of its 2 neighbours)" in run("status").output


def test_status_of_an_ended_testbed_shows_why_it_failed(tmp_path: Path) -> None:
    testbed = written(tmp_path / "run", state=State.ENDED)
    (testbed.run_dir / "summary.json").write_text('{"failure": "agent-1 failed"}', encoding="utf-8")
    assert "failed          agent-1 failed" in run("status").output
    assert output("status")["summary"] == {"failure": "agent-1 failed"}
    (testbed.run_dir / "summary.json").write_text("[]", encoding="utf-8")
    assert output("status")["summary"] is None


def test_a_testbed_that_crashed_is_called_so(tmp_path: Path) -> None:
    written(tmp_path / "run", supervisor=NOBODY, state=State.RUNNING)
    assert output("status")["state"] == "crashed"


def test_logs_show_what_was_logged(tmp_path: Path) -> None:
    testbed = written(tmp_path / "run", state=State.ENDED)
    line = json.dumps({"timestamp": "2026-11-16T10:00:00.5Z", "agent": 1, "level": "info", "event": "ready"})
    (testbed.run_dir / "logs/agent-1.jsonl").write_text(line + "\n", encoding="utf-8")
    assert run("logs").stdout == "10:00:00.5   agent 1      info    ready\n"
    assert run("logs", "1", "--json").stdout == line + "\n"
    assert run("logs", "0").stdout == ""
    assert run("logs").stderr == f"of {testbed.run_dir}\n", "nobody named it"
    assert run("logs", "--run-dir", str(testbed.run_dir)).stderr == ""
    assert run("logs", "--follow", "-n", "1").output == run("logs").output, "an ended testbed logs no more"
    assert isinstance(run("logs", "7").exception, SettingsError)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--agents", "0"], "--agents must be in"),
        (["--round-timeout", "0"], "--round-timeout must be a positive number"),
        (["--ready-timeout", "-1"], "--ready-timeout must be a number of seconds, or 0 to wait for ever"),
        (["--clock", "free", "--interval", "0ms"], "--interval must be a positive number"),
        (["--base-port", "65530"], "--base-port must leave room"),
    ],
)
def test_settings_that_make_no_sense_start_nothing(flags: list[str], message: str, tmp_path: Path) -> None:
    place = tmp_path / "run"
    result = run("up", "--agents", "20", *flags, "--run-dir", str(place))
    assert isinstance(result.exception, SettingsError)
    assert message in str(result.exception)
    assert not place.exists(), "nothing was written either"


def test_up_refuses_a_directory_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert isinstance(run("up", "--agents", "2", "--run-dir", str(tmp_path)).exception, ConfigurationError)


def test_verbs_explain_themselves() -> None:
    for verb in ("up", "down", "ps", "logs", "status", "demo"):
        result = run(verb, "--help")
        assert result.exit_code == 0
        assert "--json" in result.output
    assert os.environ["OPENBLAS_NUM_THREADS"]

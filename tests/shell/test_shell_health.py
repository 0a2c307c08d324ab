"""What a process says of its health, and what the probe makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from evidence import cpu_s_of, until
from loopback import events, free_address
from structlog.typing import FilteringBoundLogger

from agentd.shell import health_probe
from agentd.shell.health import LEAST_FRESH_S, Health
from agentd.shell.health_probe import judge, look

WELL = {"role": "agent", "id": 3, "pid": 1, "state": "running", "trial": 17, "written_s": 100.0, "fresh_s": 15.0}


def agent_health(path: Path, log: FilteringBoundLogger) -> Health:
    return Health(str(path), role="agent", number=3, log=log)


class TestJudging:
    def test_one_that_moved_lately_is_well(self) -> None:
        assert judge(WELL, 114.0, alive=True) == (True, "agent 3 is running at trial 17")

    def test_one_that_has_not_moved_for_too_long_is_stuck(self) -> None:
        assert judge(WELL, 116.0, alive=True) == (
            False,
            "agent 3 is stuck: running at trial 17, and nothing moved for 16 s (allowed: 15)",
        )

    def test_a_file_from_before_the_machine_restarted_does_not_count(self) -> None:
        assert not judge(WELL, 20.0, alive=True)[0]

    def test_one_whose_process_is_gone_has_ended(self) -> None:
        assert judge(WELL, 101.0, alive=False) == (False, "agent 3 has ended; it was running at trial 17")

    @pytest.mark.parametrize(
        ("state", "well"), [("starting", False), ("ready", True), ("running", True), ("done", True)]
    )
    def test_it_is_well_from_when_its_sockets_are_bound(self, state: str, well: bool) -> None:
        assert judge({**WELL, "state": state}, 101.0, alive=True)[0] is well

    @pytest.mark.parametrize("content", [None, [], {}, {**WELL, "trial": "x"}, {**WELL, "fresh_s": None}])
    def test_what_is_no_health_file_is_not_well(self, content: Any) -> None:
        assert judge(content, 101.0, alive=True) == (False, "the health file is not one of agentd's")


class TestWriting:
    def test_what_is_said_is_read(self, tmp_path: Path, log: FilteringBoundLogger) -> None:
        agent_health(tmp_path / "health", log).say("running", trial=5, fresh_s=30.0)
        well, why, content = look(str(tmp_path / "health"))
        assert (well, why, content["pid"], content["fresh_s"]) == (
            True,
            "agent 3 is running at trial 5",
            os.getpid(),
            30.0,
        )

    def test_a_beat_repeats_the_state_at_the_new_trial(self, tmp_path: Path, log: FilteringBoundLogger) -> None:
        health = agent_health(tmp_path / "health", log)
        health.say("running", trial=5)
        before = look(str(tmp_path / "health"))[2]
        health.beat(9)
        after = look(str(tmp_path / "health"))[2]
        assert (after["state"], after["trial"], after["fresh_s"]) == ("running", 9, LEAST_FRESH_S)
        assert float(str(after["written_s"])) > float(str(before["written_s"]))

    def test_nothing_is_left_beside_the_file(self, tmp_path: Path, log: FilteringBoundLogger) -> None:
        agent_health(tmp_path / "health", log).say("ready")
        assert [path.name for path in tmp_path.glob("health*")] == ["health"]

    def test_without_a_path_nothing_is_written(self, tmp_path: Path, log: FilteringBoundLogger) -> None:
        health = Health(None, role="agent", number=3, log=log)
        health.say("ready")
        health.beat()
        assert not health.wanted

    def test_a_place_that_cannot_be_written_is_told_once_and_harms_nobody(
        self, tmp_path: Path, log: FilteringBoundLogger, log_file: Path
    ) -> None:
        health = agent_health(tmp_path / "no such directory" / "health", log)
        health.say("ready")
        health.say("running")
        assert [event["event"] for event in events(log_file)] == ["no health file"]
        assert not health.wanted


class TestProbe:
    def run(self, *arguments: str, variable: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", "-S", str(health_probe.__file__), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={} if variable is None else {health_probe.VARIABLE: variable},
            timeout=60,
        )

    def test_it_runs_without_any_package_and_finds_the_file_by_argument_or_variable(
        self, tmp_path: Path, log: FilteringBoundLogger
    ) -> None:
        agent_health(tmp_path / "health", log).say("running", trial=2)
        for done in (self.run(str(tmp_path / "health")), self.run(variable=str(tmp_path / "health"))):
            assert (done.returncode, done.stdout, done.stderr) == (0, "agent 3 is running at trial 2\n", "")

    def test_it_says_in_one_line_what_is_wrong(self, tmp_path: Path) -> None:
        (tmp_path / "odd").write_text("{", encoding="utf-8")
        for done, words in (
            (self.run(), "name the health file"),
            (self.run(str(tmp_path / "none")), "no health file"),
            (self.run(str(tmp_path / "odd")), "cannot read the health file"),
        ):
            assert done.returncode == 1
            assert words in done.stdout
            assert done.stdout.count("\n") == 1

    def test_it_imports_neither_our_packages_nor_others(self) -> None:
        code = "import runpy, sys; runpy.run_path(sys.argv[1]); print(*sorted(sys.modules))"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code, str(health_probe.__file__)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert not {"agentd", "click", "numpy", "zmq", "asyncio", "pathlib", "subprocess"} & set(done.stdout.split())


@pytest.mark.system
def test_an_agent_and_its_environment_tell_their_states_from_bound_to_ended(tmp_path: Path) -> None:
    serving, playing = tmp_path / "environment", tmp_path / "agent"

    def state(path: Path) -> str:
        content = look(str(path))[2]
        return str(content.get("state", ""))

    with EnvironmentProcess("--arms", "0.9,0.1", "--health-file", str(serving)) as environment:
        assert look(str(serving))[:2] == (True, "the environment is running")
        first_s = json.loads(serving.read_text())["written_s"]
        arguments = agent_arguments(
            3, free_address(), environment.address, {}, health_file=playing, clock="free", interval=0.01
        )
        with Process(*arguments) as agent:
            until(lambda: state(playing) == "running" and int(str(look(str(playing))[2]["trial"])) > 0)
            assert look(str(playing))[0]
            agent.terminate()
            assert agent.wait() == 0, agent.errors
        assert look(str(playing))[0] is False
        assert json.loads(playing.read_text())["state"] == "done"
        until(lambda: json.loads(serving.read_text())["written_s"] > first_s)  # nobody asks anything, and yet it beats
        environment.end()
    assert json.loads(serving.read_text())["state"] == "done"


@pytest.mark.system
def test_an_agent_that_waits_for_its_environment_is_ready_not_running(tmp_path: Path) -> None:
    arguments = agent_arguments(3, free_address(), free_address(), {}, health_file=tmp_path / "health")
    with Process(*arguments):
        until(lambda: look(str(tmp_path / "health"))[1] == "agent 3 is ready")


@pytest.mark.system
def test_the_verb_tells_the_same_to_people_and_to_scripts(tmp_path: Path, log: FilteringBoundLogger) -> None:
    agent_health(tmp_path / "health", log).say("running", trial=2)
    with (
        Process("health", str(tmp_path / "health")) as shown,
        Process("health", str(tmp_path / "no"), "--json") as other,
    ):
        assert (shown.wait(), shown.output) == (0, "agent 3 is running at trial 2\n")
        assert other.wait() == 1
        assert json.loads(other.output)["healthy"] is False
    with Process("health") as nameless:
        assert nameless.wait() == 2
        assert "--health-file" in nameless.errors


def test_two_hundred_beats_take_less_than_a_second(tmp_path: Path, log: FilteringBoundLogger) -> None:
    """One a second is asked for; a beat on disk costs about 50 µs."""
    health = agent_health(tmp_path / "health", log)
    assert cpu_s_of(lambda: [health.beat(trial) for trial in range(200)]) < 1.0


def test_a_pipe_or_a_file_without_end_in_place_of_the_health_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").touch()
    os.truncate(tmp_path / "long", 1 << 40)
    (tmp_path / "deep").write_text("[" * 4_000)
    for name in ("pipe", "long", "deep"):
        assert look(str(tmp_path / name))[0] is False

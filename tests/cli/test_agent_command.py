"""`agentd --id …`: what its flags become, and one line and the documented exit code for everything that goes wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import zmq
from agentd_processes import Process, agent_arguments
from loopback import StandIn, free_address

from agentd.cli import main
from agentd.settings import AgentSettings

FLAGS = ["--id", "3", "--listen", "tcp://127.0.0.1:7003", "--environment", "tcp://127.0.0.1:7000"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[AgentSettings]:
    """Settings of the agents that would have been run."""
    calls: list[AgentSettings] = []

    def note(settings: AgentSettings) -> int:
        calls.append(settings)
        return 0

    monkeypatch.setattr("agentd.shell.daemon.run_agent", note)
    return calls


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert isinstance(end.value.code, int)
    return end.value.code


class TestFlags:
    def test_flags_without_a_verb_run_an_agent(self, started: list[AgentSettings]) -> None:
        assert run(*FLAGS) == 0
        assert started == [AgentSettings(id=3, listen="tcp://127.0.0.1:7003", environment="tcp://127.0.0.1:7000")]

    def test_the_verb_may_be_written(self, started: list[AgentSettings]) -> None:
        assert run("agent", *FLAGS) == 0
        assert len(started) == 1

    @pytest.mark.parametrize(
        ("flags", "field", "value"),
        [
            ("--peers 1=tcp://gate-1:7001,2=ipc:///run/two", "peers", {1: "tcp://gate-1:7001", 2: "ipc:///run/two"}),
            ("--peers 1=tcp://gate-1:7001,", "peers", {1: "tcp://gate-1:7001"}),
            ("--peers", "peers", {}),
            ("--algorithm byzantine-ucb", "algorithm", "byzantine-ucb"),
            ("--gamma 0", "gamma", 0),
            ("--rounds 12", "rounds", 12),
            ("--epsilon 0.5", "epsilon", 0.5),
            ("--clock free", "clock", "free"),
            ("--interval 0.02", "interval_s", 0.02),
            ("--round-timeout 7", "round_timeout_s", 7.0),
            ("--ready-timeout 7", "ready_timeout_s", 7.0),
            ("--seed 7", "seed", 7),
            ("--lies", "lies", True),
            ("--log-file logs/agent.jsonl", "log_file", "logs/agent.jsonl"),
            ("--log-level debug", "log_level", "debug"),
        ],
    )
    def test_each_flag_becomes_its_setting(
        self, started: list[AgentSettings], flags: str, field: str, value: object
    ) -> None:
        words = flags.split(" ") + ([""] if flags == "--peers" else [])
        assert run(*FLAGS, *words) == 0
        assert getattr(started[0], field) == value

    def test_variables_and_a_file_stand_in_for_flags(
        self, started: list[AgentSettings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "agent.toml"
        file.write_text('peers = "1=tcp://gate-1:7001"\ngamma = 4\nround-timeout = 9\nrounds = 5\n', encoding="utf-8")
        monkeypatch.setenv("AGENTD_GAMMA", "5")
        monkeypatch.setenv("AGENTD_ROUNDS", "6")
        assert run(*FLAGS, "--config", str(file), "--rounds", "7") == 0
        (settings,) = started
        assert settings.peers == {1: "tcp://gate-1:7001"}  # from the file
        assert settings.round_timeout_s == 9.0
        assert settings.gamma == 5  # the variable wins over the file
        assert settings.rounds == 7  # the flag wins over both

    def test_a_seed_is_announced_as_not_private(
        self, started: list[AgentSettings], capsys: pytest.CaptureFixture[str]
    ) -> None:
        run(*FLAGS, "--seed", "7")
        assert capsys.readouterr().err == "warning: --seed makes the noise predictable: reproducible, not private\n"

    def test_listening_beyond_this_machine_is_announced_loudly(
        self, started: list[AgentSettings], capsys: pytest.CaptureFixture[str]
    ) -> None:
        run(*FLAGS, "--listen", "tcp://*:7003", "--insecure")
        assert "neither encrypted nor authenticated" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            (["--peers", "gate-1:7001"], "'gate-1:7001' is not of the form 1=tcp://gate-1:7001"),
            (["--peers", "1=tcp://a:1,1=tcp://b:1"], "agent 1 is named twice"),
            (["--peers", "3=tcp://a:1"], "--peers names agent 3 itself"),
            (["--peers", "1=gate-1:7001"], "--peers: 'gate-1:7001' is not an address like tcp://127.0.0.1:7003"),
            (["--peers", "70000=tcp://a:1"], "an id must be in 0…65535, got 70000"),
            (["--peers", "1=tcp://a:1,2=tcp://a:1"], "gives the same address to two neighbours"),
            (["--id", "-1"], "--id must be in 0…65535, got -1"),
            (["--id", "three"], "'three' is not a valid integer"),
            (["--listen", "tcp://*:7003"], "add --insecure if that is what you want"),
            (["--listen", "7003"], "--listen: '7003' is not an address"),
            (["--environment", "hub"], "--environment: 'hub' is not an address"),
            (["--algorithm", "ucb9"], "'ucb9' is not one of"),
            (["--gamma", "-1"], "--gamma must be in 0…65535, got -1"),
            (["--rounds", "0"], "--rounds must be in 1…"),
            (["--epsilon", "0"], "--epsilon must be positive"),
            (["--epsilon", "nan"], "--epsilon must be positive"),
            (["--clock", "sundial"], "'sundial' is not one of"),
            (["--interval", "0"], "--interval must be a positive number of seconds"),
            (["--round-timeout", "inf"], "'inf' is not a time like 10s, 500ms or 2m"),
            (["--attack", "tickle"], "tickle"),
            (["--no-such-flag"], "--no-such-flag"),
        ],
    )
    def test_what_makes_no_sense_is_one_line_and_exit_code_2(
        self, started: list[AgentSettings], capsys: pytest.CaptureFixture[str], flags: list[str], complaint: str
    ) -> None:
        assert run(*FLAGS, *flags) == 2
        streams = capsys.readouterr()
        assert streams.out == ""
        assert streams.err.startswith("error: ")
        assert streams.err.count("\n") == 1
        assert complaint in streams.err
        assert not started

    @pytest.mark.parametrize("missing", ["--id", "--listen", "--environment"])
    def test_what_must_be_said_is_asked_for(
        self, started: list[AgentSettings], capsys: pytest.CaptureFixture[str], missing: str
    ) -> None:
        place = FLAGS.index(missing)
        assert run(*FLAGS[:place], *FLAGS[place + 2 :]) == 2
        assert f"error: Missing option '{missing}'" in capsys.readouterr().err

    def test_all_faults_are_told_together(
        self, started: list[AgentSettings], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(*FLAGS, "--gamma", "-1", "--v", "2") == 2
        line = capsys.readouterr().err
        assert "--gamma" in line
        assert "--v" in line


@pytest.mark.system
class TestFailedStart:
    """As real processes: what an operator or a supervisor sees."""

    def fails(self, *arguments: str) -> tuple[int, str]:
        """The exit code and the one complaint; whatever else is on standard error must be log lines."""
        with Process(*arguments) as process:
            code = process.wait()
        lines = process.errors.splitlines()
        complaints = [line for line in lines if line.startswith("error: ")]
        assert len(complaints) == 1, process.errors
        for line in lines:
            assert line in complaints or json.loads(line)["event"], "neither a complaint nor a log line"
        assert process.output == ""
        return code, complaints[0]

    def test_flags_that_make_no_sense(self) -> None:
        code, line = self.fails(*FLAGS, "--gamma", "-1")
        assert (code, line) == (2, "error: --gamma must be in 0…65535, got -1")

    def test_an_occupied_port(self) -> None:
        listen = free_address()
        with zmq.Context() as context, context.socket(zmq.REP) as other:
            other.bind(listen)
            code, line = self.fails(*agent_arguments(1, listen, free_address(), {}, ready_timeout=1))
        assert code == 78
        assert line == f"error: cannot listen on {listen}: address already in use; choose another address with --listen"

    def test_an_environment_that_does_not_answer(self) -> None:
        nobody = free_address()
        code, line = self.fails(*agent_arguments(1, free_address(), nobody, {}, ready_timeout=1))
        assert code == 69
        assert line == (f"error: the environment at {nobody} did not answer within 1 s; is `agentd env` running there?")

    def test_a_neighbour_that_does_not_answer(self) -> None:
        nobody = free_address()
        with StandIn(free_address()) as environment:
            code, line = self.fails(
                *agent_arguments(1, free_address(), environment.address, {2: nobody}, ready_timeout=1)
            )
        assert code == 1
        assert line == (
            f"error: neighbours did not answer within 1 s: 2 ({nobody}); "
            "are they running, and do their --peers name agent 1?"
        )

    def test_arms_of_its_own_without_terms(self) -> None:
        code, line = self.fails(*agent_arguments(1, free_address(), "exec:./arms.sh", {}))
        assert code == 2
        assert line == (
            "error: --environment names arms of this agent's own: then --terms FILE must say what is agreed on"
        )

    def test_a_log_that_cannot_be_written(self, tmp_path: Path) -> None:
        code, line = self.fails(*FLAGS, "--log-file", str(tmp_path))
        assert (code, line) == (78, f"error: cannot write the log {tmp_path}: {os.strerror(21)}")

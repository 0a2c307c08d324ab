"""A shared environment whose arms are real: pulls wait for them, each is asked once, and nobody knows the regret."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from arm_server import PayingServer
from click.testing import CliRunner, Result
from evidence import until
from loopback import events, free_address

from agentd.cli import cli
from agentd.errors import ConfigurationError
from agentd.runs.status import read_status

ARM = """
import sys
with open(sys.argv[1], "a") as journal:
    for line in sys.stdin:
        arm, trial, agent = line.split()
        journal.write(f"{agent} {trial} {arm}\\n")
        journal.flush()
        print([0.2, 0.9, 0.5][int(arm)], trial, flush=True)
"""


def invoked(*words: str) -> Result:
    return CliRunner().invoke(cli, ["env", *words])


@pytest.mark.system
def test_agents_share_a_command_and_every_pull_is_asked_once_also_over_a_crash(tmp_path: Path) -> None:
    (tmp_path / "arm.py").write_text(ARM, encoding="ascii")
    command = f"{sys.executable} -S {tmp_path / 'arm.py'} {tmp_path / 'asked'}"
    run_dir, listen = tmp_path / "run", free_address()
    flags = ("--exec", command, "--random-arms", "3", "--agents", "2", "--rounds", "400", "--run-dir", str(run_dir))
    places = [free_address(), free_address()]

    def asked() -> list[str]:
        place = tmp_path / "asked"
        return place.read_text(encoding="ascii").splitlines() if place.exists() else []

    with EnvironmentProcess(*flags, "--listen", listen, "--log-file", str(tmp_path / "env.jsonl")) as environment:
        agents = [
            Process(
                *agent_arguments(
                    own,
                    places[own],
                    listen,
                    {1 - own: places[1 - own]},
                    algorithm="sealed",
                    gamma=1,
                    epsilon=4,
                    log_file=tmp_path / f"log-{own}.jsonl",
                )
            )
            for own in range(2)
        ]
        until(lambda: len(asked()) > 60)
        environment.kill()
    status = read_status(run_dir)
    assert status is not None
    assert status.group_regret != status.group_regret, "which nobody knows"
    with EnvironmentProcess(*flags, "--listen", listen, "--log-file", str(tmp_path / "env.jsonl")) as environment:
        for agent in agents:
            assert agent.wait() == 0, agent.errors
        summary = environment.end()
    assert summary["pulls"] == 800
    assert summary["group_regret"] is None
    assert (summary["favoured"], summary["arm_faults"]) == (1, {})
    times = Counter(line.rpartition(" ")[0] for line in asked())
    assert len(times) == 800
    assert sum(times.values()) <= 802, "only pulls that were under way at the crash are asked for again"
    arms = {line.rpartition(" ")[0]: set[str]() for line in asked()}
    for line in asked():
        arms[line.rpartition(" ")[0]].add(line.rpartition(" ")[2])
    assert all(len(each) == 1 for each in arms.values()), "with the same arm"
    assert "exec:" not in json.dumps(json.loads((run_dir / "environment.json").read_text(encoding="utf-8")))


@pytest.mark.system
def test_an_endpoint_is_told_whose_pull_it_is_and_what_fails_is_counted(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with (
        PayingServer(lambda asked: 7.0 if asked["trial"] == 3 else 0.5) as server,
        EnvironmentProcess(
            "--endpoint", server.address, "--random-arms", "2", "--agents", "1", "--rounds", "8"
        ) as served,
        Process(*agent_arguments(0, free_address(), served.address, {}, algorithm="ucb1", log_file=log)) as agent,
    ):
        assert agent.wait() == 0, agent.errors
        summary = served.end()
        assert [(asked["agent"], asked["trial"]) for asked in server.requests] == [(0, trial) for trial in range(1, 9)]
    assert summary["arm_faults"] == {"range": 1}
    assert events(log, "done")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--exec", "true"), "how many real arms"),
        (("--exec", "true", "--endpoint", "http://hub/", "--random-arms", "2"), "give one of them"),
        (("--exec", "true", "--arms", "0.5,0.5"), "no means"),
        (("--exec", "'unclosed", "--random-arms", "2"), "not a command"),
        (("--endpoint", "ftp://hub/", "--random-arms", "2"), "not an address"),
        (("--exec", "true", "--random-arms", "2", "--arm-timeout", "0"), "--arm-timeout"),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], said: str) -> None:
    assert said in str(invoked(*words).exception)


def test_a_file_of_settings_names_no_code_here_either(tmp_path: Path) -> None:
    config = tmp_path / "env.toml"
    config.write_text('exec = "touch never"\nrandom-arms = 2\n', encoding="utf-8")
    assert isinstance(invoked("--config", str(config)).exception, ConfigurationError)

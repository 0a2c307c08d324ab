"""How a run is doing, for people and programs: testbeds, lone environments and agents; who lags; again and again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from click.testing import CliRunner
from evidence import until
from loopback import free_address

from agentd.cli import cli
from agentd.cli.watching.agent_rows import MOST_ROWS, rows_of, rows_text
from agentd.runs.status import AgentStatus, Status


def status(*agents: AgentStatus) -> Status:
    return Status(rounds=None, agents=agents, group_regret=0.0, pulls=0, pulls_per_s=0.0)


def agent(number: int, round_: int, **more: Any) -> AgentStatus:
    return AgentStatus(**{"id": number, "trial": round_, "round": round_, "last_seen_s_ago": 0.1, **more})


class TestRows:
    def test_each_agent_is_told_by_one_word(self) -> None:
        rows = rows_of(
            status(
                agent(0, 100),
                agent(1, 91),
                agent(2, 90),
                agent(3, 50, done=True),
                agent(4, 0, last_seen_s_ago=None),
                agent(5, 99),
                agent(6, 99, last_seen_s_ago=11.0),
            ),
            down=[5],
        )
        assert [row["is"] for row in rows] == ["well", "well", "lags", "done", "not seen", "down", "silent"]
        assert [row["lag"] for row in rows] == [0, 9, 10, 0, 100, 1, 1]

    def test_a_status_that_was_written_long_ago_makes_everybody_silent(self) -> None:
        assert [row["is"] for row in rows_of(status(agent(0, 5), agent(1, 5)), age_s=60.0)] == ["silent", "silent"]

    def test_who_lags_most_comes_first_and_a_crowd_is_cut(self) -> None:
        lines = rows_text(rows_of(status(*(agent(number, number) for number in range(100)))))
        assert len(lines) == MOST_ROWS + 2
        assert lines[1].split()[:4] == ["0", "lags", "0", "99"]
        assert lines[-1] == "and 80 more, who lag no more than these; --json has them all"
        assert rows_text([]) == []


def shown(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["status", *arguments])
    assert done.exit_code == 0, done.exception
    return done.stdout


@pytest.mark.system
def test_a_lone_environment_and_a_lone_agent_are_watched_by_their_directories(tmp_path: Path) -> None:
    run, kept = tmp_path / "run", tmp_path / "state"
    with EnvironmentProcess("--arms", "0.9,0.1", "--agents", "2", "--run-dir", str(run)) as environment:
        flags = {"algorithm": "sealed", "rounds": 30, "state": kept}
        with Process(*agent_arguments(0, free_address(), environment.address, {}, **flags)) as playing:
            assert playing.wait() == 0, playing.errors
        found = until(lambda: (told := json.loads(shown(str(run), "--json")))["rows"][0]["is"] == "done" and told)
        assert [row["is"] for row in found["rows"]] == ["done", "not seen"]
        assert (found["state"], found["pulls"], found["rows"][1]["lag"]) == ("running", 30, 30)
        assert "environment     running" in shown(str(run))
        held = json.loads(shown(str(kept), "--json"))
        assert (held["agent"], held["trial"], held["spent"]) == (0, 30, 1.0)
        assert "trial           30 of 30" in shown(str(kept))
        watching = subprocess.Popen(
            [sys.executable, "-m", "agentd", "status", str(run), "--watch", "--json", "--every", "0.05"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        assert [json.loads(watching.stdout.readline())["state"] for _ in range(3)] == ["running"] * 3
        environment.end()
    with watching:
        last = watching.stdout.read().splitlines()[-1]
    assert (watching.returncode, json.loads(last)["state"]) == (0, "ended")  # it ends with what it watches


@pytest.mark.system
def test_ctrl_c_is_the_usual_end_of_watching(tmp_path: Path) -> None:
    with (
        EnvironmentProcess("--arms", "0.9,0.1", "--run-dir", str(tmp_path / "run")),
        subprocess.Popen(
            [sys.executable, "-m", "agentd", "status", str(tmp_path / "run"), "--watch"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as watching,
    ):
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("run directory")
        watching.send_signal(signal.SIGINT)
        _, complaints = watching.communicate(timeout=60)
    assert (watching.returncode, complaints) == (0, "")


def test_a_directory_that_holds_nothing_is_told_what_it_lacks(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["status", str(tmp_path)])
    assert "no testbed.json, no status.json and no ledger.db in it" in str(done.exception)
    assert getattr(done.exception, "exit_code", None) == 78


@pytest.mark.parametrize("every", ["0", "-1", "nan", "1e9"])
def test_nobody_looks_without_pause(every: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["status", str(tmp_path), "--watch", "--every", every])
    assert getattr(done.exception, "exit_code", None) == 2


@pytest.mark.parametrize("content", ["", "[]", "{", '{"agents": [[]]}', '{"written": "x"}'])
def test_a_status_that_is_none_is_told(content: str, tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text(content)
    done = CliRunner().invoke(cli, ["status", str(tmp_path)])
    assert "cannot be read" in str(done.exception)
    (tmp_path / "status.json").unlink()
    os.mkfifo(tmp_path / "status.json")
    assert "cannot be read" in str(CliRunner().invoke(cli, ["status", str(tmp_path)]).exception)


@pytest.mark.parametrize("name", ["status.json", "ledger.db"])
def test_a_link_and_a_directory_that_others_may_write_to_are_refused(name: str, tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir(mode=0o700)
    (place / name).write_text("{}")
    (tmp_path / "link").symlink_to(place)
    for verb in (["status"], ["state", "show"], ["state", "export"]):
        refused = CliRunner().invoke(cli, [*verb, str(tmp_path / "link")])
        assert getattr(refused.exception, "exit_code", None) == 78
        assert "link" in str(refused.exception)
    place.chmod(0o777)
    for verb in (["status"], ["state", "show"]):
        refused = CliRunner().invoke(cli, [*verb, str(place)])
        assert "others may write" in str(refused.exception) or "written by others" in str(refused.exception)

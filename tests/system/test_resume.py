"""Runs that lose their supervisor, and whatever else of them, and are taken up again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from evidence import until
from running_testbeds import CONTRACT, PATIENT, agentd, agentd_json, end_all, nothing_runs, pids_of, read_json, start

from deploy.testbed.control import restart_agent
from deploy.testbed.process_marks import ProcessMark

pytestmark = pytest.mark.system

AGENTS, ROUNDS = 5, 600
FLAGS = ("--agents", str(AGENTS), "--edge-probability", "0.6", "--rounds", str(ROUNDS), *PATIENT)
FLAGS += ("--algorithm", "private-ucb")  # rounds of sealed are over sooner than a test can kill in the middle of them
TAKEN_UP = "taken up again after its supervisor died"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory, in a world where no other testbed exists; whatever a test leaves running is ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "run"
    end_all()


def crashed(place: Path, *flags: str, everything: bool) -> list[int]:
    """A run whose supervisor, or every process, was killed in the middle; the trials that were made until then."""
    supervisor = agentd_json("up", *FLAGS, *flags, "--detach", "--run-dir", str(place))["supervisor"]
    until(lambda: min(trials(place)) > 20)
    pids = pids_of(place)
    dying = [mark for pid in [supervisor, *(pids if everything else [])] if (mark := ProcessMark.of(pid)) is not None]
    for mark in dying:
        os.kill(mark.pid, signal.SIGKILL)
    until(lambda: not any(mark.is_running() for mark in dying))
    return trials(place)


def trials(place: Path) -> list[int]:
    agents = (read_json(place / "status.json") or {"agents": []})["agents"]
    return [int(agent["trial"]) for agent in agents] or [0]


def require_whole(place: Path, before: list[int]) -> None:
    """The run is as long as it should be, and no pull of the time before was made again."""
    with np.load(place / "pulls.npz") as file:
        assert (file["arm"] != 65_535).sum(axis=1).tolist() == [ROUNDS] * AGENTS
    assert (place / "pulls.journal").stat().st_size == 32 + 16 * AGENTS * ROUNDS
    assert max(before) < ROUNDS, "it was over before it was killed"
    assert {path.name for path in place.iterdir()} >= CONTRACT


@pytest.mark.parametrize("everything", [False, True], ids=["supervisor", "everything"])
@pytest.mark.parametrize("algorithm", ["private-ucb", "coop-ucb"], ids=["with state", "without state"])
def test_a_run_that_lost_its_supervisor_is_taken_up_and_finished(algorithm: str, everything: bool, place: Path) -> None:
    before = crashed(place, "--algorithm", algorithm, everything=everything)
    summary = agentd_json("up", "--resume", str(place))
    assert (summary["agents_lost"], summary["failure"], summary["rounds"]) == ([], "", ROUNDS)
    assert (summary["rounds_made"], summary["yardstick"]["rounds"], summary["yardstick"]["left_out"]) == (
        ROUNDS,
        ROUNDS,
        {},
    )
    assert TAKEN_UP in [fault["what"] for fault in summary["faults"]]
    assert summary["messages"] > 0
    require_whole(place, before)
    pids = pids_of(place)
    assert nothing_runs(pids)
    over = agentd("up", "--resume", str(place), code=78)
    assert over.stderr == f"error: the run in {place} is over; start another one with agentd up\n"


def test_a_run_can_be_taken_up_twice_and_beside_the_terminal(place: Path) -> None:
    before = crashed(place, everything=False)
    again = agentd_json("up", "--resume", str(place), "--detach")
    assert again["failure"] == ""
    refused = agentd("up", "--resume", str(place), code=1)
    assert f"has a supervisor: process {again['supervisor']}" in refused.stderr
    os.kill(again["supervisor"], signal.SIGKILL)
    with start("up", "--resume", str(place)) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert [fault["verb"] for fault in read_json(place / "summary.json")["faults"]] == ["resume", "resume"]
    require_whole(place, before)


def test_what_cannot_be_taken_up_is_refused_with_one_line(place: Path, tmp_path: Path) -> None:
    crashed(place, everything=True)
    (tmp_path / "link").symlink_to(place)
    (tmp_path / "empty").mkdir()
    for run_dir, why in (("link", "it is a link"), ("empty", "holds no testbed"), ("nowhere", "No such file")):
        refused = agentd("up", "--resume", run_dir, code=78)
        assert why in refused.stderr
        assert refused.stderr.count("\n") == 1
    both = agentd("up", "--resume", str(place), "--agents", "3", code=2)
    assert "leave out --agents" in both.stderr
    plan = place / "plan.json"
    kept = plan.read_text(encoding="utf-8")
    plan.unlink()
    plan.symlink_to(place / "manifest.json")
    assert "plan.json is a link" in agentd("up", "--resume", str(place), code=78).stderr
    plan.unlink()
    plan.write_text(json.dumps({**json.loads(kept), "agents": []}), encoding="utf-8")
    assert "plan.json is damaged" in agentd("up", "--resume", str(place), code=78).stderr
    plan.write_text(kept, encoding="utf-8")
    (place / "environment.json").unlink()
    assert "had not begun" in agentd("up", "--resume", str(place), code=78).stderr
    assert "nothing of it was running any more" in agentd("down", str(place)).stdout


def test_seats_are_the_launchers_to_give_and_survive_the_state(place: Path) -> None:
    """Secrets are in files of their own and nowhere else, and a stateless agent comes back with its own."""
    flags = ("--algorithm", "coop-ucb", "--round-timeout", "2", "--rounds", "100000")
    agentd_json("up", *FLAGS, *flags, "--detach", "--run-dir", str(place))
    until(lambda: min(trials(place)) > 20)
    restart_agent(place, 1)
    before = trials(place)[1]
    until(lambda: trials(place)[1] > before)
    secrets = [(place / "seats" / f"agent-{agent}" / "seat").read_text(encoding="ascii").strip() for agent in range(5)]
    assert len({bytes.fromhex(secret) for secret in secrets}) == AGENTS
    agentd("down", str(place))
    elsewhere = [path for path in place.rglob("*") if path.is_file() and place / "seats" not in path.parents]
    written = [path.read_bytes() for path in elsewhere]
    assert len(written) > 10
    for secret in secrets:
        assert not any(secret.encode() in content or bytes.fromhex(secret) in content for content in written)
    private = [place / "seats.jsonl", *(place / "seats").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in private if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in [place / "seats", *private] if path.is_dir()} == {0o700}

"""Run directories that somebody sent, or that another user made: looked at in bounded time and room, never believed.

Nothing here is stood in for: real pipes, links, files and processes. A verb that waits for a pipe fails by its timeout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from held_logs import working_for
from other_user import NOBODY

from agentd.cli import cli
from deploy.testbed.process_marks import ProcessMark, boot_id

pytestmark = pytest.mark.timeout(60)

AGENTS = 3
ESCAPE = "\x1b[2J\x9b2J\u202egone"
MOST_MEGABYTES = 120
"""Of all looks together; their errors keep what they looked at."""
READING = (["status"], ["ps"], ["logs", "--run-dir"], ["chaos", "history", "--run-dir"])
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")


@pytest.fixture(autouse=True)
def _state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours that has nothing to do with any testbed."""
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        yield process
        process.kill()


def mark(pid: int) -> dict[str, int]:
    """What every user of the machine can read about a process of any other."""
    found = ProcessMark.of(pid)
    assert found is not None
    return found.to_json()


def sent(tmp_path: Path, **changes: Any) -> Path:
    """A directory as an attacker would pack it."""
    place = tmp_path / "sent"
    (place / "logs").mkdir(parents=True)
    (place / "chaos").mkdir()
    about = {
        "run": "ab" * 8,
        "created": 1.0,
        "agents": AGENTS,
        "state": "running",
        "boot": boot_id(),
        "runtime": "local",
        "supervisor": {"pid": 2**22 - 1, "started": 5},
        "children": {},
    }
    (place / "testbed.json").write_text(json.dumps({**about, **changes}), encoding="utf-8")
    return place


def run(*words: str | Path) -> Result:
    """A verb as on a terminal: what it prints is not cleaned on the way."""
    return CliRunner().invoke(cli, [str(word) for word in words], color=True)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


# Processes and containers of others


@pytest.mark.parametrize("role", ["supervisor", "child"])
def test_down_ends_no_process_that_a_directory_merely_names(
    role: str, tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    named = mark(bystander.pid)
    place = sent(tmp_path, **({"supervisor": named} if role == "supervisor" else {"children": {"agent-0": named}}))
    assert "nothing of it was running" in run("down", place).output
    assert bystander.poll() is None
    assert json.loads(run("ps", place, "--json").output)[0]["processes"][0]["running"] is False


def test_chaos_stops_no_process_that_a_directory_merely_names(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    place = sent(tmp_path, supervisor=mark(os.getpid()), children={"agent-0": mark(bystander.pid)})
    refused = run("chaos", "pause", "0", "--run-dir", place)
    assert "no testbed is running" in str(refused.exception)
    (place / "logs" / "supervisor.log").touch()
    with working_for(place):  # even where this process works for it, the bystander does not
        refused = run("chaos", "pause", "0", "--run-dir", place)
    assert "agent 0 is not running" in str(refused.exception)
    assert state_of(bystander.pid) != "T"


def test_whoever_works_for_a_testbed_is_found(tmp_path: Path) -> None:
    place = sent(tmp_path, supervisor=mark(os.getpid()), children={"agent-0": mark(os.getpid())})
    with working_for(place):
        (listed,) = json.loads(run("ps", place, "--json").output)
    assert [(one["name"], one["running"]) for one in listed["processes"]] == [("supervisor", True), ("agent-0", True)]


# Directories of others


@as_root
@pytest.mark.parametrize(
    "verb",
    [
        *(*READING, ["down"], ["ledger"], ["up", "--resume"]),
        *(["chaos", "heal", "--run-dir"], ["env", "release", "0", "--run-dir"]),
    ],
    ids=" ".join,
)  # fmt: skip
def test_nothing_is_done_in_a_directory_of_another_user_or_one_that_others_may_write_to(
    verb: list[str], tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    place = sent(tmp_path, children={"agent-0": mark(bystander.pid)})
    precious = tmp_path / "precious"
    precious.write_text("precious", encoding="utf-8")
    for name in ("faults.jsonl", "status.json", "logs/supervisor.log", "logs/stderr.log"):
        (place / name).symlink_to(precious)
    os.chown(place, NOBODY, NOBODY)
    before = sorted(path.name for path in place.rglob("*"))
    refused = run(*verb, place)
    assert "belongs to another user" in str(refused.exception)
    assert getattr(refused.exception, "exit_code", None) == 78
    os.chown(place, 0, 0)
    place.chmod(0o777)
    assert "others may write to" in str(run(*verb, place).exception)
    assert precious.read_text(encoding="utf-8") == "precious"
    assert sorted(path.name for path in place.rglob("*")) == before
    assert bystander.poll() is None


@as_root
def test_no_run_begins_in_a_directory_of_another_user_or_behind_a_link(tmp_path: Path) -> None:
    theirs, mine, link = tmp_path / "theirs", tmp_path / "mine", tmp_path / "link"
    theirs.mkdir()
    mine.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    link.symlink_to(mine)
    small = ("simulate", "--agents", "2", "--edge-probability", "1", "--rounds", "2")
    assert "belongs to another user" in str(run(*small, "--run-dir", theirs).exception)
    assert "it is a link" in str(run(*small, "--run-dir", link).exception)
    assert "belongs to another user" in str(run("experiment", "fig1a", "--trials", "1", "--out", theirs).exception)
    assert [*theirs.iterdir(), *mine.iterdir()] == []


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_a_simulation_leaves_nothing_that_others_may_read(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    place = tmp_path / "runs" / "one"
    try:
        assert run("simulate", "--agents", "2", "--edge-probability", "1", "--rounds", "2", "--run-dir", place)
    finally:
        os.umask(before)
    made = [place.parent, place, *place.rglob("*")]
    assert len(made) > 5
    assert [path for path in made if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("name", ["logs", "state", "seats/agent-0", "logs/agent-1.jsonl"])
def test_a_run_that_leads_elsewhere_by_a_link_is_not_taken_up(name: str, tmp_path: Path) -> None:
    place, elsewhere = sent(tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (place / "seats").mkdir()
    if name == "logs":
        (place / name).rmdir()
    (place / name).symlink_to(elsewhere)
    assert f"{name} is a link" in str(run("up", "--resume", place).exception)
    assert list(elsewhere.iterdir()) == []


# Hostile files


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def without_end(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def deep(path: Path) -> None:
    path.write_text('{"rounds":' * 900 + "1" + "}" * 900, encoding="utf-8")


def broad(path: Path) -> None:
    path.write_bytes(b"[" + b"[]," * 4_000_000 + b"1]")


@pytest.mark.parametrize("hostile", [a_pipe, a_device, without_end, deep, broad])
@pytest.mark.parametrize(
    "name", ["status.json", "summary.json", "topology.json", "faults.jsonl", "logs/agent-0.jsonl", "testbed.json"]
)
def test_looking_at_a_hostile_file_takes_neither_for_ever_nor_all_memory(
    name: str, hostile: Callable[[Path], None], tmp_path: Path
) -> None:
    place = sent(tmp_path)
    (place / "status.json").write_text(json.dumps(status(blamed={"slow": [1]})), encoding="utf-8")
    (place / name).unlink(missing_ok=True)
    hostile(place / name)
    tracemalloc.start()
    for verb in READING:
        for flags in ([], ["--json"]):
            done = run(*verb, place, *flags)
            refused = getattr(done.exception, "exit_code", None) == 78
            assert done.exit_code == 0 or (refused and name == "testbed.json"), done.exception
            if flags and not refused:
                assert all(json.loads(line) is not None for line in done.output.splitlines())
    peak = tracemalloc.get_traced_memory()[1] >> 20
    tracemalloc.stop()
    assert peak < MOST_MEGABYTES


def status(**changes: Any) -> dict[str, Any]:
    agents = [{"id": own, "trial": 1, **changes} for own in range(AGENTS)]
    return {"rounds": 9, "group_regret": 0.0, "pulls": 1, "pulls_per_s": 1.0, "agents": agents}


@pytest.mark.parametrize(
    "content",
    [
        {**status(), "rounds": "many"}, {**status(), "agents": 7}, {**status(), "pulls": 10**400}, status(trial=1.5),
        status(blamed={"slow": "x"}), status(trial=True), {**status(), "group_regret": "much"}, [], None, "x",
    ],
    ids=lambda content: repr(content)[:40],
)  # fmt: skip
def test_a_status_of_wrong_types_is_taken_for_none(content: Any, tmp_path: Path) -> None:
    place = sent(tmp_path)
    (place / "status.json").write_text(json.dumps(content), encoding="utf-8")
    assert "round           0\n" in run("status", place).output


@pytest.mark.parametrize(
    "changes",
    [{"agents": 20_000_000}, {"agents": -1}, {"agents": 1.5}, {"created": 1e300}, {"created": float("nan")},
     {"run": ESCAPE}, {"boot": "x" * 1000}, {"children": {ESCAPE: {"pid": 5, "started": 1}}}, {"project": 7},
     {"children": {"agent-3": {"pid": 5, "started": 1}}}, {"children": {"agent-00": {"pid": 5, "started": 1}}},
     {"children": {"agent-0": {"pid": 1, "started": 1}}}, {"runtime": ESCAPE}],
    ids=lambda changes: repr(changes)[:40],
)  # fmt: skip
def test_a_testbed_that_cannot_be_is_refused_in_one_printable_line(changes: dict[str, Any], tmp_path: Path) -> None:
    place = sent(tmp_path, **changes)
    for verb in READING:
        refused = run(*verb, place)
        assert getattr(refused.exception, "exit_code", None) == 78


def test_no_verb_prints_what_drives_a_terminal(tmp_path: Path) -> None:
    place = sent(tmp_path)
    (place / "summary.json").write_text(json.dumps({"failure": ESCAPE}), encoding="utf-8")
    blamed = {**status(blamed={ESCAPE: [1, 2]}), "refused": {ESCAPE: 1}}
    (place / "status.json").write_text(json.dumps(blamed), encoding="utf-8")
    faults = {"at": ESCAPE, "round": 1, "what": ESCAPE, "verb": ESCAPE, "parameters": {ESCAPE: ESCAPE}}
    (place / "faults.jsonl").write_text(json.dumps(faults) + "\n", encoding="utf-8")
    logged = {"timestamp": ESCAPE, "agent": ESCAPE, "role": ESCAPE, "level": ESCAPE, ESCAPE: ESCAPE}
    lines = f"{ESCAPE}\n{json.dumps(logged, ensure_ascii=False)}\n" + json.dumps({"level": [1], "event": {}}) + "\n"
    (place / "logs" / "agent-0.jsonl").write_text(lines, encoding="utf-8")
    for verb in READING:
        for flags in ([], ["--json"]):
            done = run(*verb, place, *flags)
            assert done.exit_code == 0, done.exception
            assert done.output.replace("\n", "").isprintable()
            for line in done.output.splitlines() if flags else ():
                json.loads(line)


def test_an_error_that_quotes_a_file_does_not_drive_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from agentd.cli import main

    place = tmp_path / ESCAPE
    place.mkdir()
    with pytest.raises(SystemExit):
        main(["status", str(place)])
    assert capsys.readouterr().err.replace("\n", "").isprintable()


def test_a_line_without_end_is_cut_and_a_log_without_end_read_from_its_end(tmp_path: Path) -> None:
    place = sent(tmp_path)
    log = place / "logs" / "agent-0.jsonl"
    without_end(log)
    with log.open("ab") as file:
        file.write(b"\n" + b"x" * 100_000 + b'\n{"event": "last"}\n')
    lines = run("logs", "0", "--run-dir", place).output.splitlines()
    assert "last" in lines[-1]
    assert len(lines[-2]) == (16 << 10) + 1

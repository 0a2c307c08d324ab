"""A supervisor that outlives its command, and what the command hears of it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.children import FAILURES, failures
from deploy.testbed.process_marks import ProcessMark, wait_for

PATIENCE_S = 120.0
"""More than anything here takes, even on a busy machine: reaching it is a failure."""

PROGRAM = """
import os, signal, sys
from pathlib import Path
from deploy.testbed.detach import detached

def work(tell):
    print("about to work", flush=True)
    {work}

print(detached(work, Path(sys.argv[1])))
"""


def command(work: str, log: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(work=work), str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def test_the_command_returns_with_the_first_news_while_the_work_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "facts.json"
    work = (
        f"Path({str(place)!r}).write_text(f'[{{os.getpid()}}, {{os.getsid(0)}}]'); "
        "tell({'failure': ''}); tell({'second': 1}); signal.pause()"
    )
    with command(work, tmp_path / "log") as process:
        out, complaint = process.communicate(timeout=PATIENCE_S)
    assert out == "{'failure': ''}\n", complaint
    pid, session = json.loads(place.read_text(encoding="utf-8"))
    daemon = ProcessMark.of(pid)
    assert daemon is not None
    assert daemon.is_running()
    assert session not in (pid, os.getsid(0)), "a session of its own, which it does not lead"
    assert (tmp_path / "log").read_text(encoding="utf-8") == "about to work\n"
    os.kill(pid, signal.SIGTERM)
    assert wait_for([daemon], PATIENCE_S) == []


def test_a_supervisor_that_ends_without_news_is_reported_with_its_log(tmp_path: Path) -> None:
    with command("raise RuntimeError('no luck')", tmp_path / "log") as process:
        _, complaint = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert f"the supervisor ended before the testbed ran; see {tmp_path / 'log'}" in complaint
    assert "RuntimeError: no luck" in (tmp_path / "log").read_text(encoding="utf-8")


def test_ctrl_c_while_waiting_takes_the_supervisor_along(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    work = f"Path({str(started)!r}).write_text(str(os.getpid())); signal.pause()"
    with command(work, tmp_path / "log") as process:
        daemon = ProcessMark.of(int(started.read_text(encoding="ascii")))  # a fifo: waits until it is written
        assert daemon is not None
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert wait_for([daemon], PATIENCE_S) == []


INTERRUPTED = """
import os, signal
really_fork = os.fork

def fork():
    child = really_fork()
    if child:
        signal.raise_signal(signal.SIGINT)  # before anybody knows the supervisor's number
    return child

os.fork = fork
"""


def test_ctrl_c_while_the_supervisor_is_being_made_takes_it_along_too(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    program = INTERRUPTED + PROGRAM.format(work="signal.pause()")
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "log")], pass_fds=[writing], stderr=subprocess.PIPE
    ) as process:
        os.close(writing)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert select.select([reading], [], [], PATIENCE_S)[0], "the supervisor, which holds the other end, lives on"
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_the_last_words_of_children_are_found_among_nonsense(tmp_path: Path) -> None:
    assert failures(tmp_path) == {}
    (tmp_path / "logs").mkdir()
    lines = ["", "nonsense", "[]", '{"name": "agent-1"}', '{"name": "agent-1", "error": "first"}']
    lines.append('{"name": "agent-1", "error": "last", "exit_code": 78}')
    (tmp_path / FAILURES).write_text("\n".join(lines), encoding="utf-8")
    assert failures(tmp_path) == {"agent-1": "last"}


@pytest.mark.parametrize("work", ["tell({'exit_code': 1}); os._exit(0)", "tell({'exit_code': 1}); raise SystemExit(3)"])
def test_news_count_even_if_the_supervisor_ends_at_once(work: str, tmp_path: Path) -> None:
    with command(work, tmp_path / "log") as process:
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert out == "{'exit_code': 1}\n"

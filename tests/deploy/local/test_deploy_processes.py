"""Processes are known by number and start, so nobody is mistaken for a later one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from deploy.testbed.process_marks import ProcessMark, send, stop, wait_for

SLEEPER = "import signal; print('up', flush=True); signal.pause()"
STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\nwhile 1: signal.pause()"
)


def start(program: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    with start(SLEEPER) as process:
        yield process
        process.kill()


def mark_of(process: subprocess.Popen[str]) -> ProcessMark:
    mark = ProcessMark.of(process.pid)
    assert mark is not None
    return mark


def test_a_mark_follows_its_process_until_it_ends(sleeper: subprocess.Popen[str]) -> None:
    mark = mark_of(sleeper)
    assert mark.is_running()
    assert mark.parent() == os.getpid()
    assert send(mark, signal.SIGTERM)
    assert wait_for([mark], 120.0) == []
    assert not mark.is_running(), "a process that nobody has waited for yet does not run"
    sleeper.wait()
    assert ProcessMark.of(sleeper.pid) is None
    assert mark.parent() is None
    assert not send(mark, signal.SIGTERM)


def test_a_process_that_got_an_old_number_is_left_alone(sleeper: subprocess.Popen[str]) -> None:
    real = mark_of(sleeper)
    earlier = replace(real, started=real.started - 1)
    assert not earlier.is_running()
    assert not send(earlier, signal.SIGKILL)
    assert stop([earlier], 0.1) == []
    assert wait_for([earlier], 120.0) == [], "whoever is gone need not be waited for"
    assert real.is_running()


def test_waiting_ends_with_those_that_run_on(sleeper: subprocess.Popen[str]) -> None:
    mark = mark_of(sleeper)
    assert wait_for([mark], 0.01) == [mark]


def test_whoever_ignores_sigterm_is_killed_after_the_grace() -> None:
    with start(STUBBORN) as stubborn, start(SLEEPER) as polite:
        marks = [mark_of(stubborn), mark_of(polite)]
        assert stop(marks, 0.3) == marks
        assert (stubborn.wait(), polite.wait()) == (-signal.SIGKILL, -signal.SIGTERM)


@pytest.mark.parametrize(
    "data",
    [None, 7, [], {}, {"pid": 5}, {"pid": "5", "started": 1}, {"pid": 1, "started": 1}, {"pid": -1, "started": 1},
     {"pid": 0, "started": 1}, {"pid": 5, "started": -1}, {"pid": 5.0, "started": 1}],
)  # fmt: skip
def test_what_is_no_mark_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="not the mark of a process"):
        ProcessMark.from_json(data)


def test_a_mark_survives_being_written_down() -> None:
    own = ProcessMark.own()
    assert ProcessMark.from_json(own.to_json()) == own
    assert own.pid == os.getpid()
    assert own.is_running()

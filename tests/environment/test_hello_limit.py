"""Hellos beyond what an honest agent says are not answered, and cost next to nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import zmq
from env_clients import ask, dealers, hello, pull, receive, send, serving
from hypothesis import given
from hypothesis import strategies as st

from agentd.environment.hello_limit import BURST, HelloLimit
from agentd.wire.codec import encode_environment
from agentd.wire.environment_messages import Ping, Pong, Refused, Reward, Welcome

FLAGS = ("--arms", "0.9,0.5", "--agents", "3", "--rounds", "100000", "--seed", "7")
MOST_MB = 50
LONGEST_S = 0.5


def test_an_agent_may_start_again_a_few_times_and_then_once_a_second() -> None:
    limit = HelloLimit()
    assert [limit.allows(1, 5.0) for _ in range(10)] == [True] * BURST + [False] * 2
    assert limit.allows(2, 5.0), "another seat has its own"
    assert not limit.allows(1, 5.5)
    assert limit.allows(1, 6.0)
    assert [limit.allows(1, 100.0) for _ in range(10)] == [True] * BURST + [False] * 2


@given(st.lists(st.floats(0, 3), max_size=100))
def test_in_the_long_run_it_is_one_a_second(pauses: list[float]) -> None:
    limit, now_s, allowed = HelloLimit(), 0.0, 0
    for pause in pauses:
        now_s += pause
        allowed += limit.allows(0, now_s)
    assert allowed <= BURST + now_s + 1e-6


@given(st.lists(st.floats(1.0, 8.0), max_size=50))
def test_who_asks_again_as_agents_do_never_feels_it(pauses: list[float]) -> None:
    limit, now_s = HelloLimit(), 0.0
    for pause in pauses:
        assert limit.allows(0, now_s)
        now_s += pause


def memory_mb(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no such line")


def processor_s(process: int) -> float:
    """What it has used so far; unlike the time of day it does not depend on who else is busy."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def slowest_answer_s(process: int, flood: zmq.Socket[bytes], honest: zmq.Socket[bytes], hellos: int) -> float:
    """Ask as an honest agent does, while another connection says hello without end and reads nothing.

    How long the environment works at most before it answers.
    """
    data = encode_environment(hello(0))
    slowest_s, said = 0.0, 0
    while said < hellos:
        for _ in range(2000):
            try:
                flood.send(data, zmq.NOBLOCK)
                said += 1
            except zmq.Again:  # its queue is full: the environment is being kept busy
                break
        started_s = processor_s(process)
        assert ask(honest, Ping()) == Pong()
        slowest_s = max(slowest_s, processor_s(process) - started_s)
    return slowest_s


@pytest.mark.parametrize("hellos", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_hellos_without_end_neither_fill_the_memory_nor_hold_the_others_up(tmp_path: Path, hellos: int) -> None:
    with serving(*FLAGS, "--run-dir", str(tmp_path)) as served, dealers(served.address, 2) as [flood, honest]:
        flood.setsockopt(zmq.RCVHWM, 1)
        assert isinstance(ask(honest, hello(1)), Welcome)
        before_mb = memory_mb(served.process.pid)
        slowest_s = slowest_answer_s(served.process.pid, flood, honest, hellos)
        assert isinstance(ask(honest, pull(1, 1, 0)), Reward)
        assert memory_mb(served.process.pid) - before_mb < MOST_MB
        assert slowest_s < LONGEST_S
        assert (tmp_path / "seats.journal").stat().st_size < 1000


def test_returns_without_state_are_written_down_once_a_second_at_most(tmp_path: Path) -> None:
    """HELLO without state and PULL in turn: each return is a record that waits for the disk."""
    with serving(*FLAGS, "--run-dir", str(tmp_path)) as served, dealers(served.address) as [socket]:
        trial = 0
        for _ in range(100):
            send(socket, hello(0))
            trial += 1
            if isinstance(ask_past(socket, pull(0, trial, 0)), Refused):
                trial -= 1
        written = ((tmp_path / "seats.journal").stat().st_size - 32) // 48
        assert BURST <= written < 60, "unless this took most of a minute"
        assert trial > 0


def ask_past(socket: zmq.Socket[bytes], request: object) -> object:
    """The answer to a pull; welcomes before it are passed over."""
    send(socket, request)  # type: ignore[arg-type]
    while isinstance(reply := receive(socket), Welcome):
        pass
    return reply

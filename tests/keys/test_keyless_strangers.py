"""What somebody without a key can do to the memory of who has keys: the attacks that addresses alone did not keep out.

An agent and an environment with keys, each flooded over raw TCP by ZMTP made by hand: subscriptions that differ, and a
message that never ends. Without a key none of it gets past the handshake.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
import raw_zmtp
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from env_clients import serving
from evidence import until
from keyed_world import World
from loopback import events, free_address, rss_mb

pytestmark = pytest.mark.system

MOST_MB = 20.0
WHAT = ("subscriptions", "a message that never ends")
MEGABYTES = [1, pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(600)])]

PUSH = """
import socket, sys
host, port, kind, megabytes, greeting, what = (int(word) if word.isdigit() else word for word in sys.argv[1:])
NULL = b"\\xff" + bytes(8) + b"\\x7f\\x03\\x00" + b"NULL".ljust(20, b"\\0") + bytes(32)
CURVE = b"\\xff" + bytes(8) + b"\\x7f\\x03\\x00" + b"CURVE".ljust(20, b"\\0") + bytes(32)
ready = b"\\x05READY\\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind.encode()
sent = tries = 0
while sent < megabytes << 20 and tries < 500 * megabytes:
    tries += 1
    try:
        made = socket.create_connection((host, port), timeout=10)
        made.sendall((CURVE if greeting == "CURVE" else NULL) + bytes([4, len(ready)]) + ready)
        received = b""
        while len(received) < (64 if greeting == "CURVE" else 66) and (data := made.recv(4096)):
            received += data
        number = 0
        while sent < megabytes << 20:
            if what == "subscriptions":
                parts = [b"\\x01%060d" % (number + each) for each in range(1000)]
                data = b"".join(b"\\x00" + bytes([len(part)]) + part for part in parts)
            else:
                data = b"\\x01\\x00" * 30_000
            made.sendall(data)
            sent += len(data)
            number += 1000
        made.settimeout(3)  # to close at once would take back what was not read yet
        while made.recv(1 << 16):
            pass
    except OSError:
        pass
    made.close()
print(sent, tries)
"""
"""Pushes as much as it can, connecting again whenever it is cut off, until it has sent so much or tried so often."""


@contextlib.contextmanager
def pushing(address: str, kind: str, megabytes: int, greeting: str, what: str) -> Iterator[subprocess.Popen[str]]:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    words = [sys.executable, "-c", PUSH, host, port, kind, str(megabytes), greeting, what]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as stranger:
        try:
            yield stranger
        finally:
            stranger.kill()


def grown_mb(number: int, address: str, kind: str, megabytes: int) -> float:
    """By how much a process grows, at its largest, while a stranger pushes in every way."""
    before, most = rss_mb(number), 0.0
    for greeting, what in product(("NULL", "CURVE"), WHAT):
        with pushing(address, kind, megabytes, greeting, what) as stranger:
            while stranger.poll() is None:
                most = max(most, rss_mb(number))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    stranger.wait(0.02)
    return max(most, rss_mb(number)) - before


@pytest.mark.parametrize("megabytes", MEGABYTES)
def test_without_a_key_nobody_fills_an_agent(megabytes: int, tmp_path: Path) -> None:
    world, places, log = World(tmp_path, range(2)), [free_address() for _ in range(2)], tmp_path / "log.jsonl"
    with EnvironmentProcess("--arms", "0.9,0.2", "--agents", "2", *world.flags(None)) as environment:
        arguments = agent_arguments(
            0, places[0], environment.address, {1: places[1]}, log_file=log, ready_timeout="10m"
        )
        with Process(*arguments, *world.flags(0)) as agent:
            until(lambda: events(log, "joined"))
            assert grown_mb(agent.id, places[0], "SUB", megabytes) < MOST_MB
            agent.terminate()
            assert agent.wait() == 0, agent.errors


@pytest.mark.parametrize("megabytes", MEGABYTES)
def test_without_a_key_nobody_fills_an_environment(megabytes: int, tmp_path: Path) -> None:
    world = World(tmp_path, range(2))
    with serving("--arms", "0.9,0.2", "--agents", "2", *world.flags(None)) as served:
        assert grown_mb(served.process.pid, served.address, "DEALER", megabytes) < MOST_MB
        assert served.end(signal.SIGTERM) == 0


def test_the_same_fills_an_agent_that_has_no_keys(tmp_path: Path) -> None:
    """So that the tests above can fail: the flood is one, and who is let in by address alone comes through with it."""
    places, log = [free_address() for _ in range(2)], tmp_path / "log.jsonl"
    with EnvironmentProcess("--arms", "0.9,0.2", "--agents", "2") as environment:
        arguments = agent_arguments(
            0, places[0], environment.address, {1: places[1]}, log_file=log, ready_timeout="10m"
        )
        with Process(*arguments) as agent:
            until(lambda: events(log, "joined"))
            before = rss_mb(agent.id)
            host, _, port = places[0].removeprefix("tcp://").rpartition(":")
            with raw_zmtp.stranger(host, int(port), "SUB") as stranger:
                stranger.sendall(b"\x01\x00" * 1_000_000)
                until(lambda: rss_mb(agent.id) - before > MOST_MB)

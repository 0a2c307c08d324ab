"""Environments as processes, and clients that talk to them, for several test files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq

from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import EnvironmentMessage, Hello, Pull, Report, Request

ANY_PORT = "tcp://127.0.0.1:0"
PATIENCE_S = 120.0
"""How long a test waits for what must happen; only a failing test waits that long."""

TOKEN = bytes(range(16))
"""Of everybody's seat, where a test is about something else."""


def hello(agent: int, incarnation: int | None = None, token: bytes = TOKEN) -> Hello:
    return Hello(agent, token, incarnation)


def pull(agent: int, trial: int, arm: int, *, committed: int | None = None, token: bytes = TOKEN) -> Pull:
    """As an agent asks that has committed the trial before."""
    return Pull(agent, token, trial, arm, trial - 1 if committed is None else committed)


def report(agent: int, trial: int, *counters: Any, token: bytes = TOKEN, returns: int = 0, round_: int = 0) -> Report:
    return Report(agent, token, trial, *counters, returns, round_)


@dataclass
class Served:
    """An environment in a process of its own."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]

    @property
    def address(self) -> str:
        return str(self.ready["address"])

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def printed(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.read()


def environment_process(*flags: str, listen: str = ANY_PORT) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "agentd", "env", "--json", "--listen", listen, *flags]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@contextmanager
def serving(*flags: str, listen: str = ANY_PORT) -> Iterator[Served]:
    """An environment that takes requests; killed at the end, if it is still there."""
    with environment_process(*flags, listen=listen) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                assert process.stderr is not None
                raise AssertionError(f"the environment did not start: {process.stderr.read()}")
            yield Served(process, json.loads(line))
        finally:
            process.kill()


@contextmanager
def dealers(address: str, count: int = 1) -> Iterator[list[zmq.Socket[bytes]]]:
    """Plain DEALER sockets, each a connection of its own."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        sockets = [context.socket(zmq.DEALER) for _ in range(count)]
        for socket in sockets:
            socket.setsockopt(zmq.RECONNECT_IVL, 20)
            socket.setsockopt(zmq.IPV6, int("[" in address))
            socket.connect(address)
        yield sockets
    finally:
        context.destroy(linger=0)


def send(socket: zmq.Socket[bytes], request: Request) -> None:
    socket.send(encode_environment(request))


def receive(socket: zmq.Socket[bytes], within_s: float = PATIENCE_S) -> EnvironmentMessage:
    assert socket.poll(1000 * within_s), "no answer"
    return decode_environment(socket.recv())


def ask(socket: zmq.Socket[bytes], request: Request) -> EnvironmentMessage:
    send(socket, request)
    return receive(socket)


def log_events(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [json.loads(line)["event"] for line in path.read_text(encoding="utf-8").splitlines()]

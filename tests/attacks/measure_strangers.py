"""Measure what a stranger at an open port costs: `python tests/attacks/measure_strangers.py [--tree DIR]`.

Two agents and their environment over TCP on this machine, so that whoever comes from here is admitted. For each kind of
stranger: by how much the memory of the one it talks to grows, and for how long that one does nothing else.
"""

from __future__ import annotations

import argparse
import itertools
import socket as system
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import msgpack  # noqa: E402 - found only now
import zmq  # noqa: E402
from evidence import until  # noqa: E402
from loopback import free_address, rss_mb  # noqa: E402
from pressed_ring import Listener, Memory  # noqa: E402
from ring_under_attack import Setting, Tree, agent_words, environment_of, process_of  # noqa: E402

MILLION = 1_000_000
SECONDS = 60.0
HELLO, PING = 1, 7


class Raw:
    """Speaks ZMTP 3.0 itself: libzmq would not send a message before it is complete."""

    def __init__(self, address: str, kind: bytes) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self._socket = system.create_connection((host, int(port)), timeout=5.0)
        self._socket.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
        ready = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
        self._socket.recv(64)
        self._socket.sendall(bytes([4, len(ready)]) + ready)
        self._socket.recv(64)  # it is ready, too
        threading.Thread(target=self._swallow, daemon=True).start()

    def send(self, data: bytes) -> None:
        """All of it, unless the other side ends the connection, or takes nothing for a while."""
        with suppress(OSError):
            self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()

    def _swallow(self) -> None:
        with suppress(OSError):
            while self._socket.recv(1 << 16):
                pass


class Pulse:
    """Asks the environment all the time whether it is there; the longest that it took to answer."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._stop = threading.Event()
        self.longest_s = 0.0
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(self._address)
            while not self._stop.is_set():
                asked_s = time.monotonic()
                socket.send(msgpack.packb([1, PING]))
                while not self._stop.is_set() and not socket.poll(100):
                    self.longest_s = max(self.longest_s, time.monotonic() - asked_s)
                if not self._stop.is_set():
                    socket.recv()
                self.longest_s = max(self.longest_s, time.monotonic() - asked_s)
                self._stop.wait(0.01)


def upstream(socket: zmq.Socket[bytes], over: Callable[[], bool]) -> None:
    """A million messages to a publisher."""
    _many(socket, over, lambda: socket.send(b"\x02" + bytes(100)))


def topics(socket: zmq.Socket[bytes], over: Callable[[], bool]) -> None:
    """300,000 different subscriptions."""
    numbers = iter(range(300_000))

    def subscribe() -> None:
        if (number := next(numbers, None)) is not None:
            socket.send(b"\x01topic-%d" % number)

    _many(socket, over, subscribe)


def parts(raw: Raw, over: Callable[[], bool]) -> None:
    """Messages of ten thousand empty parts, a million parts in all."""
    for _ in range(MILLION // 10_000):
        raw.send(_part(b"\x02", more=True) + _part(b"", more=True) * 9_998 + _part(b"", more=False))


def one_message(raw: Raw, over: Callable[[], bool]) -> None:
    """One message of a million empty parts."""
    raw.send(_part(b"\x02", more=True))
    for _ in range(10):
        raw.send(_part(b"", more=True) * 100_000)
    raw.send(_part(b"", more=False))


def unfinished(raw: Raw, over: Callable[[], bool]) -> None:
    """One message of a hundred thousand parts of 1000 bytes that never ends."""
    for _ in range(1000):
        raw.send(_part(bytes(1000), more=True) * 100)


def _part(data: bytes, *, more: bool) -> bytes:
    """One part of a message as it is on the wire."""
    if len(data) < 256:
        return bytes([int(more), len(data)]) + data
    return bytes([int(more) | 2]) + len(data).to_bytes(8, "big") + data


def hellos(socket: zmq.Socket[bytes], over: Callable[[], bool]) -> None:
    """A million hellos with wrong tokens."""
    _many(socket, over, lambda: socket.send(msgpack.packb([1, HELLO, 0, bytes(16), None]), zmq.NOBLOCK))


def garbage(socket: zmq.Socket[bytes], over: Callable[[], bool]) -> None:
    """A million messages that nobody can read."""
    _many(socket, over, lambda: socket.send(b"\xc1" * 50, zmq.NOBLOCK))


def _many(socket: zmq.Socket[bytes], over: Callable[[], bool], act: Callable[[], object], times: int = MILLION) -> None:
    for number in range(times):
        while True:
            if number % 1000 == 0 and over():
                return
            try:
                act()
                break
            except zmq.Again:
                socket.poll(1, zmq.POLLOUT)
                if over():
                    return
        if socket.type == zmq.DEALER and number % 100 == 0:
            with suppress(zmq.Again):
                while True:
                    socket.recv(zmq.NOBLOCK)


STRANGERS: list[tuple[str, Callable[..., None]]] = [
    ("agent", upstream),
    ("agent", parts),
    ("agent", one_message),
    ("agent", unfinished),
    ("agent", topics),
    ("environment", hellos),
    ("environment", garbage),
    ("environment", parts),
    ("environment", one_message),
    ("environment", unfinished),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, help="another checkout, with a .venv of its own  [default: this program]")
    asked = parser.parse_args()
    print("| at | stranger | grown MB | longest freeze s | alive | took s |\n|---|---|---|---|---|---|", flush=True)
    for at, act in STRANGERS:
        with tempfile.TemporaryDirectory(prefix="strangers-") as directory:
            print(_measured(Tree(asked.tree), at, act, Path(directory)), flush=True)


def _measured(tree: Tree, at: str, act: Callable[..., None], directory: Path) -> str:
    setting = Setting("sealed", rounds=10 * MILLION, round_timeout_s=5.0)
    addresses = [free_address() for _ in range(7)]
    with ExitStack() as stack:
        environment = stack.enter_context(environment_of(setting, tree, directory))
        agents = [
            stack.enter_context(
                process_of(tree, *_pair_words(setting, n, addresses, environment["address"], directory))
            )
            for n in range(2)
        ]
        listener = stack.enter_context(Listener({0: addresses[0]}))
        pulse = stack.enter_context(Pulse(environment["address"]))
        until(lambda: len(listener.heard_s[0]) > 200)
        pulse.longest_s = 0.0
        pid = agents[0].pid if at == "agent" else environment["pid"]
        memory, before_mb, began_s = Memory([pid]), rss_mb(pid), time.monotonic()
        _let(act, at, addresses[0] if at == "agent" else environment["address"], memory)
        took_s = time.monotonic() - began_s
        heard = [one for one in listener.heard_s[0] if one >= began_s - 0.2]
        gaps = [later - earlier for earlier, later in itertools.pairwise(heard)]
        freeze_s = pulse.longest_s if at == "environment" else max([*gaps, time.monotonic() - heard[-1]])
        alive = all(agent.poll() is None for agent in agents)
        grown = f"{memory.grown_mb:.0f} (of {before_mb:.0f})"
        for agent in agents:
            agent.kill()
    return f"| {at} | {act.__doc__} | {grown} | {freeze_s:.2f} | {alive} | {took_s:.1f} |"


def _pair_words(setting: Setting, number: int, addresses: list[str], environment: str, directory: Path) -> list[str]:
    words = agent_words(setting, number, addresses, environment, directory)
    words[words.index("--peers") + 1] = f"{1 - number}={addresses[1 - number]}"
    return words


def _let(act: Callable[..., None], at: str, address: str, memory: Memory) -> None:
    """Do it, and stay for a while, so that all of it arrives."""
    end_s = time.monotonic() + SECONDS
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            memory.look()

    looking = threading.Thread(target=look)
    looking.start()
    with (
        zmq.Context() as context,
        context.socket(zmq.XSUB if at == "agent" else zmq.DEALER) as socket,
        ExitStack() as end,
    ):
        end.callback(looking.join)
        end.callback(done.set)
        if act in (parts, one_message, unfinished):
            raw = Raw(address, b"XSUB" if at == "agent" else b"DEALER")
            end.callback(raw.close)
            act(raw, lambda: time.monotonic() > end_s)
        else:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.SNDTIMEO, 100)
            socket.connect(address)
            act(socket, lambda: time.monotonic() > end_s)
        until(_quiet(memory))


def _quiet(memory: Memory) -> Callable[[], bool]:
    """Whether a process has stopped growing for three hundred glances, three seconds."""
    seen: deque[float] = deque(maxlen=300)

    def look() -> bool:
        seen.append(memory.grown_mb)
        return len(seen) == seen.maxlen and seen[0] == seen[-1]

    return look


if __name__ == "__main__":
    main()

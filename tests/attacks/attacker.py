"""An agent that keeps step with its neighbours and lies to them; it speaks ZeroMQ and MessagePack itself.

It behaves in everything that keeps rounds going (greetings, one frame per round), so that nobody waits for it and
nobody takes it for dead. What its frames hold is for an attack to say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

import msgpack
import zmq

GOODBYE, GREETING = 1, 2
SLICE_MS = 100

Batches = Callable[[int], list[Any]]


class Attacker:
    """A thread with sockets of its own; `says` makes the batches of a round, `hears` is told those of neighbours."""

    def __init__(
        self,
        own: int,
        listen: str,
        neighbours: dict[int, str],
        says: Batches,
        *,
        hears: Callable[[list[Any]], None] | None = None,
        claims_round: int | None = None,
    ) -> None:
        self._own, self._listen, self._neighbours = own, listen, neighbours
        self._says = says
        self._hears = hears
        self._claims_round = claims_round
        self._run: bytes | None = None
        self._round = self._sequence = 0
        self._waiting: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._attend, daemon=True)
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _attend(self) -> None:
        try:
            with zmq.Context() as context, ExitStack() as sockets:
                context.setsockopt(zmq.LINGER, 0)
                self._speak_and_listen(lambda kind: sockets.enter_context(context.socket(kind)))
        except BaseException as failure:  # told to who waits for us
            self.failure = failure

    def _speak_and_listen(self, socket_of: Callable[[int], zmq.Socket[bytes]]) -> None:
        self._out = socket_of(zmq.XPUB)
        self._out.setsockopt(zmq.XPUB_VERBOSE, 1)
        self._out.bind(self._listen)
        poller = zmq.Poller()
        poller.register(self._out, zmq.POLLIN)
        for address in self._neighbours.values():
            heard = socket_of(zmq.SUB)
            heard.subscribe(b"frame/")
            heard.subscribe(b"sync/%d/" % self._own)
            heard.connect(address)
            poller.register(heard, zmq.POLLIN)
        while not self._stop.is_set():
            for socket, _ in poller.poll(SLICE_MS):
                if socket is self._out:
                    self._note_subscription(socket.recv())
                else:
                    self._hear(socket.recv())

    def _note_subscription(self, event: bytes) -> None:
        wanted = [number for number in self._neighbours if event == b"\x01sync/%d/" % number]
        self._waiting |= set(wanted)
        self._greet()

    def _greet(self) -> None:
        """Answer those that subscribed, once it is known which run this is."""
        if self._run is not None:
            for number in self._waiting:
                self._send(b"sync/%d/" % number, self._claims_round or self._round, GREETING, [])
            self._waiting = set()

    def _hear(self, part: bytes) -> None:
        _, self._run, _, _, _, round_, flags, batches = msgpack.unpackb(
            part.partition(b"/")[2].removeprefix(self._prefix)
        )
        self._greet()
        if self._hears is not None:
            self._hears(batches)
        if round_ > self._round and not flags & (GREETING | GOODBYE):
            self._round = round_
            self._sequence += 1
            self._send(b"frame/", round_, 0, self._says(round_))
            if self._claims_round and round_ % 50 == 1:
                self._waiting = set(self._neighbours)
                self._greet()

    @property
    def _prefix(self) -> bytes:
        """What is left of a greeting's topic after its first part."""
        return b"%d/" % self._own

    def _send(self, topic: bytes, round_: int, flags: int, batches: list[Any]) -> None:
        fields = [1, self._run, self._own, 0, self._sequence, round_, flags, batches]
        self._out.send(topic + msgpack.packb(fields))

"""A neighbour that presses on rounds, memory or links instead of lying; it speaks ZeroMQ and MessagePack itself.

Until its attack begins it keeps step like an honest one that has nothing to say. What it does then is for a `Pressure`
to say (pressures.py); it may send whatever the sockets take, at whatever time.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, Protocol, Self

import msgpack
import zmq

GOODBYE, GREETING = 1, 2
SLICE_S = 0.02
QUEUE_FRAMES = 1000
"""What it may have on its way to one neighbour; then what it says is lost, as with any publisher."""


class Pressure(Protocol):
    """What a neighbour does once its attack has begun."""

    def begins(self, of: PressingNeighbour) -> None:
        """The attack begins."""

    def greets(self, of: PressingNeighbour, number: int) -> None:
        """An honest neighbour subscribed."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        """The first frame of a new round was heard."""


class PressingNeighbour:
    """A thread with sockets of its own: one XPUB, and an XSUB for each honest neighbour."""

    def __init__(
        self,
        own: int,
        listen: str,
        neighbours: Mapping[int, str],
        run: bytes,
        pressure: Pressure,
        *,
        begin: int,
        environment: str = "",
    ) -> None:
        self.own, self.run, self.neighbours, self.environment = own, run, neighbours, environment
        self.round = self.sequence = 0
        self.natural_s = 0.01
        """How long a round takes where nobody presses, as far as this one saw."""
        self.began_s = 0.0
        self._listen = listen
        self._pressure, self._begin = pressure, begin
        self._heard_s = 0.0
        self._asks: zmq.Socket[bytes] | None = None
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._calm = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._attend, daemon=True)
        self.began = threading.Event()
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def calm_down(self) -> None:
        """End the attack, and keep step again."""
        self._calm.set()

    @property
    def attacks(self) -> bool:
        return self.began.is_set() and not self._calm.is_set()

    # What a pressure may do

    def frame(self, round_: int, batches: list[Any] | None = None, **changes: Any) -> None:
        """Say a frame, with a sequence number that fits unless told otherwise."""
        self.sequence += 1
        self.say(b"frame/" + self.encoded(round_, batches=batches or [], **changes))

    def greet(self, number: int, round_: int | None = None, **changes: Any) -> None:
        """Say a greeting to one neighbour."""
        said = self.encoded(self.round if round_ is None else round_, flags=GREETING, **changes)
        self.say(b"sync/%d/" % number + said)

    def greet_all(self, round_: int | None = None) -> None:
        for number in self.neighbours:
            self.greet(number, round_)

    def encoded(self, round_: int, *, flags: int = 0, batches: list[Any] | None = None, **changes: Any) -> bytes:
        fields = {"version": 1, "run": self.run, "sender": self.own, "incarnation": 0, "sequence": self.sequence}
        fields |= {"round": round_, "flags": flags, "batches": batches or []}
        return bytes(msgpack.packb(list((fields | changes).values())))

    def say(self, *parts: bytes) -> None:
        """Let whoever subscribed hear it; a queue that is full loses it."""
        with suppress(zmq.Again):
            self._out.send_multipart(parts, zmq.NOBLOCK)

    def upstream(self, number: int, part: bytes) -> None:
        """Send something the wrong way, to what a neighbour publishes with: a subscription, or anything."""
        with suppress(zmq.Again):
            self._heard[number].send(part, zmq.NOBLOCK)

    def asks_environment(self, *fields: Any) -> None:
        """Send a request to the environment; whatever it answers is passed over."""
        if self._asks is None:
            self._asks = self._socket_of(zmq.DEALER)
            self._asks.connect(self.environment)
        with suppress(zmq.Again):
            self._asks.send(msgpack.packb([1, *fields]), zmq.NOBLOCK)
            while self._asks.poll(0):
                self._asks.recv()

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something later, if the attack still goes on."""
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._numbers), act))

    def every(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something over and over for as long as the attack goes on."""

        def again() -> None:
            act()
            self.after(seconds, again)

        self.after(0, again)

    # The thread

    def _attend(self) -> None:
        try:
            with zmq.Context() as context, ExitStack() as sockets:
                context.setsockopt(zmq.LINGER, 0)
                self._speak_and_listen(lambda kind: sockets.enter_context(context.socket(kind)))
        except BaseException as failure:  # told to who waits for us
            self.failure = failure

    def _speak_and_listen(self, socket_of: Callable[[int], zmq.Socket[bytes]]) -> None:
        self._socket_of = socket_of
        self._out = socket_of(zmq.XPUB)
        self._out.setsockopt(zmq.XPUB_VERBOSE, 1)
        self._out.setsockopt(zmq.SNDHWM, QUEUE_FRAMES)
        self._out.bind(self._listen)
        self._heard = {number: self._connected(socket_of(zmq.XSUB), at) for number, at in self.neighbours.items()}
        poller = zmq.Poller()
        for socket in (self._out, *self._heard.values()):
            poller.register(socket, zmq.POLLIN)
        if not self._begin:
            self._attack()
        while not self._stop.is_set():
            ready = dict(poller.poll(self._patience_ms()))
            if self._out in ready:
                self._note_subscription(self._out.recv())
            for socket in self._heard.values():
                if socket in ready:
                    self._hear(socket.recv_multipart()[0])
            self._do_what_is_due()

    def _connected(self, socket: zmq.Socket[bytes], address: str) -> zmq.Socket[bytes]:
        socket.connect(address)
        socket.send(b"\x01frame/")
        socket.send(b"\x01sync/%d/" % self.own)
        return socket

    def _patience_ms(self) -> int:
        due_s = self._later[0][0] - time.monotonic() if self._later else SLICE_S
        return max(0, int(1000 * min(SLICE_S, due_s)))

    def _do_what_is_due(self) -> None:
        if self._calm.is_set():
            if self._later:  # what was held back is said now
                self._later.clear()
                self.frame(self.round)
            return
        now_s = time.monotonic()
        while self._later and self._later[0][0] <= now_s:
            heapq.heappop(self._later)[2]()

    def _note_subscription(self, event: bytes) -> None:
        for number in self.neighbours:
            if event == b"\x01sync/%d/" % number:
                if self.attacks:
                    self._pressure.greets(self, number)
                else:
                    self.greet(number)

    def _hear(self, part: bytes) -> None:
        if not part.startswith(b"frame/"):
            return
        _, _, _, _, _, round_, flags, _ = msgpack.unpackb(part.removeprefix(b"frame/"))
        if round_ <= self.round or flags:
            return
        self._note_round(round_)
        if not self.attacks and self.round >= self._begin and not self.began.is_set():
            self._attack()
        if self.attacks:
            self._pressure.hears_round(self, round_)
        else:
            self.frame(round_)

    def _note_round(self, round_: int) -> None:
        now_s = time.monotonic()
        if not self.attacks and self.round:
            took_s = (now_s - self._heard_s) / (round_ - self.round)
            self.natural_s += 0.05 * (took_s - self.natural_s)
        self.round, self._heard_s = round_, now_s

    def _attack(self) -> None:
        self.began_s = time.monotonic()
        self.began.set()
        self._pressure.begins(self)

"""What a link needs of the world: something to publish with, a line to each neighbour, and a clock.

`Transport` and `Line` are that much and no more; `ZmqTransport` is an XPUB that the neighbours hear and a SUB for each
neighbour that is heard, so that the sender of a frame is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

import zmq

from agentd.shell.resolve import Route
from agentd.shell.sockets import SLICE_MS, publisher, subscriber

if TYPE_CHECKING:  # only a testbed with injected faults loads it
    from agentd.shell.fault_injection import FaultyLine

_READABLE = int(zmq.POLLIN)
"""As a plain number: arithmetic with an enumeration is slow."""


class Line(Protocol):
    """What comes from one neighbour."""

    id: int
    address: str

    def receive(self, wait: bool) -> bytes | None:
        """The next part: at once, or within a slice of time where waiting is allowed."""
        ...

    def put_back(self, part: bytes) -> None:
        """Keep a part that was read too early; it comes again, before all that was not read yet."""
        ...

    def is_readable(self) -> bool:
        """Whether something lies ready."""
        ...

    def reconnect(self) -> None:
        """Connect anew."""
        ...


class Transport(Protocol):
    """How one agent's frames leave, how its neighbours' come, and what time it is."""

    @property
    def lines(self) -> Mapping[int, Line]:
        """The lines to the neighbours."""
        ...

    def publish(self, part: bytes) -> None:
        """Send to whoever subscribed the topic that the part begins with."""
        ...

    def event(self) -> bytes | None:
        """The next subscription, as ZeroMQ tells it; None where there is none."""
        ...

    def now_s(self) -> float:
        """The time, from some beginning."""
        ...

    def wait_for_any(self, lines: Iterable[Line]) -> None:
        """Wait, a slice of time at most, for a subscription or for something on these lines."""
        ...

    async def pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Let time pass, unless told to stop."""
        ...

    def close(self) -> None:
        """Let what was published leave, and close."""
        ...


class ZmqLine:
    """A SUB socket that hears one neighbour."""

    __slots__ = ("address", "fault", "id", "route", "socket", "waiting")

    def __init__(self, number: int, address: str, socket: zmq.Socket[bytes]) -> None:
        self.id = number
        self.address = address
        self.socket = socket
        self.waiting: deque[bytes] = deque()
        """Parts that come before what is in the socket."""
        self.fault: FaultyLine | None = None
        """What an operator injects between the neighbour and us."""
        self.route = Route(socket, address)

    def receive(self, wait: bool) -> bytes | None:
        """The next part: at once, or within a slice of time where waiting is allowed."""
        if self.waiting:
            return self.waiting.popleft()
        if self.fault is not None:
            return self.fault.receive(wait)
        try:
            return self.socket.recv(0 if wait else zmq.NOBLOCK)
        except zmq.Again:
            return None

    def put_back(self, part: bytes) -> None:
        """Keep a part that was read too early."""
        self.waiting.append(part)

    def is_readable(self) -> bool:
        """Whether something lies ready."""
        return bool(self.socket.poll(0))

    def reconnect(self) -> None:
        """Connect anew: after an oversized frame libzmq does not by itself, and its back-off may have grown long."""
        if self.fault is not None and self.fault.cut:
            return  # the other side would answer, and both would connect anew for as long as the cut lasts
        self.route.renew()


class ZmqTransport:
    """An agent's sockets."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], *, own: int, listen: str, peers: Mapping[int, str]
    ) -> None:
        self._publisher = publisher(context, listen)
        self.lines = {
            peer: ZmqLine(peer, address, subscriber(context, own, address)) for peer, address in peers.items()
        }
        self.now_s = time.monotonic

    def publish(self, part: bytes) -> None:
        """Send to whoever subscribed the topic that the part begins with."""
        self._publisher.send(part)

    def event(self) -> bytes | None:
        """The next subscription; asking first, because there is almost never one, and recv would say so dearly."""
        if not int(self._publisher.getsockopt(zmq.EVENTS)) & _READABLE:
            return None
        return self._publisher.recv(zmq.NOBLOCK)

    def wait_for_any(self, lines: Iterable[Line]) -> None:
        """Wait, a slice of time at most, for a subscription or for something on these lines."""
        sockets = [self._publisher]
        for line in map(self.lines.__getitem__, (line.id for line in lines)):
            line.route.find()
            sockets.append(line.socket)
        zmq.select(sockets, [], [], SLICE_MS / 1000)

    async def pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Let time pass, unless told to stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)

    def close(self) -> None:
        """Let the last frame leave and close."""
        for line in self.lines.values():
            line.socket.close()
        self._publisher.close()

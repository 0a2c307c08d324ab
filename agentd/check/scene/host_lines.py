"""What a host has instead of sockets: lines of memory to the other hosts, and to the environment.

Each does what the trunk and the desk ask of a socket, and no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

import zmq

from agentd.check.scene.hosted_environment import HostedEnvironment
from agentd.check.scene.lines import QUEUE_PARTS, Wires
from agentd.shell.host.desk import Desk
from agentd.shell.host.exchange import Exchange
from agentd.shell.host.trunk import BundleTrunk
from agentd.shell.json_log import Log
from agentd.shell.resolve import Route
from agentd.wire.bundle import host_topic

Socket = zmq.Socket[bytes]


class Inbox:
    """Parts that have come; reading never waits."""

    def __init__(self) -> None:
        self.parts: deque[bytes] = deque()

    def put(self, part: bytes) -> bool:
        """Keep a part if there is room."""
        fits = len(self.parts) < QUEUE_PARTS
        if fits:
            self.parts.append(part)
        return fits

    def recv(self, _flags: int) -> bytes:
        """The next one."""
        if not self.parts:
            raise zmq.Again
        return self.parts.popleft()


class Publisher(Inbox):
    """Hands bundles to the host whose topic they begin with; what comes are subscriptions."""

    def __init__(self, wires: Wires, own: int, others: Iterable[int], is_up: Callable[[], bool]) -> None:
        super().__init__()
        self._wires, self._own, self._is_up = wires, own, is_up
        self._topics = {host: host_topic(host) for host in others}

    def send(self, part: bytes) -> None:
        """Nothing leaves a process that is gone."""
        if not self._is_up():
            return
        for host, topic in self._topics.items():
            if part.startswith(topic):
                self._wires.say(self._own, host, part)


class HostEnd:
    """The lines of one life of a host."""

    def __init__(self, own: int, others: Iterable[int], wires: Wires, poke: Callable[[], None]) -> None:
        self.own = own
        self.is_up = True
        self._wires, self._poke = wires, poke
        others = list(others)
        self.subscribers = {host: Inbox() for host in others}
        self.publisher = Publisher(wires, own, others, lambda: self.is_up)

    @property
    def has_something(self) -> bool:
        """Whether anything lies unread."""
        return bool(self.publisher.parts) or any(inbox.parts for inbox in self.subscribers.values())

    def hears(self, sender: int, part: bytes) -> None:
        """A bundle came."""
        if not self.subscribers[sender].put(part):
            self._wires.lost += 1
        self._poke()

    def sees(self, subscriber: int, joined: bool) -> None:
        """Another host began or ceased to listen."""
        if self.is_up:
            self.publisher.put((b"\x01" if joined else b"\x00") + host_topic(subscriber))
            self._poke()

    def wants(self, speaker: int) -> bool:
        """Every host listens to all others."""
        return speaker in self.subscribers


class MemoryTrunk(BundleTrunk):
    """The trunk as it is, over lines of memory."""

    def __init__(self, end: HostEnd, wires: Wires, log: Log) -> None:
        subscribers = {host: cast("Socket", inbox) for host, inbox in end.subscribers.items()}
        super().__init__(end.own, subscribers, cast("Socket", end.publisher), subscribers, log)
        self._wires = wires

    def say(self, host: int, speaker: int, part: bytes) -> None:
        """What is said to a host that does not listen is lost, and counts as such."""
        self._wires.lost += not self._ways[host].listens
        super().say(host, speaker, part)


class _Requests(Inbox):
    """Parcels to the environment, and its answers."""

    def __init__(self, environment: HostedEnvironment, end: HostEnd, poke: Callable[[], None]) -> None:
        super().__init__()
        self._environment, self._end, self._poke = environment, end, poke

    def send(self, data: bytes, _flags: int) -> None:
        if self._end.is_up:
            self._environment.ask(data, self._hears)

    def _hears(self, data: bytes) -> None:
        if self._end.is_up:
            self.put(data)
            self._poke()


class _Here:
    """The way to an environment that is where it is."""

    def find(self) -> bool:
        return True

    def renew(self) -> None:
        """As soon as it is there it answers."""


class MemoryDesk(Desk):
    """The desk as it is, with requests that are carried in memory."""

    def __init__(
        self, environment: HostedEnvironment, end: HostEnd, poke: Callable[[], None], exchange: Exchange, log: Log
    ) -> None:
        self.inbox = _Requests(environment, end, poke)
        self.route = cast("Route", _Here())
        socket = cast("Socket", self.inbox)
        self._begin(socket, environment.address, exchange.waits, log, exchange.slice_s)

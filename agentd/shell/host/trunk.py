"""What lies between processes that hold many agents: one line from each to each, for all of their agents.

As between agents: an XPUB that the others subscribe to, and a SUB for each of them, so that it is known which process
speaks; a process speaks for its own agents only. What agents publish gathers until nobody in the process can go on, and
leaves as one bundle for each of the others. A process that begins to listen, again or for the first time, is told who
of ours listens to whom of its agents; what is published before that is lost, as ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import zmq

from agentd.errors import PeerError
from agentd.shell.doors.door import Door
from agentd.shell.host.exchange import Exchange
from agentd.shell.json_log import Log
from agentd.shell.resolve import Route, has_name
from agentd.shell.sockets import bundle_publisher, bundle_subscriber
from agentd.wire.bundle import (
    MAX_BUNDLE_BYTES,
    MOST_ENTRIES,
    Bundle,
    Ear,
    Said,
    decode_bundle,
    encode_bundle,
    read_host_event,
)

BUNDLES_AT_ONCE = 64
"""Taken from each of the others before agents go on."""
EVENTS_AT_ONCE = 1024
LOOK_EVERY_S = 0.25
"""How often it is looked where hosts are that have a name and no number."""
SILENT_S, SILENT_SLICES = 5.0, 10.0
"""After how much silence such a host is looked up, and connected to, anew: in seconds, and in slices of time.

Where many share a process a round takes long: to connect anew in each would lose what is under way.
"""


class _Way:
    """What is to be told to one other host."""

    def __init__(self) -> None:
        self.ears: list[Ear] = []
        self.said: list[Said] = []
        self.bytes = 0
        self.sequence = 0
        self.listens = False
        self.heard = -1
        """The number of the last bundle that came from there."""


class BundleTrunk:
    """What goes between one host and all others, over whatever carries bundles."""

    exchange: Exchange
    """Whoever is told what comes; set by who makes both."""

    def __init__(
        self,
        own: int,
        others: Iterable[int],
        publisher: zmq.Socket[bytes],
        subscribers: Mapping[int, zmq.Socket[bytes]],
        log: Log,
    ) -> None:
        self._own = own
        self._log = log
        self._ways = {host: _Way() for host in others}
        self._hosts = 1 + max((own, *self._ways))
        self.lost = self.wrong = 0
        """Bundles that never came, and those that could not be read."""
        self._publisher = publisher
        self._subscribers = subscribers

    def join(self, listener: int, speaker: int, joined: bool) -> None:
        """One of ours begins or ceases to listen to one of theirs."""
        host = self.exchange.host_of(speaker)
        if host in self._ways and self._ways[host].listens:  # else it is told of all when it does
            self._ways[host].ears.append((listener, speaker, joined))

    def say(self, host: int, speaker: int, part: bytes) -> None:
        """One of ours publishes something that agents of that host listen to."""
        way = self._ways[host]
        if not way.listens:
            return
        way.said.append((speaker, part))
        way.bytes += len(part)
        if way.bytes >= MAX_BUNDLE_BYTES or len(way.said) >= MOST_ENTRIES:
            self._send(host, way)

    def flush(self) -> None:
        """Let all that was said leave."""
        for host, way in self._ways.items():
            if way.ears or way.said:
                self._send(host, way)

    def drain(self) -> None:
        """Take in what has come."""
        self._see_who_listens()
        for host in self._ways:
            for _ in range(BUNDLES_AT_ONCE):
                try:
                    part = self._part(host)
                except zmq.Again:
                    break
                self._take(host, part)

    def _send(self, host: int, way: _Way) -> None:
        ears, way.ears = way.ears[:MOST_ENTRIES], way.ears[MOST_ENTRIES:]
        said, way.said, way.bytes = way.said, [], 0
        self._publisher.send(encode_bundle(host, Bundle(way.sequence, ears, said)))
        way.sequence += 1

    def _see_who_listens(self) -> None:
        for _ in range(EVENTS_AT_ONCE):
            try:
                event = self._event()
            except zmq.Again:
                return
            told = read_host_event(event, self._hosts)
            if told is not None and told[0] in self._ways:
                self._listens(*told)

    def _event(self) -> bytes:
        """The next subscription; zmq.Again where there is none."""
        return self._publisher.recv(zmq.NOBLOCK)

    def _part(self, host: int) -> bytes:
        """The next bundle of a host; zmq.Again where there is none."""
        return self._subscribers[host].recv(zmq.NOBLOCK)

    def _listens(self, host: int, joined: bool) -> None:
        way = self._ways[host]
        if way.listens:  # whoever begins anew has forgotten, or was another
            self.exchange.host_left(host)
        way.listens, way.said, way.bytes = joined, [], 0
        way.ears = [(*each, True) for each in self.exchange.ears_at(host)] if joined else []
        self._log.info("host heard" if joined else "host gone", host=host)

    def _take(self, host: int, part: bytes) -> None:
        try:
            bundle: Bundle = decode_bundle(part, self._own)
        except PeerError as fault:
            self.wrong += 1
            if self.wrong == 1:
                self._log.warning("a host sends what cannot be read", host=host, reason=fault.reason)
            return
        way = self._ways[host]
        if bundle.sequence > way.heard + 1 and way.heard >= 0:
            self.lost += bundle.sequence - way.heard - 1
        way.heard = bundle.sequence
        for ear in bundle.ears:
            self.exchange.far_ear(host, *ear)
        for said in bundle.said:
            self.exchange.far_part(host, *said)


class ZmqTrunk(BundleTrunk):
    """The same over sockets: files that only their user may reach, or TCP behind a door that admits the other hosts.

    A bundle has one part, and so has a subscription. Of a longer message from another host ZeroMQ would keep all parts
    in memory, however many they are; the socket goes with them, and a new one is connected.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], own: int, door: Door, others: Mapping[int, str], log: Log
    ) -> None:
        self._door = door
        self._anew = partial(bundle_subscriber, context, own)
        self.on_change: Callable[[], None] = lambda: None
        """Told when there are other sockets to wait for."""
        self._within_message = False
        self._addresses = dict(others)
        self._routes: dict[int, Route] = {}
        self._heard_s: dict[int, float] = {}
        self._look_at_s = 0.0
        subscribers: dict[int, zmq.Socket[bytes]] = {}
        publisher = bundle_publisher(context, door)
        super().__init__(own, others, publisher, subscribers, log)
        try:
            for host, address in others.items():
                socket = subscribers[host] = self._anew(address)
                if has_name(address):
                    self._routes[host] = Route(socket, address)
        except BaseException:
            self.close()
            raise
        self._sockets = subscribers

    @property
    def sockets(self) -> Iterator[zmq.Socket[bytes]]:
        """What to wait for."""
        yield self._publisher
        yield from self._subscribers.values()

    @property
    def refused(self) -> int:
        """Connections that were not let in."""
        return self._door.refused

    def drain(self) -> None:
        """Take in what has come, and look where hosts are that are only known by name."""
        super().drain()
        if self._routes:
            self._find(time.monotonic())

    def close(self) -> None:
        """Let the last frames leave and close."""
        for socket in self._subscribers.values():
            socket.close()
        self._publisher.close()
        self._door.close()

    def _event(self) -> bytes:
        """The next subscription; whatever else a subscriber sends is passed over, part by part."""
        part = self._publisher.recv(zmq.NOBLOCK)
        was_within, self._within_message = self._within_message, bool(self._publisher.getsockopt(zmq.RCVMORE))
        return b"" if was_within or self._within_message else part

    def _part(self, host: int) -> bytes:
        socket = self._subscribers[host]
        part = socket.recv(zmq.NOBLOCK)
        if socket.getsockopt(zmq.RCVMORE):
            self.wrong += 1
            self._log.warning("a host sends messages of several parts", host=host)
            self._begin_anew(host)
            raise zmq.Again
        if host in self._routes:
            self._heard_s[host] = time.monotonic()
        return part

    def _begin_anew(self, host: int) -> None:
        self._sockets[host].close(linger=0)
        socket = self._sockets[host] = self._anew(self._addresses[host])
        if host in self._routes:
            self._routes[host].use(socket)
        self.on_change()

    def _find(self, now_s: float) -> None:
        """Connect to names that were found, and anew where a host is silent: it may have come back elsewhere."""
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + LOOK_EVERY_S
        silent_s = max(SILENT_S, SILENT_SLICES * self.exchange.slice_s)
        for host, route in self._routes.items():
            if not route.is_known:
                route.find()
                self._heard_s[host] = now_s
            elif now_s > self._heard_s[host] + silent_s:
                self._heard_s[host] = now_s
                route.renew()

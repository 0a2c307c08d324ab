"""What a link needs of the world: something to publish with, a line to each neighbour, and a clock.

`Transport` and `Line` are that much and no more; `ZmqTransport` is an XPUB that the neighbours hear and a SUB for each
neighbour that is heard, so that the sender of a frame is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import zmq

from agentd.shell.doors.callers import Callers
from agentd.shell.doors.door import Door
from agentd.shell.doors.takeover import Takeover
from agentd.shell.resolve import Route
from agentd.shell.sockets import SLICE_MS, publisher, subscriber
from agentd.wire.frame import MAX_FRAME_BYTES
from agentd.wire.topics import FRAME_TOPIC

if TYPE_CHECKING:  # only a testbed with injected faults loads it
    from agentd.shell.fault_injection import FaultyLine
    from agentd.wire.reading import KnownFrames

PARTS_AT_ONCE = 1024
"""Parts of what a subscriber must not send, passed over before something else is done."""
_READABLE, _AT_ONCE = int(zmq.POLLIN), int(zmq.NOBLOCK)
"""As plain numbers: arithmetic with an enumeration is slow."""
FEW = 2
TOGETHER_S, TOGETHER_SHARE = 0.01, 0.25
"""Where more than a few are missing, how long to let frames gather at most, and as what share of the wait so far.

Rounds of an idle machine take 5 ms: whoever let frames gather for longer than that would make everybody slow.
"""
LOOK_DISTURBED_S = 0.005
"""How often lines are looked at that hold something back, or may."""
SEVERAL_PARTS = b""
"""Told instead of a message of several parts; a message of one begins with its topic."""


Gather = Callable[[Sequence[int]], Awaitable[None]]
"""Waits for all of these neighbours, and lets others of the process go on meanwhile."""


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

    def disconnect(self) -> None:
        """Hear nothing of the neighbour until connected anew, and drop what lies unread."""
        ...


class Transport(Protocol):
    """How one agent's frames leave, how its neighbours' come, and what time it is."""

    dropped: Counter[str]
    """What was dropped before it became a part or an event, by reason."""

    @property
    def lines(self) -> Mapping[int, Line]:
        """The lines to the neighbours."""
        ...

    @property
    def known_frames(self) -> KnownFrames | None:
        """What was read of the parts that come, where others of this process hear them too; None: nobody does."""
        ...

    @property
    def crowd_s(self) -> float:
        """How far apart what comes in time may come, because others of this process take their turns; 0: nobody."""
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

    @property
    def gather(self) -> Gather | None:
        """Lets others of this process go on until something lies ready on all of these lines, or a slice is over.

        None: there are no others, and to wait on one line after the other is best.
        """
        ...

    @property
    def slice_s(self) -> float:
        """How long one who waits does nothing else; where thousands share a process it is longer."""
        ...

    async def wait_for_any(self, lines: Iterable[Line]) -> None:
        """Wait, a slice of time at most, for a subscription or for something on these lines."""
        ...

    async def ready(self, lines: Iterable[Line], seconds: float) -> Collection[int]:
        """On whose lines something lies ready; where there is nothing, wait for it for so long at most."""
        ...

    async def pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Let time pass, unless told to stop."""
        ...

    def close(self) -> None:
        """Let what was published leave, and close."""
        ...


class ZmqLine:
    """A SUB socket that hears one neighbour.

    A message has one part. ZeroMQ hands out the parts of a longer one before anything else, and keeps them all in
    memory, however many they are; so as soon as a part shows that it is one of several, the socket goes with all of
    them, and a new one is connected. Only a part that does not begin as a frame is asked whether more follow: parts
    that do are frames like any other, and asking costs more than reading. (Before connecting anew all are asked.)
    """

    __slots__ = (
        *("_anew", "_dropped", "_probes", "_renewed", "_takeover"),
        *("address", "fault", "id", "route", "socket", "waiting"),
    )

    def __init__(
        self,
        number: int,
        address: str,
        anew: Callable[..., zmq.Socket[bytes]],
        dropped: Counter[str],
    ) -> None:
        """`anew` makes the socket, connected where the address has no name; with `probes` one that lets anything in."""
        self.id = number
        self.address = address
        self._anew = anew
        self._dropped = dropped
        self.socket = anew()
        self._probes, self._renewed = False, 0
        """Whether one part is let in whatever its length, and how often the line was renewed in vain."""
        self._takeover: Takeover | None = None
        """A socket that lets in what is short enough, as soon as it can do so instead of one that probes."""
        self.waiting: deque[bytes] = deque()
        """Parts that come before what is in the socket."""
        self.fault: FaultyLine | None = None
        """What an operator injects between the neighbour and us."""
        self.route = Route(self.socket, address)

    def receive(self, wait: bool) -> bytes | None:
        """The next part: at once, or within a slice of time where waiting is allowed."""
        if self.waiting:
            return self.waiting.popleft()
        if self.fault is not None:
            return self.fault.receive(wait)
        if self._takeover is not None:
            return self.read(0 if wait else _AT_ONCE)
        try:
            part = self.socket.recv(0 if wait else _AT_ONCE)
        except zmq.Again:
            return None
        return part if part.startswith(FRAME_TOPIC) and not self._renewed else self._looked_at(part)

    def read(self, flags: int) -> bytes | None:
        """The next part in the socket, whatever an operator injects; None where there is none."""
        if self._takeover is not None and self._takeover.is_level():
            self._go_on_with(self._takeover.socket)
        try:
            return self._looked_at(self.socket.recv(flags))
        except zmq.Again:
            return None

    def _looked_at(self, part: bytes) -> bytes:
        """The same, now that it is known to be one of several, or to be said on a line that was renewed."""
        if not part.startswith(FRAME_TOPIC) and (not part or self.socket.getsockopt(zmq.RCVMORE)):
            self._dropped["multipart"] += 1
            self._begin_anew()
            return SEVERAL_PARTS
        if self._renewed and part.startswith(FRAME_TOPIC):  # greetings are short, whoever says them
            self._renewed = 0
            if self._probes and self._takeover is None:
                self._takeover = Takeover(self._anew(probes=False))
                self.route.use(self._takeover.socket)
        if self._takeover is not None and not self._takeover.has_read(part):
            self._go_on_with(self._takeover.socket)
        return part

    def _go_on_with(self, socket: zmq.Socket[bytes]) -> None:
        self._takeover, self._probes = None, False
        self.socket.close(linger=0)
        self.socket = socket

    def _begin_anew(self, *, probes: bool = False) -> None:
        if self._takeover is not None:
            self._go_on_with(self._takeover.socket)
        self._probes = probes
        self.socket.close(linger=0)
        self.socket = self._anew(probes=probes)
        self.route.use(self.socket)

    def close(self) -> None:
        """Hear nothing any more."""
        if self._takeover is not None:
            self._go_on_with(self._takeover.socket)
        self.socket.close()

    def rest(self, milliseconds: int) -> None:
        """Wait for so long, or until something comes."""
        self.socket.poll(milliseconds)

    def put_back(self, part: bytes) -> None:
        """Keep a part that was read too early."""
        self.waiting.append(part)

    def is_readable(self) -> bool:
        """Whether something lies ready."""
        return bool(self.socket.poll(0))

    def reconnect(self) -> None:
        """Connect anew: after an oversized frame libzmq does not by itself, and its back-off may have grown long.

        Every other time one part is let in whatever its length, so that whoever was cut off for that can be named.
        """
        if self.fault is not None and self.fault.cut:
            return  # the other side would answer, and both would connect anew for as long as the cut lasts
        if self.socket.getsockopt(zmq.RCVMORE):  # libzmq aborts the process after a disconnect in mid-message
            self._dropped["multipart"] += 1
            self._begin_anew()
            return
        self._renewed += 1
        if self._probes or not self._renewed % 2:
            self._begin_anew(probes=not self._probes)
        else:
            self.route.renew()

    def rekey(self) -> None:
        """Connect anew with the keys that the neighbour has by now."""
        self._begin_anew(probes=self._probes and self._takeover is None)

    def disconnect(self) -> None:
        """Hear nothing of the neighbour until connected anew; what lies unread goes with the socket."""
        self.waiting.clear()
        self._begin_anew()
        self.route.leave()


class ZmqTransport:
    """An agent's sockets."""

    gather = None
    known_frames = None
    crowd_s = 0.0
    slice_s = SLICE_MS / 1000

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], *, own: int, door: Door, peers: Mapping[int, str]
    ) -> None:
        self.dropped: Counter[str] = Counter()
        self._door = door
        self._publisher = publisher(context, door)
        self._refused = 0
        self._has_events = False
        self._within_message = False
        self.lines: dict[int, ZmqLine] = {}
        self.now_s = time.monotonic
        self._sent_s = self.now_s()
        self._subscriber = partial(subscriber, context, own)
        self._keyring = keyring = door.keyring
        self._callers = None if keyring is None else Callers(keyring, self.dropped)
        self._keys: dict[int, bytes] = {}
        """Of the neighbours, with which their lines were connected."""
        if keyring is not None:
            keyring.on_change.append(self._rekey)
        try:
            self.open(peers)
        except BaseException:
            self.close()
            raise

    def open(self, peers: Mapping[int, str], longest: int = MAX_FRAME_BYTES) -> None:
        """Connect to these neighbours, none of whose frames is longer than so many bytes."""
        for peer, address in peers.items():
            anew = partial(self._subscriber, address, longest)
            if self._keyring is not None:
                anew = partial(anew, secure=partial(self._keyring.seek, agent=peer))
                self._keys[peer] = self._keyring.key_of(peer)
            self.lines[peer] = ZmqLine(peer, address, anew, self.dropped)

    def publish(self, part: bytes) -> None:
        """Send to whoever subscribed the topic that the part begins with."""
        self._publisher.send(part)
        self._sent_s = self.now_s()

    def event(self) -> bytes | None:
        """The next subscription, or whatever else a subscriber sent; of what has several parts only the number counts.

        Asking first, because there is almost never one, and recv would say so dearly. Then reading until there is none,
        without asking again: each time it is asked, ZeroMQ takes in all that has come, without any limit of its own.
        """
        if self._door.refused != self._refused:
            self._refused = self.dropped["refused-connections"] = self._door.refused
        if not self._has_events:
            if not int(self._publisher.getsockopt(zmq.EVENTS)) & _READABLE:
                return None
            self._has_events = True
        for _ in range(PARTS_AT_ONCE):
            try:
                part = self._next_event()
            except zmq.Again:
                self._has_events = self._within_message = False
                return None
            was_within, self._within_message = self._within_message, bool(self._publisher.getsockopt(zmq.RCVMORE))
            if not was_within and not self._within_message:
                if part is None:
                    continue
                return part
            self.dropped["multipart"] += not was_within
        return None

    def _next_event(self) -> bytes | None:
        """What a subscriber sent; None: it was not its to send."""
        if self._callers is None:
            return self._publisher.recv(zmq.NOBLOCK)
        return self._callers.judged(self._publisher.recv(zmq.NOBLOCK, copy=False))

    def _rekey(self) -> None:
        """A newer roster is in force: send away whom it does not name, and find those who have other keys by now."""
        assert self._keyring is not None  # noqa: S101
        assert self._callers is not None  # noqa: S101
        self._callers.send_away()
        for peer, line in self.lines.items():
            if (key := self._keyring.key_of(peer)) != self._keys[peer]:
                self._keys[peer] = key
                line.rekey()

    async def wait_for_any(self, lines: Iterable[Line]) -> None:
        """Wait, a slice of time at most, for a subscription or for something on these lines."""
        sockets = [self._publisher]
        for line in map(self.lines.__getitem__, (line.id for line in lines)):
            line.route.find()
            sockets.append(line.socket)
        zmq.select(sockets, [], [], SLICE_MS / 1000)

    async def ready(self, lines: Iterable[Line], seconds: float) -> Collection[int]:
        """On whose lines something lies ready; where there is nothing, wait for it for so long at most."""
        watched = [self.lines[line.id] for line in lines]
        disturbed = {
            line.id for line in watched if line.waiting or line.fault is not None
        }  # these know more themselves
        poller = zmq.Poller()
        for line in watched:
            poller.register(line.socket, zmq.POLLIN)
        seconds = min(seconds, LOOK_DISTURBED_S) if disturbed else seconds
        ready = dict(poller.poll(math.ceil(seconds * 1000)))
        if ready and len(watched) - len(ready) > FEW and seconds > TOGETHER_S:
            # To be woken for each of them costs more than the frames.
            time.sleep(min(TOGETHER_S, TOGETHER_SHARE * (self.now_s() - self._sent_s)))
            ready = dict(poller.poll(0))
        return disturbed | {line.id for line in watched if line.socket in ready}

    async def pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Let time pass, unless told to stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)

    def close(self) -> None:
        """Let the last frame leave and close."""
        for line in self.lines.values():
            line.close()
        self._publisher.close()
        self._door.close()

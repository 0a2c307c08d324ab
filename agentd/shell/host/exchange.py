"""Where the agents of one process hear each other, and those of other processes: the transport of a hosted agent.

A part goes from who publishes it into the queues of who listens, as the bytes that it is; it is checked by each
listener as if it had come through a socket, and decoded once for all (`wire.reading`). There is no socket in between,
not even ZeroMQ's inproc://: a pair of those takes 50 kB and five descriptors a link, and hands each part over through
another thread's mailbox, while here it is one append. What ZeroMQ sees to is kept: who listens is told by events in its
own words, a queue that nobody reads has an end, a listener that comes back is told of again, and who is gone hears
nothing. The sender of a part is known by construction.

For agents elsewhere there is a trunk to their host (`shell.host.trunk`), which is told once for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from agentd.shell.host.crowd import Crowd
from agentd.shell.host.waits import Waits, wake
from agentd.shell.sockets import QUEUE_FRAMES, SLICE_MS
from agentd.shell.transport import FEW, LOOK_DISTURBED_S, TOGETHER_S, Line
from agentd.wire.reading import KnownFrames
from agentd.wire.topics import FRAME_TOPIC, sync_topic

if TYPE_CHECKING:  # only a testbed with injected faults loads it
    from agentd.shell.fault_injection import FaultyLine

QUEUE_PARTS = 2 * QUEUE_FRAMES
"""Parts of one neighbour that may lie unread, as in the queues of both sides of a socket."""
SLICE_PER_AGENT_S = 0.002
LONGEST_SLICE_S = 5.0
"""Where many share a process a round may take long, and who is woken to see that nothing has come keeps others from
working. Signals do not wait for it: the process hears them itself."""


class Trunk(Protocol):
    """What leads to agents of other processes."""

    def join(self, listener: int, speaker: int, joined: bool) -> None:
        """One of ours begins or ceases to listen to one of theirs."""
        ...

    def say(self, host: int, speaker: int, part: bytes) -> None:
        """One of ours publishes something that agents of that host listen to."""
        ...


class HostedLine:
    """What one neighbour said to one agent of this process."""

    __slots__ = ("_end", "_unread", "address", "fault", "id", "is_open", "parts", "waiting")

    def __init__(self, end: HostedTransport, number: int, address: str) -> None:
        self._end = end
        self._unread = end.unread
        self.id = number
        self.address = address
        self.parts: deque[bytes] = deque()
        self.waiting: deque[bytes] = deque()
        """Parts that come before those."""
        self.is_open = True
        self.fault: FaultyLine | None = None

    def hear(self, part: bytes) -> None:
        """Something came; what does not fit is lost, and counted by who misses its number."""
        if self.is_open and len(self.parts) < QUEUE_PARTS:
            self.parts.append(part)
            self._unread.add(self.id)
            self._end.came(self.id)

    def receive(self, wait: bool) -> bytes | None:  # noqa: ARG002 - others of the process are not kept waiting
        """The next part, if there is one."""
        if self.waiting:
            return self.waiting.popleft()
        return self.read(0) if self.fault is None else self.fault.receive(False)

    def read(self, flags: int) -> bytes | None:  # noqa: ARG002
        """The next part, whatever an operator injects."""
        if not self.parts:
            return None
        part = self.parts.popleft()
        if not self.parts:
            self._unread.discard(self.id)
        return part

    def rest(self, milliseconds: int) -> None:
        """Nobody waits here."""

    def put_back(self, part: bytes) -> None:
        """Keep a part that was read too early."""
        self.waiting.append(part)

    def is_readable(self) -> bool:
        """Whether something lies ready."""
        return bool(self.waiting or self.parts)

    def reconnect(self) -> None:
        """Listen anew, so that the neighbour sees it."""
        if self.fault is not None and self.fault.cut:
            return
        self._end.exchange.leave(self._end.own, self.id)
        self.is_open = True
        self._end.exchange.join(self._end.own, self.id, self)

    def disconnect(self) -> None:
        """Hear nothing of the neighbour until connected anew, and drop what lies unread."""
        self.parts.clear()
        self._unread.discard(self.id)
        self.waiting.clear()
        self.is_open = False
        self._end.exchange.leave(self._end.own, self.id)


class HostedTransport:
    """How the frames of one agent among many leave, and how its neighbours' come."""

    def __init__(self, exchange: Exchange, own: int) -> None:
        self.exchange = exchange
        self.own = own
        self.dropped: Counter[str] = Counter()
        self.lines: dict[int, HostedLine] = {}
        self.unread: set[int] = set()
        """Whose parts lie ready, so that a whole round is looked for at once; not those that were put back."""
        self.now_s = exchange.waits.now_s
        self.slice_s = exchange.slice_s
        self.known_frames: KnownFrames | None = exchange.known_frames
        self._events: deque[bytes] = deque()
        self._missing: set[int] = set()
        self._any = False
        self._waiting: asyncio.Future[None] | None = None
        self._ears, self._far = exchange.enter(self)

    @property
    def crowd_s(self) -> float:
        """How far apart what comes in time may come, because agents of the process take turns."""
        return self.exchange.crowd.round_s

    def open(self, peers: Mapping[int, str], longest: int) -> None:  # noqa: ARG002 - the rounds judge what is too long
        """Listen to these neighbours."""
        for peer, address in peers.items():
            line = self.lines[peer] = HostedLine(self, peer, address)
            self.exchange.join(self.own, peer, line)

    def publish(self, part: bytes) -> None:
        """Hand it to all who listen, or to the one whose topic it begins with."""
        if part.startswith(FRAME_TOPIC):
            self.exchange.crowd.published()
            for line in self._ears.values():
                line.hear(part)
            for host in self._far:
                self.exchange.trunk.say(host, self.own, part)
            return
        for listener, line in self._ears.items():
            if part.startswith(sync_topic(listener)):
                line.hear(part)
                return
        for host, listeners in self._far.items():
            if any(part.startswith(sync_topic(listener)) for listener in listeners):
                self.exchange.trunk.say(host, self.own, part)
                return

    def event(self) -> bytes | None:
        """The next subscription."""
        return self._events.popleft() if self._events else None

    def sees(self, event: bytes) -> None:
        """Somebody began or ceased to listen; whoever waits looks at that soon."""
        self._events.append(event)
        wake(self._waiting)

    def came(self, sender: int) -> None:
        """Something lies ready on a line."""
        if self._waiting is None:
            return
        self._missing.discard(sender)
        if self._any or not self._missing:
            wake(self._waiting)

    async def gather(self, senders: Sequence[int]) -> None:
        """Let others go on until something lies ready of each of these, or a slice of time is over."""
        if self.unread.issuperset(senders):
            return
        lines = self.lines
        end_s = self.now_s() + self.exchange.slice_s
        while missing := {number for number in senders if not lines[number].is_readable()}:
            faulty = [lines[number] for number in missing if lines[number].fault is not None]
            for line in faulty:
                if (part := line.receive(False)) is not None:
                    line.put_back(part)
                    missing.discard(line.id)
            left_s = end_s - self.now_s()
            if not missing or left_s <= 0 or self._events:
                return
            await self._wait(min(left_s, LOOK_DISTURBED_S) if faulty else left_s, missing)
            if self.unread.issuperset(senders):
                return

    async def wait_for_any(self, lines: Iterable[Line]) -> None:
        """Wait, a slice of time at most, for a subscription or for something on these lines."""
        if not self._events and not any(line.is_readable() for line in lines):
            await self._wait(self.slice_s, set(), for_any=True)

    async def ready(self, lines: Iterable[Line], seconds: float) -> Collection[int]:
        """On whose lines something lies ready; where there is nothing, wait for it for so long at most."""
        watched = [self.lines[line.id] for line in lines]
        disturbed = {line.id for line in watched if line.fault is not None}
        if not any(line.is_readable() for line in watched):
            await self._wait(min(seconds, LOOK_DISTURBED_S) if disturbed else seconds, set(), for_any=True)
        missing = {line.id for line in watched if not line.is_readable()}
        if FEW < len(missing) < len(watched) and seconds > TOGETHER_S:
            await self._wait(TOGETHER_S, missing)  # to be woken for each of them costs more than the frames
        return disturbed | {line.id for line in watched if line.is_readable()}

    async def pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Let time pass, unless told to stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)

    def interrupt(self) -> None:
        """Let it look at once whether it is to stop."""
        wake(self._waiting)

    def close(self) -> None:
        """Hear and be heard no more."""
        self.exchange.exit(self)

    async def _wait(self, seconds: float, missing: set[int], *, for_any: bool = False) -> None:
        self._missing, self._any = missing, for_any
        self._waiting = self.exchange.waits.within(seconds)
        try:
            await self._waiting
        finally:
            self._waiting = None


class Exchange:
    """Who listens to whom, as far as one of them is in this process."""

    def __init__(
        self,
        waits: Waits,
        agents: int,
        host_of: Callable[[int], int | None],
        trunk: Trunk,
        spent_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`host_of` tells the host of an agent elsewhere; None: it is in this process, or nowhere.

        `spent_s` tells the processor time of the process, where agents are to make allowance for each other.
        """
        self.waits = waits
        self.crowd = Crowd(agents, spent_s)
        self.trunk = trunk
        self.slice_s = min(max(SLICE_MS / 1000, SLICE_PER_AGENT_S * agents), LONGEST_SLICE_S)
        self.host_of = host_of
        self.known_frames = KnownFrames()
        """What was heard here, read once for all."""
        self._ends: dict[int, HostedTransport] = {}
        self._ears: dict[int, dict[int, HostedLine]] = {}
        """By speaker: the lines of those here that listen to it."""
        self._far: dict[int, dict[int, set[int]]] = {}
        """By speaker, one of ours: the hosts where somebody listens to it, and who."""
        self.strayed = 0
        """Parts and subscriptions that other hosts sent in a name that is not theirs."""

    def enter(self, end: HostedTransport) -> tuple[Mapping[int, HostedLine], Mapping[int, Collection[int]]]:
        """One of ours is there, and sees who listens to it already; who listens to it, here and elsewhere."""
        own = end.own
        self._ends[own] = end
        ears, far = self._ears.setdefault(own, {}), self._far.setdefault(own, {})
        for listener in (*ears, *(each for listeners in far.values() for each in listeners)):
            end.sees(_event(listener, joined=True))
        return ears, far

    def exit(self, end: HostedTransport) -> None:
        """It is gone; who listens to it goes on doing so, in case that it comes back."""
        if self._ends.get(end.own) is end:
            del self._ends[end.own]
            for peer in end.lines:
                self.leave(end.own, peer)

    def join(self, listener: int, speaker: int, line: HostedLine) -> None:
        """One of ours begins to listen."""
        self._ears.setdefault(speaker, {})[listener] = line
        if self.host_of(speaker) is not None:
            self.trunk.join(listener, speaker, True)
        elif speaker in self._ends:
            self._ends[speaker].sees(_event(listener, joined=True))

    def leave(self, listener: int, speaker: int) -> None:
        """One of ours ceases to listen."""
        if self._ears.get(speaker, {}).pop(listener, None) is None:
            return
        if self.host_of(speaker) is not None:
            self.trunk.join(listener, speaker, False)
        elif speaker in self._ends:
            self._ends[speaker].sees(_event(listener, joined=False))

    def ears_at(self, host: int) -> list[tuple[int, int]]:
        """Who of ours listens to whom of another host."""
        return [
            (listener, speaker)
            for speaker, ears in self._ears.items()
            if self.host_of(speaker) == host
            for listener in ears
        ]

    def far_ear(self, host: int, listener: int, speaker: int, joined: bool) -> None:
        """An agent of another host begins or ceases to listen to one of ours."""
        if self.host_of(listener) != host or self.host_of(speaker) is not None:
            self.strayed += 1
            return
        listeners = self._far.setdefault(speaker, {}).setdefault(host, set())
        if joined:
            listeners.add(listener)
        else:
            listeners.discard(listener)
            if not listeners:
                del self._far[speaker][host]
        if speaker in self._ends:
            self._ends[speaker].sees(_event(listener, joined=joined))

    def far_part(self, host: int, speaker: int, part: bytes) -> None:
        """An agent of another host published something."""
        if self.host_of(speaker) != host:
            self.strayed += 1
            return
        ears = self._ears.get(speaker, {})
        if part.startswith(FRAME_TOPIC):
            for line in ears.values():
                line.hear(part)
            return
        for listener, line in ears.items():
            if part.startswith(sync_topic(listener)):
                line.hear(part)
                return

    def host_left(self, host: int) -> None:
        """Another process is gone, and all who listened in it."""
        for speaker, far in self._far.items():
            for listener in far.pop(host, ()):
                if speaker in self._ends:
                    self._ends[speaker].sees(_event(listener, joined=False))


def _event(listener: int, *, joined: bool) -> bytes:
    """As ZeroMQ tells it."""
    return (b"\x01" if joined else b"\x00") + sync_topic(listener)

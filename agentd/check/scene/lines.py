"""Lines between agents that take time, lose, repeat and overtake: the transport of a link, without sockets.

A line is a PUB/SUB link over TCP, from who speaks to who listens: in order, unless told otherwise; what is said while
nobody listens is gone; what nobody reads is kept up to a limit. Who listens connects, and again when the other comes
back, as ZeroMQ does.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from agentd.check.scene.fibers import Fiber, Timeline
from agentd.shell.sockets import QUEUE_FRAMES, SLICE_MS
from agentd.shell.transport import Line
from agentd.wire.topics import FRAME_TOPIC, sync_topic

SLICE_S = SLICE_MS / 1000
QUEUE_PARTS = 2 * QUEUE_FRAMES
"""What a line holds that nobody reads: the queues of both sides."""
CONNECT_S = 0.01
MOST_CONNECT_S = 1.0
"""How soon somebody connects again to who is not there: at first, and after it was doubled again and again."""


class End(Protocol):
    """Who is at the end of a line, for one life."""

    own: int
    is_up: bool

    def hears(self, sender: int, part: bytes) -> None:
        """Something came."""
        ...

    def sees(self, subscriber: int, joined: bool) -> None:
        """Somebody began or ceased to listen."""
        ...

    def wants(self, speaker: int) -> bool:
        """Whether it is to be connected to another."""
        ...


@dataclass(slots=True)
class Weather:
    """What befalls parts, by chance, at present."""

    loss: float = 0.0
    duplication: float = 0.0
    reordering_s: float = 0.0


@dataclass(slots=True)
class Wires:
    """All lines of a world."""

    timeline: Timeline
    chance: random.Random
    latency_s: float
    jitter_s: float
    weather: Weather = field(default_factory=Weather)
    ends: dict[int, End] = field(default_factory=dict)
    slow_s: dict[int, float] = field(default_factory=dict)
    """Whose parts take longer, and by how much."""
    slow_lines_s: dict[tuple[int, int], float] = field(default_factory=dict)
    cuts: Counter[tuple[int, int]] = field(default_factory=Counter)
    """From whom to whom nothing gets through: it is lost."""
    stalls: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The same, but it comes later."""
    lost: int = 0
    """Parts that never came."""
    _open: set[tuple[int, int]] = field(default_factory=set)
    _stalled: dict[tuple[int, int], deque[bytes]] = field(default_factory=dict)
    _arrived_s: dict[tuple[int, int], float] = field(default_factory=dict)

    def say(self, sender: int, receiver: int, part: bytes) -> None:
        """Put a part on the line between two."""
        line = sender, receiver
        weather = self.weather
        if line not in self._open:
            self.lost += self.ends[receiver].is_up
            return
        if self.cuts[line] or (weather.loss and self.chance.random() < weather.loss):
            self.lost += 1
            return
        if self.stalls[line]:
            kept = self._stalled.setdefault(line, deque())
            self._keep(kept, part)
            return
        twice = weather.duplication and self.chance.random() < weather.duplication
        for _ in range(2 if twice else 1):
            self._carry(line, part)

    def _keep(self, queue: deque[bytes], part: bytes) -> None:
        """Put a part into a queue that has room, else it is lost."""
        if len(queue) < QUEUE_PARTS:
            queue.append(part)
        else:
            self.lost += 1

    def _carry(self, line: tuple[int, int], part: bytes) -> None:
        timeline, weather = self.timeline, self.weather
        when_s = timeline.now_s + self.latency_s + self.slow_s.get(line[0], 0.0) + self.slow_lines_s.get(line, 0.0)
        if self.jitter_s:
            when_s += self.jitter_s * self.chance.random()
        if weather.reordering_s:
            when_s += weather.reordering_s * self.chance.random()
        else:
            when_s = max(when_s, self._arrived_s.get(line, 0.0))
            self._arrived_s[line] = when_s
        receiver = self.ends[line[1]]
        timeline.at(when_s, lambda: self._arrive(receiver, line, part))

    def _arrive(self, receiver: End, line: tuple[int, int], part: bytes) -> None:
        """What is under way comes, also where its sender is gone by now."""
        if receiver.is_up and self.ends[line[1]] is receiver:
            if receiver.wants(line[0]):
                receiver.hears(line[0], part)
            else:
                self.lost += 1

    def flow(self, line: tuple[int, int]) -> None:
        """A stall is over: what was kept comes now."""
        for part in self._stalled.pop(line, ()):
            self._carry(line, part)

    def listen(self, listener: End, speaker: int, after_s: float = CONNECT_S) -> None:
        """Let somebody connect to another, now or as soon as that one is there."""

        def connect() -> None:
            if not listener.is_up or self.ends.get(listener.own) is not listener or not listener.wants(speaker):
                return
            if (speaker, listener.own) in self._open:
                return
            other = self.ends.get(speaker)
            if other is None or not other.is_up or self._is_apart(speaker, listener.own):
                self.listen(listener, speaker, min(2 * after_s, MOST_CONNECT_S))
                return
            self._open.add((speaker, listener.own))
            other.sees(listener.own, True)

        self.timeline.at(self.timeline.now_s + after_s, connect)

    def pretend(self, listener: int, speaker: int) -> None:
        """Have somebody see a listener that does not listen."""
        if self.ends[speaker].is_up:
            self.ends[speaker].sees(listener, True)

    def _is_apart(self, one: int, other: int) -> bool:
        return bool(self.cuts[one, other] or self.cuts[other, one] or self.stalls[one, other])

    def hang_up(self, listener: int, speaker: int) -> None:
        """Listen no more."""
        if (speaker, listener) in self._open:
            self._open.discard((speaker, listener))
            other = self.ends[speaker]
            if other.is_up:
                self.timeline.at(self.timeline.now_s + self.latency_s, lambda: other.sees(listener, False))

    def gone(self, end: End, neighbours: Iterable[int]) -> None:
        """A process ended: all its connections break, and who listened to it tries again."""
        own = end.own
        for other in neighbours:
            self.hang_up(own, other)
            self._stalled.pop((other, own), None)
            self._open.discard((own, other))
            if other in self.ends:
                self.listen(self.ends[other], own)


class MemoryLine:
    """What one neighbour said."""

    def __init__(self, end: MemoryEnd, number: int) -> None:
        self._end = end
        self.id = number
        self.address = f"memory://{number}"
        self.parts: deque[bytes] = deque()
        self._put_back: deque[bytes] = deque()
        self.is_open = True

    def receive(self, wait: bool) -> bytes | None:
        """The next part; where waiting is allowed, time passes until it comes, or until the slice is over."""
        if self._put_back:
            return self._put_back.popleft()
        if wait and not self.parts:
            self._end.let_pass(SLICE_S, lambda: bool(self.parts))
        return self.parts.popleft() if self.parts else None

    def put_back(self, part: bytes) -> None:
        self._put_back.append(part)

    def is_readable(self) -> bool:
        return bool(self.parts or self._put_back)

    def reconnect(self) -> None:
        self._end.wires.hang_up(self._end.own, self.id)
        self.is_open = True
        self._end.wires.listen(self._end, self.id)

    def disconnect(self) -> None:
        self.parts.clear()
        self._put_back.clear()
        self.is_open = False
        self._end.wires.hang_up(self._end.own, self.id)


class MemoryEnd:
    """The transport of one life of an agent."""

    gather = None
    known_frames = None
    crowd_s = 0.0
    slice_s = SLICE_S

    def __init__(self, own: int, wires: Wires, fiber: Callable[[], Fiber], clock: Callable[[], float]) -> None:
        self.own = own
        self.wires = wires
        self.now_s = clock
        self.is_up = True
        self.lines: dict[int, MemoryLine] = {}
        self.dropped: Counter[str] = Counter()
        self.before_publishing: Callable[[bytes], None] = lambda _part: None
        self.after_publishing: Callable[[], None] = lambda: None
        self._fiber = fiber
        self._events: deque[bytes] = deque()

    def open(self, peers: Mapping[int, str], longest: int) -> None:  # noqa: ARG002 - the machine judges what is too long
        """Connect to these neighbours."""
        for peer in peers:
            self.lines[peer] = MemoryLine(self, peer)
            self.wires.listen(self, peer)

    def hears(self, sender: int, part: bytes) -> None:
        line = self.lines[sender]
        if line.is_open:
            self.wires._keep(line.parts, part)
            self.poke()

    def sees(self, subscriber: int, joined: bool) -> None:
        if self.is_up:
            self._events.append((b"\x01" if joined else b"\x00") + sync_topic(subscriber))
            self.poke()

    def wants(self, speaker: int) -> bool:
        return speaker in self.lines and self.lines[speaker].is_open

    def publish(self, part: bytes) -> None:
        """Say it to all neighbours, or to the one whose topic it is."""
        if not self.is_up:
            return
        self.before_publishing(part)
        for peer in self.lines:
            if part.startswith((FRAME_TOPIC, sync_topic(peer))):
                self.wires.say(self.own, peer, part)
        self.after_publishing()

    def event(self) -> bytes | None:
        return self._events.popleft() if self._events else None

    async def wait_for_any(self, lines: Iterable[Line]) -> None:
        watched = [self.lines[line.id] for line in lines]
        self.let_pass(SLICE_S, lambda: bool(self._events) or any(line.is_readable() for line in watched))

    async def ready(self, lines: Iterable[Line], seconds: float) -> Collection[int]:
        watched = [self.lines[line.id] for line in lines]
        self.let_pass(seconds, lambda: any(line.is_readable() for line in watched))
        return {line.id for line in watched if line.is_readable()}

    async def pause(self, seconds: float, stop: asyncio.Event) -> None:
        self.let_pass(seconds, stop.is_set)

    def let_pass(self, seconds: float, ready: Callable[[], bool]) -> None:
        """Wait, until something is ready or for so long."""
        self._fiber().wait(self.wires.timeline.now_s + max(0.0, seconds), ready)

    def poke(self) -> None:
        """Something has come for the process."""
        self._fiber().poke()

    def close(self) -> None:
        """Its process ends."""
        self.is_up = False

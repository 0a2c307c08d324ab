"""A link's transport whose clock is a number: what neighbours say, and when, is what a test says."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable

from loopback import Voice

from agentd.shell.sockets import SLICE_MS
from agentd.shell.transport import Line
from agentd.wire.codec import decode_frame
from agentd.wire.frame import Frame
from agentd.wire.topics import FRAME_TOPIC, sync_topic

SLICE_S = SLICE_MS / 1000


class VirtualLine:
    """What one neighbour said."""

    def __init__(self, transport: VirtualTransport, number: int) -> None:
        self._transport = transport
        self.id = number
        self.address = f"virtual://{number}"
        self.parts: deque[bytes] = deque()
        self.reconnected = 0

    def receive(self, wait: bool) -> bytes | None:
        """The next part; where waiting is allowed, time passes until it comes, or until the slice is over."""
        if wait:
            self._transport.pass_time(SLICE_S, lambda: bool(self.parts))
        return self.parts.popleft() if self.parts else None

    def put_back(self, part: bytes) -> None:
        self.parts.appendleft(part)

    def is_readable(self) -> bool:
        return bool(self.parts)

    def reconnect(self) -> None:
        self.reconnected += 1

    def disconnect(self) -> None:
        self.parts.clear()


class VirtualTransport:
    """The lines of one agent; `sent` is what it published, and when."""

    gather = None
    known_frames = None
    crowd_s = 0.0
    slice_s = SLICE_S

    def __init__(self, own: int, peers: Iterable[int]) -> None:
        self.own = own
        self.lines = {peer: VirtualLine(self, peer) for peer in peers}
        self.dropped: Counter[str] = Counter()
        self.sent: list[tuple[float, bytes]] = []
        self.slices = 0
        """How often somebody waited."""
        self._events: deque[bytes] = deque()
        self._now_s = 0.0
        self._planned: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, when_s: float, event: Callable[[], None]) -> None:
        """Let something happen when that time is reached."""
        heapq.heappush(self._planned, (when_s, len(self._planned), event))

    def pass_time(self, seconds: float, over: Callable[[], bool]) -> None:
        """Let what is planned happen, one after the other, until it is over or so much time has passed."""
        self.slices += 1
        end_s = self._now_s + seconds
        while not over() and self._planned and self._planned[0][0] <= end_s:
            when_s, _, event = heapq.heappop(self._planned)
            self._now_s = max(self._now_s, when_s)
            event()
        if not over():
            self._now_s = end_s

    def subscribe(self, topic: bytes) -> None:
        self._events.append(b"\x01" + topic)

    def publish(self, part: bytes) -> None:
        self.sent.append((self._now_s, part))

    def event(self) -> bytes | None:
        return self._events.popleft() if self._events else None

    def now_s(self) -> float:
        return self._now_s

    async def wait_for_any(self, lines: Iterable[Line]) -> None:
        watched = [self.lines[line.id] for line in lines]
        self.pass_time(SLICE_S, lambda: bool(self._events) or any(line.parts for line in watched))

    async def ready(self, lines: Iterable[Line], seconds: float) -> set[int]:
        watched = [self.lines[line.id] for line in lines]
        if not any(line.parts for line in watched):
            self.pass_time(seconds, lambda: any(line.parts for line in watched))
        return {line.id for line in watched if line.parts}

    async def pause(self, seconds: float, stop: asyncio.Event) -> None:
        self.pass_time(seconds, stop.is_set)

    def close(self) -> None:
        """Nothing is open."""

    def frames(self, topic: bytes = FRAME_TOPIC) -> list[tuple[float, Frame]]:
        """What was published under a topic, and when."""
        return [(when, decode_frame(part[len(topic) :])) for when, part in self.sent if part.startswith(topic)]


class VirtualPeer(Voice):
    """A neighbour that says what a test tells it to say, at once or at a time."""

    def __init__(self, transport: VirtualTransport, own: int) -> None:
        super().__init__(own, transport.own)
        self._transport = transport

    def say(self, part: bytes) -> None:
        self._transport.lines[self.own].parts.append(part)

    def join(self) -> None:
        """Hear the other and be heard by it."""
        self._transport.subscribe(sync_topic(self.own))
        self.greet()

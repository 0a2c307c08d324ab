"""A link's transport without sockets: what neighbours say is there at once, and waiting is a number that grows."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable

from agentd.shell.transport import Line, ZmqTransport

SLICE_S = 0.05
"""How long a line is waited for at once."""


class VirtualLine:
    """What one neighbour said."""

    def __init__(self, lines: VirtualLines, number: int) -> None:
        self._lines = lines
        self.id = number
        self.address = f"virtual://{number}"
        self.parts: deque[bytes] = deque()

    def receive(self, wait: bool) -> bytes | None:
        """The next part; where there is none and waiting is allowed, time passes."""
        if self.parts:
            return self.parts.popleft()
        if wait:
            self._lines.pass_time(SLICE_S)
        return None

    def put_back(self, part: bytes) -> None:
        self.parts.appendleft(part)

    def is_readable(self) -> bool:
        return bool(self.parts)

    def reconnect(self) -> None:
        """Nothing was cut."""

    def disconnect(self) -> None:
        self.parts.clear()


class VirtualLines:
    """The lines of one agent in one life."""

    gather = None
    known_frames = None
    crowd_s = 0.0
    slice_s = ZmqTransport.slice_s

    def __init__(self, peers: Iterable[int], publish: Callable[[bytes], None]) -> None:
        self.lines = {peer: VirtualLine(self, peer) for peer in peers}
        self.dropped: Counter[str] = Counter()
        self.publish = publish
        self._events: deque[bytes] = deque()
        self._now_s = 0.0

    def say(self, sender: int, part: bytes) -> None:
        """Let the agent find a part of a neighbour."""
        self.lines[sender].parts.append(part)

    def subscribe(self, topic: bytes) -> None:
        """Let the agent see that somebody subscribes."""
        self._events.append(b"\x01" + topic)

    def pass_time(self, seconds: float) -> None:
        self._now_s += seconds

    def event(self) -> bytes | None:
        return self._events.popleft() if self._events else None

    def now_s(self) -> float:
        return self._now_s

    async def wait_for_any(self, lines: Iterable[Line]) -> None:
        """Time passes where there is nothing."""
        if not self._events and not any(line.is_readable() for line in lines):
            self.pass_time(SLICE_S)

    async def ready(self, lines: Iterable[Line], seconds: float) -> set[int]:
        found = {line.id for line in lines if line.is_readable()}
        if not found:
            self.pass_time(seconds)
        return found

    async def pause(self, seconds: float, stop: asyncio.Event) -> None:  # noqa: ARG002 - nobody stops us meanwhile
        self.pass_time(seconds)

    def close(self) -> None:
        """Nothing is open."""

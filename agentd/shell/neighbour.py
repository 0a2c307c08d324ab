"""One neighbour as the link sees it: its socket, how far it is, whether it is there."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import zmq

from agentd.shell.resolve import Route
from agentd.wire.expectation import Expectation
from agentd.wire.frame import Frame

if TYPE_CHECKING:  # only a testbed with injected faults loads it
    from agentd.shell.faulty import FaultyLine

LATE_FRAMES_AT_ONCE = 16
"""Frames taken at once from a neighbour that is not waited for."""


@dataclass(slots=True, eq=False)
class Neighbour:
    """What is known of one neighbour."""

    id: int
    address: str
    socket: zmq.Socket[bytes]
    hears_us: bool = False
    """Its subscription was seen."""
    greeted: bool = False
    """Something of its run came from it."""
    kicked: bool = False
    """It was connected to anew, because it was late to start."""
    live: bool = True
    """Rounds wait for it."""
    left: bool = False
    """It said goodbye."""
    round: int = 0
    """The newest round it is known to have reached."""
    held_up_in: int = -1
    """The newest round of ours in which it said that it is held up itself."""
    held: Frame | None = None
    """A frame of a round that we have not reached yet."""
    late_bytes: int = 0
    """How much it has said about earlier rounds, within the one below."""
    late_in: int = 0
    waiting: deque[bytes] = field(default_factory=deque)
    """Parts that came before rounds began."""
    heard_s: float = field(default_factory=time.monotonic)
    """When something came from it, or when it was last connected to; only those who wait for nobody ask."""
    incarnation: int = -1
    sequence: int = 0
    expected: Expectation | None = None
    """Its next frame, if it goes on as it did in the last round."""
    fault: FaultyLine | None = None
    """What an operator injects between it and us."""
    route: Route = field(init=False)

    def __post_init__(self) -> None:
        self.route = Route(self.socket, self.address)

    def receive(self, flags: int = 0) -> bytes | None:
        """The next part, or None when there is none (at once with NOBLOCK, else within a slice)."""
        if self.waiting:
            return self.waiting.popleft()
        if self.fault is not None:
            return self.fault.receive(flags)
        try:
            return self.socket.recv(flags)
        except zmq.Again:
            return None

    def reconnect(self) -> None:
        """Connect anew: after an oversized frame libzmq does not by itself, and its back-off may have grown long."""
        if self.fault is not None and self.fault.cut:
            return  # the other side would answer, and both would connect anew for as long as the cut lasts
        self.route.renew()

    def is_followed_up_by(self, frame: Frame) -> bool:
        """Whether it is the next frame of a neighbour that goes on as before; if so, it is noted."""
        if (
            frame.sequence == self.sequence + 1
            and frame.incarnation == self.incarnation
            and frame.sender == self.id
            and not frame.flags
            and self.live
        ):
            self.sequence, self.round = frame.sequence, max(self.round, frame.round)
            return True
        return False

    def note(self, frame: Frame, dropped: Counter[str]) -> None:
        """Keep track of incarnation, sequence and round of a frame; count what was lost in between."""
        self.greeted = True
        self.round = max(self.round, frame.round)
        if frame.greeting:
            return
        self.expected = None
        if frame.incarnation != self.incarnation:
            self.incarnation, self.sequence = frame.incarnation, frame.sequence
        elif frame.sequence > self.sequence:
            if lost := frame.sequence - self.sequence - 1:
                dropped["lost-frames"] += lost
            self.sequence = frame.sequence
        self.left = frame.goodbye

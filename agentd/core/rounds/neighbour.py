"""One neighbour as the rounds know it: how it stands to us, how far it is, and what it said too early."""

from __future__ import annotations

from enum import IntEnum
from typing import Generic, Protocol, TypeVar

SLACK = 64
"""How many rounds anybody may be ahead of where the run is known to be."""
MOST_LOST = 2 * SLACK
"""A gap in a sequence that is larger is no number of lost frames, but a jump."""

LATELY_TURNS = 8
"""For how many of our own rounds what a neighbour said is news."""


class Standing(IntEnum):
    """How a neighbour stands to us; rounds wait for those up to LIVE."""

    UNKNOWN = 0
    """Nothing came from it, and it does not hear us."""
    LISTENING = 1
    """It hears us: its subscription was seen. Nothing came from it yet."""
    SPEAKING = 2
    """Something of its run came from it; its subscription was not seen, or ended."""
    LIVE = 3
    """We hear each other."""
    DOWN = 4
    """It was missing in a round, or at the start, or too late too often; rounds go on without it."""
    LEFT = 5
    """It said goodbye."""


_HEARD = {Standing.UNKNOWN: Standing.SPEAKING, Standing.LISTENING: Standing.LIVE}
_JOINED = {Standing.UNKNOWN: Standing.LISTENING, Standing.SPEAKING: Standing.LIVE, Standing.LEFT: Standing.DOWN}
_PARTED = {Standing.LISTENING: Standing.UNKNOWN, Standing.LIVE: Standing.SPEAKING}
"""Where a neighbour stands after something came from it, and after its subscription began or ended."""

_LIVE = Standing.LIVE
"""Looked up once: a member of an enumeration costs as much as a comparison, and rounds compare all the time."""


class FrameHead(Protocol):
    """What is looked at of a frame."""

    incarnation: int
    sequence: int
    round: int
    flags: int

    @property
    def greeting(self) -> bool:
        """Whether it only says where its sender is."""
        ...

    @property
    def goodbye(self) -> bool:
        """Whether its sender leaves on purpose."""
        ...

    @property
    def messages(self) -> int:
        """How many messages it carries."""
        ...


Frame = TypeVar("Frame", bound=FrameHead)


class Neighbour(Generic[Frame]):
    """What is known of one neighbour."""

    __slots__ = (
        *("greet_at_s", "heard_s", "heard_turn", "held", "id", "incarnation", "is_missed", "pause_s"),
        *("quiet_since_s", "reconnected_s", "round", "said", "sequence", "shunned", "shunned_until_s"),
        *("standing", "timely", "timely_turn"),
    )

    def __init__(self, number: int, now_s: float) -> None:
        self.id = number
        self.standing = Standing.UNKNOWN
        self.round = 0
        """The newest round it is known to have reached."""
        self.incarnation = -1
        self.sequence = 0
        self.held: Frame | None = None
        """A frame of a round that we have not reached yet."""
        self.quiet_since_s = now_s
        """When it was last heard, or connected to; only those who wait for nobody ask."""
        self.heard_s, self.pause_s = now_s, -1.0
        """When it was last heard, and its longest pause so far (negative: it never was); only they ask."""
        self.heard_turn = 0
        self.said = 0
        """In which turn of ours a frame came last that was not just the next one, and the newest round in that turn."""
        self.timely = self.timely_turn = 0
        """How many timely frames came in a row since rounds went on without it, and in which turn the last one did."""
        self.is_missed = False
        """Whether people were told that rounds go on without it."""
        self.shunned, self.shunned_until_s = 0, -1e9
        """How often it was disconnected from because it sends without end, and until when it stays so."""
        self.greet_at_s = self.reconnected_s = -1e9
        """When its subscription may be answered again, and when one last made us connect to it anew."""

    @property
    def is_waited_for(self) -> bool:
        """Whether rounds wait for it."""
        return self.standing <= _LIVE

    def goes_on_with(self, frame: Frame) -> bool:
        """Whether it is the next frame of a neighbour that goes on as before."""
        return (
            frame.sequence == self.sequence + 1
            and frame.incarnation == self.incarnation
            and not frame.flags
            and self.standing <= _LIVE
        )

    def is_heard(self, turn: int) -> bool:
        """Whether frames come from it, though rounds do not wait for it."""
        return self.heard_turn > 0 and turn - self.heard_turn <= LATELY_TURNS

    def was_timely(self, turn: int) -> bool:
        """Whether its last timely frame is not long ago."""
        return turn - self.timely_turn <= LATELY_TURNS

    def says(self, round_: int, turn: int) -> None:
        """A frame of some round came in this turn of ours."""
        self.said = max(self.said, round_) if self.heard_turn == turn else round_
        self.heard_turn = turn

    def speaks(self) -> None:
        """Something of its run came from it."""
        self.standing = _HEARD.get(self.standing, self.standing)

    def joins(self) -> None:
        """Its subscription was seen."""
        self.standing = _JOINED.get(self.standing, self.standing)

    def parts(self) -> None:
        """Its subscription ended."""
        self.standing = _PARTED.get(self.standing, self.standing)

    def note(self, frame: Frame) -> int:
        """Keep track of incarnation, sequence and round; returns how many frames were lost before this one."""
        self.speaks()
        begins_anew = frame.incarnation != self.incarnation or frame.round > self.round
        self.round = max(self.round, frame.round)
        if frame.greeting:
            return 0
        if frame.goodbye:
            self.standing = Standing.LEFT
        elif self.standing is Standing.LEFT:
            self.standing = Standing.DOWN
        lost = 0
        if frame.incarnation == self.incarnation and frame.sequence > self.sequence:
            lost = frame.sequence - self.sequence - 1
        elif not begins_anew:
            return 0  # an older frame, or a repeated one; else a process that was started again, and counts from 1
        self.incarnation, self.sequence = frame.incarnation, frame.sequence
        return lost

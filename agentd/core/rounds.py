"""Who is waited for: the lockstep of one agent and its neighbours, without sockets and without a clock.

Theory of operation
-------------------

In lockstep an agent begins its next trial when it holds the frame of this round of every neighbour that it waits for.
Nobody coordinates: the neighbours alone keep each other in step. What comes in here are frames, greetings, goodbyes and
subscriptions, each with the time at which it came where that matters; what comes out is which frames a round is made
of, when the waiting is over, and orders for whoever holds the sockets (`Order`). The same inputs at the same times
give the same outputs, so faults can be played through in memory.

A round goes like this:

    enter(round)                  our frame of the round has left
    wait(now, timeout)            from here on the round waits for `waiting`; unless that is everybody:
    hear(neighbour, frame)            what came from neighbours that were given up (`down`), which may be catching up
    returned(neighbour)               ...and whether that brings one of them back
    settle(now)                       who is waited for after that
    hear(...), tick(now)          until nobody is waited for any more
    take()                        the frames that the round is made of

**Standing.** A neighbour stands in exactly one relation to us (`Standing`). Before rounds begin a link needs evidence
of both directions: something that the neighbour said, and its subscription to what we say. Rounds wait for everybody
up to LIVE. Whoever does not say its frame within the time is given up (DOWN) and costs that time once; it is waited
for again when something it says shows that it is at most one round behind us. Whoever says goodbye (LEFT) is neither
waited for nor listened to until it subscribes again.

**Held up is not gone.** An agent that waits for somebody who is gone is late itself. Half-way through its patience it
tells its neighbours so, with a greeting; who was heard to be held up in this round is given half of the time more,
once. So one death costs each agent in a chain its own timeout and makes nobody else be taken for dead.

**Early and late.** A frame of a later round than ours is held until ours gets there; from a neighbour that has one
held nothing more is read. A frame of an earlier round is used in this one, up to as many bytes as one frame may have:
everything taken in one round is in memory together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

KICK_AFTER_S = 1.0
"""By then a socket has backed off from a neighbour that was not there when we started."""
RECONNECT_EVERY_S = 2.0
"""How often neighbours that are down are connected to anew; each time their address is looked up again."""
DEAF_AFTER_S = 10.0
"""How long a neighbour may say nothing, where nobody waits for it, before it is connected to anew."""
MOST_LATE_BYTES = 4 << 20
"""How much a neighbour may say about earlier rounds within one; as much as a frame may hold."""
FRAME_OVERHEAD_BYTES = 1024
"""What even the smallest frame with a message in it takes up in memory, about."""


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
    """It was missing in a round, or at the start; rounds go on without it."""
    LEFT = 5
    """It said goodbye."""


_HEARD = {Standing.UNKNOWN: Standing.SPEAKING, Standing.LISTENING: Standing.LIVE}
_JOINED = {Standing.UNKNOWN: Standing.LISTENING, Standing.SPEAKING: Standing.LIVE, Standing.LEFT: Standing.DOWN}
_PARTED = {Standing.LISTENING: Standing.UNKNOWN, Standing.LIVE: Standing.SPEAKING}
"""Where a neighbour stands after something came from it, and after its subscription began or ended."""


_LIVE, _DOWN = Standing.LIVE, Standing.DOWN
"""Looked up once: a member of an enumeration costs as much as a comparison, and rounds compare all the time."""


class Do(IntEnum):
    """What whoever holds the sockets is asked to do."""

    GIVE_UP = 1
    """Nothing: it is told that a round went on without this neighbour."""
    WELCOME = 2
    """Nothing: it is told that this neighbour is waited for again."""
    GREET = 3
    """Tell this neighbour where we are: it subscribed, or somebody keeps us waiting."""
    RECONNECT = 4
    """Connect to this neighbour anew."""
    RECONNECT_UNLESS_HEARD = 5
    """The same, unless something from it lies ready to be read: the connection it came over is fine."""


class Order(NamedTuple):
    """One thing to do, and for which neighbour."""

    do: Do
    neighbour: int


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


Frame = TypeVar("Frame", bound=FrameHead)


class Neighbour(Generic[Frame]):
    """What is known of one neighbour."""

    __slots__ = ("held", "id", "incarnation", "quiet_since_s", "round", "sequence", "standing")

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

    def speaks(self) -> None:
        """Something of its run came from it."""
        self.standing = _HEARD.get(self.standing, self.standing)

    def note(self, frame: Frame) -> int:
        """Keep track of incarnation, sequence and round; returns how many frames were lost before this one."""
        self.speaks()
        self.round = max(self.round, frame.round)
        if frame.greeting:
            return 0
        if frame.goodbye:
            self.standing = Standing.LEFT
        elif self.standing is Standing.LEFT:
            self.standing = Standing.DOWN
        lost = 0
        if frame.incarnation != self.incarnation:
            self.incarnation, self.sequence = frame.incarnation, frame.sequence
        elif frame.sequence > self.sequence:
            lost = frame.sequence - self.sequence - 1
            self.sequence = frame.sequence
        return lost


class Rounds(Generic[Frame]):
    """The rounds of one agent; `dropped` counts what was lost or refused, by reason."""

    def __init__(self, neighbours: Iterable[int], *, now_s: float, dropped: Counter[str] | None = None) -> None:
        self.everybody: list[Neighbour[Frame]] = [Neighbour(number, now_s) for number in neighbours]
        """In one order for all rounds: see core.repetition."""
        self.round = 0
        self.dropped: Counter[str] = Counter() if dropped is None else dropped
        self._by_id = {neighbour.id: neighbour for neighbour in self.everybody}
        self._opened_s = self._tried_again_s = now_s
        self._deadline_s = self._last_deadline_s = self._tell_at_s = math.inf
        self._frames: list[Frame] = []
        self._arrived: set[Neighbour[Frame]] = set()
        """Whose part of this round is complete."""
        self._held_up: set[Neighbour[Frame]] = set()
        """Who said in this round that it is held up itself."""
        self._late_bytes: dict[Neighbour[Frame], int] = {}
        self.orders: list[Order] = []
        """What is to be done; mostly nothing."""
        self.waiting: Sequence[Neighbour[Frame]] = ()
        """Who is waited for now."""

    def __getitem__(self, number: int) -> Neighbour[Frame]:
        return self._by_id[number]

    @property
    def latest(self) -> int:
        """The furthest round that anybody we hear has reached, ourselves included."""
        return max([self.round, *[n.round for n in self.everybody]])

    @property
    def down(self) -> list[Neighbour[Frame]]:
        """Whom rounds do not wait for, though they did not say goodbye."""
        return [n for n in self.everybody if n.standing is _DOWN]

    @property
    def missing(self) -> list[Neighbour[Frame]]:
        """Before rounds begin: who was not heard yet, or does not hear us yet."""
        return [n for n in self.everybody if n.standing < _LIVE]

    def take_orders(self) -> list[Order]:
        """What is to be done since the last call."""
        orders, self.orders = self.orders, []
        return orders

    def begin_without(self, missing: Iterable[Neighbour[Frame]]) -> None:
        """Do not wait for these: they were not there when rounds began."""
        for neighbour in missing:
            neighbour.standing = Standing.DOWN

    def subscription(self, number: int, *, joined: bool, now_s: float) -> None:
        """Somebody began or ceased to hear us; who begins is greeted, so that both know that they hear each other."""
        neighbour = self._by_id.get(number)
        if neighbour is None:
            if joined:
                self.dropped["stranger"] += 1
            return
        before = neighbour.standing
        if not joined:
            neighbour.standing = _PARTED.get(before, before)
            return
        neighbour.standing = _JOINED.get(before, before)
        self.orders.append(Order(Do.GREET, number))
        # It is there: do not wait until the socket tries again by itself. Once where it was never heard, for the
        # neighbour answers by looking for us, and so on.
        late = before is Standing.UNKNOWN and now_s >= self._opened_s + KICK_AFTER_S
        if late or neighbour.standing is _DOWN:
            self.orders.append(Order(Do.RECONNECT_UNLESS_HEARD, number))

    def enter(self, round_: int) -> None:
        """Our frame of this round leaves."""
        self.round = round_
        self._frames = []
        if self._arrived:
            self._arrived = set()
        if self._held_up:
            self._held_up = set()
        if self._late_bytes:
            self._late_bytes = {}

    def hear(self, neighbour: Neighbour[Frame], frame: Frame, size: int, *, hold: bool = True) -> bool:
        """Take in one frame of so many bytes; whether the neighbour just goes on as before, as it nearly always does.

        `hold` keeps a frame of a later round for that round.
        """
        if frame.round == self.round and neighbour.goes_on_with(frame):
            neighbour.sequence = frame.sequence
            if neighbour.round < frame.round:  # noqa: PLR1730 - max() costs more than the rest
                neighbour.round = frame.round
            self._frames.append(frame)
            self._arrived.add(neighbour)
            return True
        if self._floods(neighbour, frame, size):
            self.dropped["flood"] += 1
            return False
        if lost := neighbour.note(frame):
            self.dropped["lost-frames"] += lost
        if frame.greeting:
            self._held_up.add(neighbour)
        elif frame.round > self.round and neighbour.is_waited_for and hold:
            neighbour.held = frame
            self._arrived.add(neighbour)
        else:
            self._frames.append(frame)
            if frame.round >= self.round:
                self._arrived.add(neighbour)
        return False

    def all_go_on(self) -> None:
        """Every neighbour said just what was expected of it, in this round; nobody is waited for any more."""
        round_ = self.round
        for neighbour in self.everybody:
            neighbour.sequence += 1
            if neighbour.round < round_:  # noqa: PLR1730 - max() costs more than the rest
                neighbour.round = round_
        self.waiting = ()

    def returned(self, neighbour: Neighbour[Frame]) -> None:
        """Something came from a neighbour that was down: wait for it again if it is at most one round behind."""
        if neighbour.standing is _DOWN and neighbour.round >= self.round - 1:
            neighbour.standing = Standing.LIVE
            self.orders.append(Order(Do.WELCOME, neighbour.id))

    def wait(self, now_s: float, timeout_s: float) -> bool:
        """From now on the round waits; whether it waits for everybody, as it nearly always does.

        If not, `settle` follows, after what lies ready of those that are down was heard.
        """
        self._deadline_s = now_s + timeout_s
        self._last_deadline_s = self._deadline_s + timeout_s / 2
        self._tell_at_s = self._deadline_s - timeout_s / 2
        self.waiting = [n for n in self.everybody if n.standing <= _LIVE and n.held is None]
        return len(self.waiting) == len(self.everybody) and not self._arrived

    def settle(self, now_s: float) -> None:
        """Wait for those that have not said all of this round yet; deliver what is held for it."""
        self.waiting = [n for n in self.everybody if n.is_waited_for and not self._has_arrived(n)]
        self._look_for_those_down(now_s)

    def _has_arrived(self, neighbour: Neighbour[Frame]) -> bool:
        """Whether the neighbour is past this round already; what is held of it is delivered when its round is here."""
        held = neighbour.held
        if neighbour in self._arrived or held is None:
            return neighbour in self._arrived
        if held.round > self.round:
            return True
        neighbour.held = None
        self._frames.append(held)
        return held.round == self.round

    def _look_for_those_down(self, now_s: float) -> None:
        if now_s > self._tried_again_s + RECONNECT_EVERY_S and (down := self.down):
            self._tried_again_s = now_s
            self.orders += [Order(Do.RECONNECT, neighbour.id) for neighbour in down]

    @property
    def next_s(self) -> float:
        """When to tick, if nothing comes before."""
        return min(self._deadline_s, self._tell_at_s) if self.waiting else math.inf

    @property
    def deadline_s(self) -> float:
        """Until when the round waits; who is held up may move it, once."""
        return self._deadline_s

    def tick(self, now_s: float) -> Sequence[Neighbour[Frame]]:
        """Let time pass: give up who is late, unless it is held up itself; returns who is still waited for."""
        waiting = [n for n in self.waiting if n not in self._arrived and n.standing <= _LIVE]
        if waiting:
            self.tell_of_delay(now_s)
        if now_s >= self._deadline_s:
            held_up: list[Neighbour[Frame]] = []
            if self._deadline_s < self._last_deadline_s:
                held_up = [n for n in waiting if n in self._held_up]
            self._give_up([n for n in waiting if n not in held_up])
            waiting, self._deadline_s = held_up, self._last_deadline_s
        self.waiting = waiting
        return waiting

    def tell_of_delay(self, now_s: float) -> None:
        """Let the neighbours know, once in a round that takes long, that we are held up and not gone."""
        if now_s >= self._tell_at_s:
            self._tell_at_s = math.inf
            self.orders += [Order(Do.GREET, neighbour.id) for neighbour in self.everybody]

    def take(self) -> list[Frame]:
        """The frames that this round is made of."""
        frames, self._frames = self._frames, []
        self.waiting = ()
        return frames

    def listened(self, neighbour: Neighbour[Frame], *, heard: bool, now_s: float) -> None:
        """For agents on their own clock, which wait for nobody: whether something came from a neighbour just now.

        Who is silent for long is connected to anew: it may be slow, or the connection may be dead.
        """
        if heard:
            neighbour.quiet_since_s = now_s
            if neighbour.standing is not Standing.LEFT:
                neighbour.standing = Standing.LIVE
        elif now_s > neighbour.quiet_since_s + DEAF_AFTER_S and neighbour.standing is not Standing.LEFT:
            neighbour.quiet_since_s = now_s
            self.orders.append(Order(Do.RECONNECT, neighbour.id))

    def _floods(self, neighbour: Neighbour[Frame], frame: Frame, size: int) -> bool:
        """Whether it says more about earlier rounds within this one than a frame may hold."""
        if frame.round >= self.round:
            return False
        said = self._late_bytes.get(neighbour, 0) + size + FRAME_OVERHEAD_BYTES
        self._late_bytes[neighbour] = said
        return said > MOST_LATE_BYTES

    def _give_up(self, missing: Iterable[Neighbour[Frame]]) -> None:
        for neighbour in missing:
            neighbour.standing = Standing.DOWN
            self.dropped["missed-rounds"] += 1
            self.orders.append(Order(Do.GIVE_UP, neighbour.id))

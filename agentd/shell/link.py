"""The links of one agent: an XPUB that its neighbours hear, a SUB for each neighbour it hears.

Waiting is blocking, in short slices, on purpose. Field measurements: in a lockstep of 200 processes on two cores an
event loop that is woken for every frame reaches a third of the rounds of a loop that simply blocks on the sockets it
needs. An agent in lockstep has nothing to do until its round is complete, so it blocks, on one neighbour after the
other; between slices, and once a second, the event loop runs, so that signals and timers are hardly late. (Waiting for
the slowest of the round before first saves hardly a wake-up, and costs more than it saves.)
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import zmq
from structlog.typing import FilteringBoundLogger

from agentd.core.message import Batch
from agentd.errors import PeerError
from agentd.shell.barrier import Barrier
from agentd.shell.neighbour import LATE_FRAMES_AT_ONCE, Neighbour
from agentd.shell.sockets import publisher, subscriber
from agentd.wire.codec import decode_frames, encode_frame
from agentd.wire.expectation import Expectation, read_expected
from agentd.wire.frame import GOODBYE, GREETING, MAX_FRAME_BYTES, Frame, together
from agentd.wire.layout import HeadReader
from agentd.wire.size import fitting
from agentd.wire.topics import FRAME_TOPIC, Subscription, payload, read_subscription, sync_topic

if TYPE_CHECKING:
    from agentd.shell.faulty import FaultWatch

_READABLE = int(zmq.POLLIN)
"""As a plain number: arithmetic with an enumeration is slow."""
KICK_AFTER_S = 1.0
"""By then libzmq has backed off from a neighbour that was not there when we started."""
EVENTS_AT_ONCE = 1024
"""Subscriptions looked at before something else is done; whoever subscribes without end must not keep us here."""
FRAME_OVERHEAD_BYTES = 1024
"""What even the smallest frame with a message in it takes up in memory, about."""
BREATHE_EVERY_S = 1.0
"""How often the event loop runs while rounds follow each other without waiting."""
RECONNECT_EVERY_S = 2.0
"""How often neighbours that are down are connected to anew; each time their address is looked up again."""
DEAF_AFTER_S = 10.0
"""How long a neighbour may say nothing, where nobody waits for it, before it is connected to anew."""


class Link:
    """Publishes an agent's frames and gathers its neighbours', a round at a time."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        *,
        own: int,
        listen: str,
        peers: Mapping[int, str],
        log: FilteringBoundLogger,
    ) -> None:
        self._own = own
        self._log = log
        self._run = b""
        self._arms = 0
        self._incarnation = 0
        self._sequence = 0
        self._topic = sync_topic(own)
        self._publisher = publisher(context, listen)
        self._neighbours = {
            peer: Neighbour(peer, address, subscriber(context, own, address)) for peer, address in peers.items()
        }
        self._everybody = list(self._neighbours.values())  # in one order for all rounds: see core.repetition
        self._heads = HeadReader()
        self._faults: FaultWatch | None = None
        self._tell_of_delay_at = math.inf
        self._opened_at = self._tried_again_at = self._breathe_at = time.monotonic()
        self.round = 0
        self.messages = 0
        """Messages sent, each once per neighbour."""
        self.bytes = 0
        self.missed = 0
        """How often a round went on without a neighbour."""
        self.dropped: Counter[str] = Counter()

    @property
    def latest_round(self) -> int:
        """The furthest round that anybody we hear has reached, ourselves included."""
        return max([self.round, *[n.round for n in self._everybody]])

    @property
    def down(self) -> list[int]:
        """The neighbours that rounds do not wait for, though they did not say goodbye."""
        return [n.id for n in self._neighbours.values() if not n.live and not n.left]

    def introduce(self, *, run: bytes, arms: int, incarnation: int, round_: int) -> None:
        """Say which run this is, once the environment has told."""
        self._run, self._arms, self._incarnation, self.round = run, arms, incarnation, round_
        self._log = self._log.bind(run=run.hex())

    def suffer(self, faults: FaultWatch) -> None:
        """Let an operator inject faults between us and our neighbours."""
        self._faults = faults
        faults.over(self._everybody, self.dropped)

    async def wait_until_ready(self, timeout_s: float, stop: asyncio.Event, *, all_needed: bool) -> None:
        """Return when every neighbour hears us and was heard, or late without those that are not needed."""
        barrier = Barrier(
            self._neighbours.values(),
            own=self._own,
            run=self._run,
            publisher=self._publisher,
            answer=self._greet_subscribers,
            dropped=self.dropped,
            log=self._log,
        )
        await barrier.wait(timeout_s, stop, all_needed=all_needed)

    def publish(self, round_: int, batches: Iterable[Batch], *, last: bool = False) -> None:
        """One frame to all neighbours; `last` says goodbye."""
        if self._faults is not None:
            self._faults.tick()
        self.round = round_
        self._greet_subscribers()
        fit, left_out = fitting(batches, self._arms)
        if left_out:
            self.dropped["unsent"] += left_out
        self._sequence += 1
        data = self._encoded(fit, GOODBYE if last else 0)
        self._publisher.send(FRAME_TOPIC + data)
        self.messages += sum([len(batch.head) for batch in fit]) * len(self._neighbours)
        self.bytes += len(data) * len(self._neighbours)

    async def gather(self, timeout_s: float, stop: asyncio.Event) -> list[Batch]:
        """What the neighbours said in this round: all of it, or what came within the time.

        Who said that it is held up itself, by somebody who is gone perhaps, is given half of the time more.
        """
        deadline = time.monotonic() + timeout_s
        last_deadline = deadline + timeout_s / 2
        self._tell_of_delay_at = deadline - timeout_s / 2
        frames: list[Frame] = []
        waiting = [n for n in self._everybody if n.live and n.held is None]
        if len(waiting) < len(self._everybody):
            arrived = self._take_late(frames)
            waiting = [n for n in self._everybody if n.live and n not in arrived and not self._has_arrived(n, frames)]
        while waiting and not stop.is_set():
            parts = await self._next_parts(waiting, deadline, stop)
            if len(parts) == len(self._everybody) and (batch := self._read_expected(parts)) is not None:
                await self._breathe()
                return [batch]
            arrived = self._read(parts, frames)
            waiting = [n for n in waiting if n.live and n not in arrived]
            if time.monotonic() >= deadline:
                held_up = [n for n in waiting if n.held_up_in == self.round] if deadline < last_deadline else []
                self._give_up([n for n in waiting if n not in held_up])
                waiting, deadline = held_up, last_deadline
        await self._breathe()
        return together(frames)

    def drain(self) -> list[Batch]:
        """What came since the last call; for agents that run on their own clock and wait for nobody."""
        frames: list[Frame] = []
        self._greet_subscribers()
        for neighbour in self._everybody:
            got = [part for _ in range(LATE_FRAMES_AT_ONCE) if (part := self._part(neighbour)) is not None]
            self._read([(neighbour, part) for part in got], frames, hold=False)
            self._mind_silence(neighbour, heard=bool(got))
        return together(frames)

    def _mind_silence(self, neighbour: Neighbour, *, heard: bool) -> None:
        """Connect anew to a neighbour that says nothing for long: it may be slow, or the connection may be dead."""
        now_s = time.monotonic()
        if heard:
            neighbour.live, neighbour.heard_s = True, now_s
        elif now_s > neighbour.heard_s + DEAF_AFTER_S and not neighbour.left:
            neighbour.heard_s = now_s
            neighbour.reconnect()

    def close(self) -> None:
        """Let the last frame leave and close."""
        for neighbour in self._everybody:
            neighbour.socket.close()
        self._publisher.close()

    def _encoded(self, batches: tuple[Batch, ...], flags: int) -> bytes:
        return encode_frame(
            Frame(self._run, self._own, self._incarnation, self._sequence, self.round, flags, batches, self._arms)
        )

    def _greet_subscribers(self) -> None:
        """Answer every neighbour whose subscription is seen; so both sides know that they hear each other."""
        for _ in range(EVENTS_AT_ONCE):
            if (event := self._event()) is None:
                return
            try:
                subscription = read_subscription(event)
            except PeerError as fault:
                self.dropped[fault.reason] += 1
                continue
            if subscription is not None:
                self._greet(subscription)

    def _greet(self, subscription: Subscription) -> None:
        neighbour = self._neighbours.get(subscription.subscriber)
        if neighbour is None:
            self.dropped["stranger"] += subscription.joined
            return
        neighbour.hears_us = subscription.joined
        if subscription.joined:
            neighbour.left = False
            self._publisher.send(sync_topic(neighbour.id) + self._encoded((), GREETING))
            if self._may_have_backed_off(neighbour) and not neighbour.socket.poll(0):
                neighbour.reconnect()  # it is there; do not wait for the back-off to end

    def _may_have_backed_off(self, neighbour: Neighbour) -> bool:
        """Whether libzmq may wait a while before it tries the neighbour again, which was not there when it tried."""
        if neighbour.greeted:
            return not neighbour.live
        early = time.monotonic() < self._opened_at + KICK_AFTER_S
        if early or neighbour.kicked:  # once: the neighbour answers by looking for us, and so on
            return False
        neighbour.kicked = True
        return True

    def _event(self) -> bytes | None:
        # Asking first: there is almost never one, and an answer "nothing yet" to recv is a costly exception.
        if not int(self._publisher.getsockopt(zmq.EVENTS)) & _READABLE:
            return None
        return self._publisher.recv(zmq.NOBLOCK)

    def _part(self, neighbour: Neighbour) -> bytes | None:
        return neighbour.receive(zmq.NOBLOCK)

    async def _next_parts(
        self, waiting: Sequence[Neighbour], deadline: float, stop: asyncio.Event
    ) -> list[tuple[Neighbour, bytes]]:
        """The next part of each neighbour, but for those that say nothing until the time is over.

        Blocks at once instead of asking first: an answer "nothing yet" is an exception, and costs more than the part.
        """
        parts: list[tuple[Neighbour, bytes]] = []
        flags = 0
        for neighbour in waiting:
            part = neighbour.receive(flags)
            if part is None and not flags:
                part = await self._wait_for(neighbour, deadline, stop)
                flags = zmq.NOBLOCK if part is None else 0  # the time is over, for all of them
            if part is not None:
                parts.append((neighbour, part))
        return parts

    async def _wait_for(self, neighbour: Neighbour, deadline: float, stop: asyncio.Event) -> bytes | None:
        """The next part of a neighbour that let a slice pass, or None when the time is over."""
        while time.monotonic() < deadline and not stop.is_set():
            await asyncio.sleep(0)  # a slice is over: let signals in
            self._greet_subscribers()
            self._tell_of_delay()
            if (part := neighbour.receive()) is not None:
                return part
        return self._part(neighbour)

    def _tell_of_delay(self) -> None:
        """Let the neighbours know, once in a round that takes long, that we are held up and not gone."""
        if time.monotonic() >= self._tell_of_delay_at:
            self._tell_of_delay_at = math.inf
            for neighbour in self._everybody:
                self._publisher.send(sync_topic(neighbour.id) + self._encoded((), GREETING))

    async def _breathe(self) -> None:
        """Let the event loop run now and then, for signals; in every round it would cost as much as the frames."""
        now = time.monotonic()
        if now >= self._breathe_at:
            self._breathe_at = now + BREATHE_EVERY_S
            await asyncio.sleep(0)

    def _has_arrived(self, neighbour: Neighbour, frames: list[Frame]) -> bool:
        """Whether the neighbour is past this round already; deliver what it said in this round if it is held."""
        if neighbour.held is not None and neighbour.held.round <= self.round:
            frames.append(neighbour.held)
            arrived = neighbour.held.round == self.round
            neighbour.held = None
            return arrived
        return neighbour.held is not None

    def _take_late(self, frames: list[Frame]) -> set[Neighbour]:
        """Look, without waiting, whether neighbours that are down came back; tell whose round is complete."""
        arrived: set[Neighbour] = set()
        for neighbour in self._everybody:
            if neighbour.live or neighbour.left:
                continue
            parts = [part for _ in range(LATE_FRAMES_AT_ONCE) if (part := self._part(neighbour)) is not None]
            arrived |= self._read([(neighbour, part) for part in parts], frames)
            if neighbour.round >= self.round - 1 and parts:
                neighbour.live = True
                self._log.info("neighbour back", neighbour=neighbour.id, round=self.round)
        if self.down and time.monotonic() > self._tried_again_at + RECONNECT_EVERY_S:
            self._tried_again_at = time.monotonic()
            for neighbour in self._everybody:
                if not neighbour.live and not neighbour.left:
                    neighbour.reconnect()
        return arrived

    def _read_expected(self, parts: Sequence[tuple[Neighbour, bytes]]) -> Batch | None:
        """All that was said in this round, if every neighbour just goes on as before; nothing is noted otherwise."""
        expected = [(neighbour.expected, neighbour.sequence + 1, part) for neighbour, part in parts]
        batch = read_expected(expected, self.round, self._heads)
        if batch is not None:
            for neighbour, _ in parts:
                neighbour.sequence += 1
                neighbour.round = max(neighbour.round, self.round)
        return batch

    def _read(
        self, parts: Sequence[tuple[Neighbour, bytes]], frames: list[Frame], *, hold: bool = True
    ) -> set[Neighbour]:
        """Decode parts, keep what they say, and tell whose round is complete; `hold` keeps early frames for theirs."""
        arrived: set[Neighbour] = set()
        payloads: list[tuple[Neighbour, bytes]] = []
        for neighbour, part in parts:
            try:
                payloads.append((neighbour, payload(part, self._topic)))
            except PeerError as fault:
                self.dropped[fault.reason] += 1
        decoded = decode_frames([data for _, data in payloads], arms=self._arms, heads=self._heads)
        for (neighbour, data), frame in zip(payloads, decoded, strict=True):
            if isinstance(frame, PeerError):
                self.dropped[frame.reason] += 1
            elif self._is_next(neighbour, frame):
                neighbour.expected = Expectation.after(frame, FRAME_TOPIC + data)
                frames.append(frame)
                arrived.add(neighbour)
            elif self._floods(neighbour, frame, len(data)):
                self.dropped["flood"] += 1
            elif self._belongs(neighbour, frame) and self._accept(neighbour, frame, frames, hold=hold):
                arrived.add(neighbour)
        return arrived

    def _is_next(self, neighbour: Neighbour, frame: Frame) -> bool:
        """Whether it is the very next frame of the neighbour, of our round, as nearly all are; if so, it is noted."""
        return frame.round == self.round and frame.run == self._run and neighbour.is_followed_up_by(frame)

    def _floods(self, neighbour: Neighbour, frame: Frame, size: int) -> bool:
        """Whether it says more about earlier rounds within this one than a frame may hold; all of it would be kept."""
        if frame.round >= self.round:
            return False
        if neighbour.late_in != self.round:
            neighbour.late_in, neighbour.late_bytes = self.round, 0
        neighbour.late_bytes += size + FRAME_OVERHEAD_BYTES
        return neighbour.late_bytes > MAX_FRAME_BYTES

    def _belongs(self, neighbour: Neighbour, frame: Frame) -> bool:
        if frame.run != self._run:
            self.dropped["run"] += 1
        elif frame.sender != neighbour.id:
            self.dropped["sender"] += 1
        else:
            return True
        return False

    def _accept(self, neighbour: Neighbour, frame: Frame, frames: list[Frame], *, hold: bool) -> bool:
        """Take in one frame; returns whether it completes the neighbour's part of this round."""
        neighbour.note(frame, self.dropped)
        if frame.greeting:
            neighbour.held_up_in = self.round
            return False
        if neighbour.left:
            neighbour.live = False
        if frame.round > self.round and neighbour.live and hold:
            neighbour.held = frame
            return True
        frames.append(frame)
        return frame.round >= self.round

    def _give_up(self, missing: Sequence[Neighbour]) -> None:
        for neighbour in missing:
            neighbour.live = False
            self.missed += 1
            self.dropped["missed-rounds"] += 1
            self._log.warning("neighbour down", neighbour=neighbour.id, address=neighbour.address, round=self.round)

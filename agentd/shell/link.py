"""The links of one agent: bytes to frames, frames to `core.rounds`, and the waiting in between.

Every decision is the machine's in `core.rounds`; here parts are read, decoded and handed to it, and what it orders is
carried out.

Waiting is blocking, in short slices, on purpose. Field measurements: in a lockstep of 200 processes on two cores an
event loop that is woken for every frame reaches a third of the rounds of a loop that simply blocks on the sockets it
needs. An agent in lockstep has nothing to do until its round is complete, so it blocks, on one neighbour after the
other; between slices, and once a second, the event loop runs, so that signals and timers are hardly late. (Waiting for
the slowest of the round before first saves hardly a wake-up, and costs more than it saves.)
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agentd.core.message import Batch
from agentd.core.rounds import Do, Neighbour, Rounds
from agentd.errors import PeerError
from agentd.shell.barrier import Barrier
from agentd.shell.json_log import Log
from agentd.shell.transport import Line, Transport
from agentd.wire.codec import decode_frames, encode_frame
from agentd.wire.expectation import Expectation, read_expected
from agentd.wire.frame import GOODBYE, GREETING, Frame, together
from agentd.wire.layout import HeadReader
from agentd.wire.size import fitting
from agentd.wire.topics import FRAME_TOPIC, payload, read_subscription, sync_topic

if TYPE_CHECKING:  # only a testbed with injected faults loads it
    from agentd.shell.fault_injection import FaultWatch

EVENTS_AT_ONCE = 1024
"""Subscriptions looked at before something else is done; whoever subscribes without end must not keep us here."""
LATE_FRAMES_AT_ONCE = 16
"""Frames taken at once from a neighbour that is not waited for."""
BREATHE_EVERY_S = 1.0
"""How often the event loop runs while rounds follow each other without waiting."""

Parts = Sequence[tuple[Neighbour[Frame], bytes]]
"""What came, and from whom."""


class Link:
    """Publishes an agent's frames and gathers its neighbours', a round at a time."""

    def __init__(self, transport: Transport, *, own: int, log: Log, fast_path: bool = True) -> None:
        self._transport = transport
        self._own = own
        self._log = log
        self._run = b""
        self._arms = 0
        self._incarnation = 0
        self._sequence = 0
        self._topic = sync_topic(own)
        self.now_s = transport.now_s
        self.pause = transport.pause
        self._lines: dict[int, Line] = dict(transport.lines)
        self._expected: dict[int, Expectation | None] = dict.fromkeys(self._lines)
        """The next frame of each neighbour, if it goes on as it did in the last round."""
        self._fast_path = fast_path
        self._heads = HeadReader(fast_path=fast_path)
        self._faults: FaultWatch | None = None
        self._breathe_at = self.now_s()
        self.messages = 0
        """Messages sent, each once per neighbour."""
        self.bytes = 0
        self.dropped: Counter[str] = Counter()
        self.rounds: Rounds[Frame] = Rounds(self._lines, now_s=self.now_s(), dropped=self.dropped)

    @property
    def round(self) -> int:
        return self.rounds.round

    @property
    def latest_round(self) -> int:
        """The furthest round that anybody we hear has reached, ourselves included."""
        return self.rounds.latest

    @property
    def down(self) -> list[int]:
        """The neighbours that rounds do not wait for, though they did not say goodbye."""
        return [neighbour.id for neighbour in self.rounds.down]

    def introduce(self, *, run: bytes, arms: int, incarnation: int, round_: int) -> None:
        """Say which run this is, once the environment has told."""
        self._run, self._arms, self._incarnation = run, arms, incarnation
        self.rounds.enter(round_)
        self._log = self._log.bind(run=run.hex())

    def inject_faults(self, faults: FaultWatch) -> None:
        """Let an operator inject faults between us and our neighbours."""
        self._faults = faults

    async def wait_until_ready(self, timeout_s: float, stop: asyncio.Event, *, all_needed: bool) -> None:
        """Return when every neighbour hears us and was heard, or late without those that are not needed."""
        barrier = Barrier(
            self._transport, self.rounds, own=self._own, run=self._run, answer=self.greet_subscribers, log=self._log
        )
        await barrier.wait(timeout_s, stop, all_needed=all_needed)

    def publish(self, round_: int, batches: Iterable[Batch], *, last: bool = False) -> None:
        """One frame to all neighbours; `last` says goodbye."""
        if self._faults is not None:
            self._faults.tick()
        self.rounds.enter(round_)
        self.greet_subscribers()
        fit, left_out = fitting(batches, self._arms)
        if left_out:
            self.dropped["unsent"] += left_out
        self._sequence += 1
        data = self._encoded(fit, GOODBYE if last else 0)
        self._transport.publish(FRAME_TOPIC + data)
        self.messages += sum([len(batch.head) for batch in fit]) * len(self._lines)
        self.bytes += len(data) * len(self._lines)

    async def gather(self, timeout_s: float, stop: asyncio.Event) -> list[Batch]:
        """What the neighbours said in this round: all of it, or what came within the time."""
        rounds = self.rounds
        if not rounds.wait(self.now_s(), timeout_s):
            self._hear_those_down()
            rounds.settle(self.now_s())
        if rounds.orders:
            self._carry_out()
        while rounds.waiting and not stop.is_set():
            parts = await self._next_parts(rounds.waiting, stop)
            if len(parts) == len(self._lines) and (batch := self._read_expected(parts)) is not None:
                await self._breathe()
                return [batch]
            self._read(parts)
            rounds.tick(self.now_s())
            if rounds.orders:
                self._carry_out()
        await self._breathe()
        return together(rounds.take())

    def drain(self) -> list[Batch]:
        """What came since the last call; for agents that run on their own clock and wait for nobody."""
        self.greet_subscribers()
        for neighbour in self.rounds.everybody:
            parts = self._late_parts(neighbour)
            self._read(parts, hold=False)
            self.rounds.listened(neighbour, heard=bool(parts), now_s=self.now_s())
        self._carry_out()
        return together(self.rounds.take())

    def greet_subscribers(self) -> None:
        """Answer every neighbour whose subscription is seen; so both sides know that they hear each other."""
        for _ in range(EVENTS_AT_ONCE):
            if (event := self._transport.event()) is None:
                return
            try:
                subscription = read_subscription(event)
            except PeerError as fault:
                self.dropped[fault.reason] += 1
                continue
            if subscription is not None:
                self.rounds.subscription(subscription.subscriber, joined=subscription.joined, now_s=self.now_s())
                self._carry_out()

    def close(self) -> None:
        """Let the last frame leave and close."""
        self._transport.close()

    def _encoded(self, batches: tuple[Batch, ...], flags: int) -> bytes:
        return encode_frame(
            Frame(
                self._run, self._own, self._incarnation, self._sequence, self.rounds.round, flags, batches, self._arms
            )
        )

    def _carry_out(self) -> None:
        """Do what the rounds ask for."""
        for do, number in self.rounds.take_orders():
            line = self._lines[number]
            if do is Do.GIVE_UP:
                self._log.warning("neighbour down", neighbour=number, address=line.address, round=self.round)
            elif do is Do.WELCOME:
                self._log.info("neighbour back", neighbour=number, round=self.round)
            elif do is Do.GREET:
                self._transport.publish(sync_topic(number) + self._encoded((), GREETING))
            elif do is Do.RECONNECT or not line.is_readable():
                line.reconnect()

    def _hear_those_down(self) -> None:
        """Look, without waiting, whether neighbours that were given up came back."""
        for neighbour in self.rounds.down:
            if parts := self._late_parts(neighbour):
                self._read(parts)
                self.rounds.returned(neighbour)

    def _late_parts(self, neighbour: Neighbour[Frame]) -> Parts:
        """What lies ready of a neighbour that is not waited for, up to a limit."""
        receive = self._lines[neighbour.id].receive
        got = (receive(False) for _ in range(LATE_FRAMES_AT_ONCE))
        return [(neighbour, part) for part in got if part is not None]

    async def _next_parts(self, waiting: Sequence[Neighbour[Frame]], stop: asyncio.Event) -> Parts:
        """The next part of each neighbour, but for those that say nothing until the time is over.

        Blocks at once instead of asking first: an answer "nothing yet" is an exception, and costs more than the part.
        """
        parts: list[tuple[Neighbour[Frame], bytes]] = []
        lines, wait = self._lines, True
        for neighbour in waiting:
            line = lines[neighbour.id]
            part = line.receive(wait)
            if part is None and wait:
                part = await self._wait_for(line, stop)
                wait = part is not None  # else the time is over, for all of them
            if part is not None:
                parts.append((neighbour, part))
        return parts

    async def _wait_for(self, line: Line, stop: asyncio.Event) -> bytes | None:
        """The next part of a neighbour that let a slice pass, or None when the time is over."""
        while self.now_s() < self.rounds.deadline_s and not stop.is_set():
            await asyncio.sleep(0)  # a slice is over: let signals in
            self.greet_subscribers()
            self.rounds.tell_of_delay(self.now_s())
            self._carry_out()
            if (part := line.receive(True)) is not None:
                return part
        return line.receive(False)

    async def _breathe(self) -> None:
        """Let the event loop run now and then, for signals; in every round it would cost as much as the frames."""
        now = self.now_s()
        if now >= self._breathe_at:
            self._breathe_at = now + BREATHE_EVERY_S
            await asyncio.sleep(0)

    def _read_expected(self, parts: Parts) -> Batch | None:
        """All that was said in this round, if every neighbour just goes on as before; nothing is noted otherwise."""
        if None in self._expected.values():
            return None
        expected = [(self._expected[neighbour.id], neighbour.sequence + 1, part) for neighbour, part in parts]
        batch = read_expected(expected, self.rounds.round, self._heads)
        if batch is not None:
            self.rounds.all_go_on()
        return batch

    def _read(self, parts: Parts, *, hold: bool = True) -> None:
        """Decode parts and hand them to the rounds; `hold` keeps early frames for theirs."""
        payloads: list[tuple[Neighbour[Frame], bytes]] = []
        for neighbour, part in parts:
            try:
                payloads.append((neighbour, payload(part, self._topic)))
            except PeerError as fault:
                self.dropped[fault.reason] += 1
        decoded = decode_frames([data for _, data in payloads], arms=self._arms, heads=self._heads)
        for (neighbour, data), frame in zip(payloads, decoded, strict=True):
            if isinstance(frame, PeerError):
                self.dropped[frame.reason] += 1
            elif frame.run != self._run:
                self.dropped["run"] += 1
            elif frame.sender != neighbour.id:
                self.dropped["sender"] += 1
            else:
                goes_on = self.rounds.hear(neighbour, frame, len(data), hold=hold)
                expected = Expectation.after(frame, FRAME_TOPIC + data) if goes_on and self._fast_path else None
                self._expected[neighbour.id] = expected

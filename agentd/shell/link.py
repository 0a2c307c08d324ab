"""The links of one agent: bytes to frames, frames to `core.rounds`, and the waiting in between.

Every decision is the machine's in `core.rounds`; here parts are read, decoded and handed to it, and what it orders is
carried out.

Waiting is blocking, in short slices, on purpose. Field measurements: in a lockstep of 200 processes on two cores an
event loop that is woken for every frame reaches a third of the rounds of a loop that simply blocks on the sockets it
needs. An agent in lockstep has nothing to do until its round is complete, so it blocks, on one neighbour after the
other; between slices, and once a second, the event loop runs, so that signals and timers are hardly late. (Waiting for
the slowest of the round before first saves hardly a wake-up, and costs more than it saves.)

Whoever blocks on one neighbour does not see when the others' frames come. Where that matters (`Rounds.looks`) all lines
are watched at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from agentd.core.message import Batch
from agentd.core.rounds import Do, Neighbour, Rounds
from agentd.core.sequel import follows
from agentd.core.terms import Terms
from agentd.core.trust.blame import Blame, Why
from agentd.core.trust.heads import only_said_by
from agentd.core.trust.quota import Quota
from agentd.errors import PeerError
from agentd.shell.barrier import Barrier
from agentd.shell.json_log import Log
from agentd.shell.sockets import QUEUE_FRAMES
from agentd.shell.transport import SEVERAL_PARTS, Line, Transport
from agentd.wire.codec import encode_frame
from agentd.wire.expectation import Expectations, Said, read_expected, senders_of
from agentd.wire.frame import GOODBYE, GREETING, Frame, together
from agentd.wire.reading import PartReader
from agentd.wire.size import fitting
from agentd.wire.topics import FRAME_TOPIC, read_subscription, sync_topic

if TYPE_CHECKING:  # only a testbed with injected faults loads it
    from agentd.shell.fault_injection import FaultWatch

EVENTS_AT_ONCE = 1024
"""Subscriptions looked at before something else is done; whoever subscribes without end must not keep us here."""
LATE_FRAMES_AT_ONCE = 16
"""Frames taken at once from a neighbour that is not waited for."""
QUEUED_FRAMES = 3 * QUEUE_FRAMES
"""Frames taken at once from each neighbour by who may be behind: all that can have gathered, and some more."""
LATE_BYTES_AT_ONCE = 1 << 20
"""The same in bytes, but for the last of them: what a cut has stored of large frames is no flood, only much."""
OVERSLEPT_S = 0.1
"""Whoever is woken so much later than it asked for did not run in between."""
BREATHE_EVERY_S = 1.0
"""How often the event loop runs while rounds follow each other without waiting."""

_DOES = {Why.SLOW: "slow", Why.FLOOD: "floods us", Why.WRONG: "sends what is wrong", Why.AHEAD: "claims to be ahead"}
_DOES[Why.FORGED] = "hands over forgeries"
"""As people are told."""

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
        self.now_s = transport.now_s
        self.pause = transport.pause
        self._gather = transport.gather
        self.slice_s = transport.slice_s
        self._lines: dict[int, Line] = dict(transport.lines)
        self._expected: Expectations = Expectations(self._lines)
        self._said_by_all = 0
        """The number of the last round that was as expected, if everybody could say what it said; else 0."""
        self._fast_path = fast_path
        self._reader = PartReader(own, transport.known_frames, fast_path=fast_path)
        self.names_senders = False
        """Whether messages are to tell who has handed them over, for whoever looks at signatures."""
        self._faults: FaultWatch | None = None
        self._breathe_at = self.now_s()
        self.meanwhile: Callable[[], None] | None = None
        """What else is to be done while a round takes long, about once in a slice."""
        self.messages = 0
        """Messages sent, each once per neighbour."""
        self.bytes = 0
        self.dropped = transport.dropped
        self.rounds: Rounds[Frame] = Rounds(self._lines, now_s=self.now_s(), dropped=self.dropped)

    @property
    def round(self) -> int:
        return self.rounds.round

    @property
    def latest_round(self) -> int:
        """How far the run can be; see `Rounds.latest`."""
        return self.rounds.latest

    @property
    def runs_away(self) -> bool:
        """Whether we are far ahead of the run, and somebody is missing."""
        return self.rounds.runs_away

    @property
    def blames(self) -> tuple[Blame, ...]:
        """What is held against neighbours."""
        return self.rounds.blames

    @property
    def down(self) -> list[int]:
        """The neighbours that rounds do not wait for, though they did not say goodbye."""
        return [neighbour.id for neighbour in self.rounds.down]

    def introduce(
        self, *, run: bytes, arms: int, incarnation: int, round_: int, run_round: int = 0, terms: Terms | None = None
    ) -> None:
        """Say which run this is, once the environment has told, and in which round it is; ours may be an older one."""
        self._run, self._arms, self._incarnation = run, arms, incarnation
        self.rounds.enter(round_)
        self.rounds.where.told(run_round)
        if terms is not None:
            self.rounds.agree(Quota.under(terms), terms.horizon)
        self._log = self._log.bind(run=run.hex())

    def inject_faults(self, faults: FaultWatch) -> None:
        """Let an operator inject faults between us and our neighbours."""
        self._faults = faults

    async def wait_until_ready(self, timeout_s: float, stop: asyncio.Event, *, some_needed: bool) -> None:
        """Return when every neighbour hears us and was heard, or late without those that are not needed."""
        barrier = Barrier(
            self._transport, self.rounds, own=self._own, run=self._run, answer=self.greet_subscribers, log=self._log
        )
        await barrier.wait(timeout_s, stop, some_needed=some_needed)

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

    def told(self, run_round: int) -> None:
        """Take up the environment's word on where the run is."""
        self.rounds.where.told(run_round)

    def ask(self) -> None:
        """Let that word be asked for."""
        self.rounds.where.ask = True

    def next_round(self) -> int:
        """Where to go next; whoever may be behind looks first at all that was said meanwhile."""
        if not self.rounds.may_be_behind:
            return self.rounds.next_round
        self._catch_up()
        return self.rounds.looked_around()

    async def gather(self, timeout_s: float, stop: asyncio.Event) -> list[Batch]:
        """What the neighbours said in this round: all of it, or what came within the time."""
        rounds = self.rounds
        ordinary = rounds.wait(self.now_s(), timeout_s)
        if not ordinary:
            self._hear_those_down()
            rounds.settle(self.now_s())
        if rounds.orders:
            self._carry_out()
        if self._gather is not None:
            rounds.allow_for(self._transport.crowd_s)
        if ordinary:
            parts = None if rounds.looks or self._gather is not None else self._next_parts(rounds.waiting)
            if parts is None or len(parts) < len(rounds.waiting):
                parts = await self._parts_of_all(parts, stop)
            if len(parts) == len(self._lines) and (batch := self._read_expected(parts)) is not None:
                now_s = self.now_s()
                rounds.all_go_on(now_s)
                if now_s >= self._breathe_at:
                    await self._breathe(now_s)
                return [batch]
            self._read(parts)
            rounds.tick(self.now_s())
            if rounds.orders:
                self._carry_out()
        while rounds.waiting and not stop.is_set():
            parts = await self._parts_of(rounds.waiting)
            late = len(parts) < len(rounds.waiting)
            self._read(parts)
            rounds.tick(self.now_s())
            if rounds.orders:
                self._carry_out()
            if late and rounds.waiting:
                await self._while_waiting()
        now_s = self.now_s()
        frames = rounds.take(now_s)
        if now_s >= self._breathe_at:
            await self._breathe(now_s)
        return self._together(frames)

    async def _parts_of_all(self, parts: Parts | None, stop: asyncio.Event) -> Parts:
        """The next part of each neighbour, unread: together they mostly are what is expected, and cheap to read.

        `parts` are those that came within the first slice of time; None: nobody has waited yet.
        On a machine full of agents a round takes longer than a slice. Nobody is late for that; but as soon as somebody
        might be, or something is to be told, what has come so far is to be read.
        """
        rounds, unread = self.rounds, dict[int, bytes]()
        while missing := [neighbour for neighbour in rounds.waiting if neighbour.id not in unread]:
            looked = rounds.looks
            if parts is None:
                parts = await self._parts_of(missing)
            unread |= {neighbour.id: part for neighbour, part in parts}
            if len(parts) == len(missing):
                break
            parts = None
            await self._while_waiting()
            now_s = self.now_s()
            if rounds.looks and not looked:
                for neighbour in [neighbour for neighbour in rounds.waiting if neighbour.id in unread]:
                    rounds.came(neighbour, now_s)
            still = [neighbour for neighbour in missing if neighbour.id not in unread]
            if stop.is_set() or now_s >= rounds.next_s_for(still):
                break
        return [(neighbour, unread[neighbour.id]) for neighbour in rounds.waiting if neighbour.id in unread]

    async def _while_waiting(self) -> None:
        """A slice is over: let signals in, answer who subscribed, and watch from now on who comes when."""
        self.rounds.look_closely(self.now_s())
        await asyncio.sleep(0)
        self.greet_subscribers()
        if self.meanwhile is not None:
            self.meanwhile()

    def cut(self, forgers: Iterable[int]) -> None:
        """Have nothing to do for a while with neighbours that hand over forgeries."""
        for number in forgers:
            self.rounds.cut(number, self.now_s())
        self._carry_out()

    def tell_of_silence(self, every_s: float) -> None:
        """Let the neighbours know now and then that it is the environment that holds us up.

        Those that begin to hear us meanwhile are answered: where all agents start together they wait for nothing else.
        """
        self.greet_subscribers()
        self.rounds.tell_of_silence(self.now_s(), every_s)
        self._carry_out()

    def drain(self, interval_s: float = 0.0) -> list[Batch]:
        """What came since the last call, an interval ago; for agents on their own clock, which wait for nobody."""
        self.greet_subscribers()
        for neighbour in self.rounds.everybody:
            parts = [(neighbour, part) for part in self._late_parts(neighbour)]
            self._read(parts, hold=False)
            self.rounds.listened(neighbour, heard=bool(parts), now_s=self.now_s(), usual_s=interval_s)
        self.rounds.shun_floods(self.now_s())
        self._carry_out()
        return self._together(self.rounds.take(self.now_s()))

    def greet_subscribers(self) -> None:
        """Answer every neighbour whose subscription is seen; so both sides know that they hear each other."""
        if self.rounds.owes_greetings:
            self.rounds.greet_owed(self.now_s())
        for _ in range(EVENTS_AT_ONCE):
            if (event := self._transport.event()) is None:
                break
            try:
                subscription = read_subscription(event)
            except PeerError as fault:
                self.dropped[fault.reason] += 1
                continue
            if subscription is not None:
                self.rounds.subscription(subscription.subscriber, joined=subscription.joined, now_s=self.now_s())
        if self.rounds.orders:
            self._carry_out()

    def close(self) -> None:
        """Let the last frame leave and close."""
        self._transport.close()

    def _together(self, frames: Sequence[Frame]) -> list[Batch]:
        return together(frames, self.dropped, names_senders=self.names_senders)

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
            elif do is Do.ACCUSE:
                self._name_the_accused()
            elif do is Do.SHUN:
                line.disconnect()
            elif do is Do.RECONNECT or not line.is_readable():
                line.reconnect()

    def _name_the_accused(self) -> None:
        for number, why, figures in self.rounds.take_accusations():
            address = self._lines[number].address
            self._log.warning(f"neighbour {_DOES[why]}", neighbour=number, address=address, **figures)

    def _hear_those_down(self) -> None:
        """Look, without waiting, whether neighbours that were given up came back."""
        for neighbour in self.rounds.down:
            heard = False
            for part in self._late_parts(neighbour):
                heard = True
                self._read([(neighbour, part)])
                if neighbour.held is not None or self.rounds.is_muted(neighbour):
                    break  # it is ahead of us: the rest is for later; or it sends without end
            if heard:
                self.rounds.returned(neighbour, self.now_s())
        self.rounds.shun_floods(self.now_s())

    def _catch_up(self) -> None:
        """Look at all that lies ready: it tells where the others are, and what they said meanwhile."""
        for neighbour in self.rounds.everybody:
            parts = [(neighbour, part) for part in self._late_parts(neighbour, QUEUED_FRAMES)]
            if parts:
                self._read(parts, newest=True)
                self.rounds.returned(neighbour, self.now_s())
        self.rounds.shun_floods(self.now_s())
        if self.rounds.orders:
            self._carry_out()

    def _late_parts(self, neighbour: Neighbour[Frame], most: int = LATE_FRAMES_AT_ONCE) -> Iterator[bytes]:
        """What lies ready of a neighbour that is not waited for, up to a limit; the rest waits for our next round."""
        receive, taken = self._lines[neighbour.id].receive, 0
        for _ in range(most):
            if taken >= LATE_BYTES_AT_ONCE or (part := receive(False)) is None:
                return
            taken += len(part)
            yield part

    async def _parts_of(self, waiting: Sequence[Neighbour[Frame]]) -> Parts:
        """The next part of each neighbour, but for those that say nothing until a slice of time is over."""
        if self.rounds.looks:
            return await self._seen_parts(waiting)
        if self._gather is not None:
            await self._gather([neighbour.id for neighbour in waiting])
        return self._next_parts(waiting)

    def _next_parts(self, waiting: Sequence[Neighbour[Frame]]) -> Parts:
        """The same, one after the other.

        Blocks at once instead of asking first: an answer "nothing yet" is an exception, and costs more than the part.
        """
        parts: list[tuple[Neighbour[Frame], bytes]] = []
        lines, wait = self._lines, True
        for neighbour in waiting:
            part = lines[neighbour.id].receive(wait)
            if part is not None:
                parts.append((neighbour, part))
            else:
                wait = False  # the slice is over, for all of them
        return parts

    async def _seen_parts(self, waiting: Sequence[Neighbour[Frame]]) -> Parts:
        """The same, watching all of them at once; the rounds are told when each part came."""
        rounds, now_s = self.rounds, self.now_s()
        found: dict[int, bytes] = {}
        end_s, missing = now_s + self.slice_s, list(waiting)
        while missing and (left_s := min(end_s, rounds.next_s_for(missing)) - now_s) > 0:
            ready = await self._transport.ready([self._lines[neighbour.id] for neighbour in missing], left_s)
            before_s, now_s = now_s, self.now_s()
            if (overslept_s := now_s - before_s - left_s) > OVERSLEPT_S:
                rounds.forgive(overslept_s)
            for neighbour in [neighbour for neighbour in missing if neighbour.id in ready]:
                if (part := self._lines[neighbour.id].receive(False)) is not None:
                    found[neighbour.id] = part
                    rounds.came(neighbour, now_s)
            missing = [neighbour for neighbour in missing if neighbour.id not in found]
        return [(neighbour, found[neighbour.id]) for neighbour in waiting if neighbour.id in found]

    async def _breathe(self, now_s: float) -> None:
        """Let the event loop run now and then, for signals; in every round it would cost as much as the frames."""
        self._breathe_at = now_s + BREATHE_EVERY_S
        await asyncio.sleep(0)

    def _read_expected(self, parts: Parts) -> Batch | None:
        """All that was said in this round, if every neighbour just goes on as before; nothing is noted otherwise."""
        expected = self._expected.of(parts)
        batch = read_expected(expected, self.rounds.round, self._reader.heads)
        if batch is None:
            return None
        if self.names_senders:
            batch.via = senders_of(expected)
        if not follows(batch.sequel, self._said_by_all):  # else these are the heads that were looked at before
            said = only_said_by(batch, senders_of(expected))
            if refused := len(batch) - len(said):
                self.dropped["lifetime"] += refused
            batch = said
        self._said_by_all = batch.sequel.number if batch.sequel is not None else 0
        return batch

    def _read(self, parts: Parts, *, hold: bool = True, newest: bool = False) -> None:
        """Decode parts and hand them to the rounds; `hold` keeps early frames for theirs, `newest` the last of them."""
        self._said_by_all = 0  # what is expected may change
        heard: list[tuple[Neighbour[Frame], bytes]] = []
        for neighbour, part in parts:
            if part == SEVERAL_PARTS:
                self.rounds.babbles(neighbour)
            elif not self.rounds.refuses_unread(neighbour, len(part)):
                heard.append((neighbour, part))
        read = self._reader.read([part for _, part in heard], self._arms)
        for (neighbour, part), (frame, size) in zip(heard, read, strict=True):
            if isinstance(frame, PeerError):
                self.rounds.wrong(neighbour, frame.reason, size)
            elif frame.run != self._run:
                self.rounds.wrong(neighbour, "run", size)
            elif frame.sender != neighbour.id:
                self.rounds.wrong(neighbour, "sender", size)
            else:
                goes_on = self.rounds.hear(neighbour, frame, size, hold=hold, newest=newest)
                self._expected.heard(neighbour.id, Said(frame, part) if goes_on and self._fast_path else None)

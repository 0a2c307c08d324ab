"""The barrier before the first round: every neighbour hears us and was heard; evidence, never a guess.

A frame that is published before a neighbour's subscription has arrived is lost without a word (field-notes), so a
starting agent waits for both halves of every link: it has seen the neighbour's subscription, and it has read something
that the neighbour said.

What a neighbour says wrongly proves nothing and ends nothing: it is counted, the neighbour is missing, and the log says
why. Who starts gives up only where no neighbour gave any sign at all, for then it is more likely to be wrong itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from agentd.core.rounds import Neighbour, Rounds, Standing
from agentd.errors import LinkError, PeerError
from agentd.shell.json_log import Log
from agentd.shell.transport import Line, Transport
from agentd.wire.codec import decode_frame
from agentd.wire.frame import Frame
from agentd.wire.topics import payload, sync_topic

FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_SLICES = 0.25
"""How long a starting agent lets answers of its neighbours gather before it looks again; at most so much of a slice."""
TRY_AGAIN_S = 5.0
"""How often those that were not heard yet are connected to anew."""
ONLY_WRONG_S = 2.0
"""How long to wait for those who say something, but nothing right, when all others are there."""
PARTS_AT_ONCE = 16
"""Parts that one neighbour may have read before the next one's turn."""


class Barrier:
    """Waits for the neighbours of an agent that starts."""

    def __init__(
        self,
        transport: Transport,
        rounds: Rounds[Frame],
        *,
        own: int,
        run: bytes,
        answer: Callable[[], None],
        log: Log,
    ) -> None:
        self._transport = transport
        self._rounds = rounds
        self._own = own
        self._run = run
        self._topic = sync_topic(own)
        self._answer = answer
        """Notes whose subscriptions were seen, and greets them."""
        self._log = log
        self._wrong: dict[int, str] = {}
        """What was wrong with the last thing that a neighbour said."""
        self._wrong_s = 0.0
        """When the last of these began to say wrong things."""

    async def wait(self, timeout_s: float, stop: asyncio.Event, *, some_needed: bool) -> None:
        """Return when all are there; late, go on without the missing, unless one is needed and nobody gave a sign."""
        deadline = self._transport.now_s() + timeout_s
        pause_s = FIRST_PAUSE_S
        try_again_s = self._transport.now_s() + TRY_AGAIN_S
        while (missing := self._rounds.missing) and not stop.is_set():
            if all(neighbour.id in self._wrong for neighbour in missing):
                deadline = min(deadline, self._wrong_s + ONLY_WRONG_S)
            if self._transport.now_s() >= deadline:
                self._answer()  # who has just connected anew hears us, too
                if missing := self._rounds.missing:
                    self._go_without(missing, timeout_s, some_needed)
                return
            # Only those not heard yet: frames of the others stay in their sockets until rounds begin.
            unheard = [neighbour for neighbour in missing if neighbour.standing < Standing.SPEAKING]
            if self._transport.now_s() >= try_again_s:
                try_again_s = self._transport.now_s() + TRY_AGAIN_S
                self._connect_anew(unheard)
            await self._transport.wait_for_any([self._line(neighbour) for neighbour in unheard])
            self._answer()
            for neighbour in unheard:
                self._hear_first(neighbour)
            await self._transport.pause(pause_s, stop)  # more may come: to be woken for each one is dear in a crowd
            pause_s = min(2 * pause_s, LONGEST_PAUSE_SLICES * self._transport.slice_s)

    def _line(self, neighbour: Neighbour[Frame]) -> Line:
        return self._transport.lines[neighbour.id]

    def _connect_anew(self, unheard: Sequence[Neighbour[Frame]]) -> None:
        """ZeroMQ does not by itself where a connection was refused, or its name leads elsewhere by now."""
        for line in map(self._line, unheard):
            if not line.is_readable():
                line.reconnect()

    def _hear_first(self, neighbour: Neighbour[Frame]) -> None:
        """Read until something of the neighbour is understood, but never for as long as it likes to send."""
        for _ in range(PARTS_AT_ONCE):
            if neighbour.standing >= Standing.SPEAKING:
                return
            if (part := self._line(neighbour).receive(False)) is None:
                return
            self._read_early(neighbour, part)

    def _read_early(self, neighbour: Neighbour[Frame], part: bytes) -> None:
        """Look at a part that came before our rounds began; what belongs to a round is kept for it."""
        try:
            frame = decode_frame(payload(part, self._topic))
        except PeerError as fault:
            another = "speaks another protocol version" if fault.reason == "version" else "says what cannot be read"
            self._count_wrong(neighbour, fault.reason, another)
            return
        if frame.run != self._run:
            self._count_wrong(neighbour, "run", f"belongs to run {frame.run.hex()}")
        elif frame.sender != neighbour.id:
            self._count_wrong(neighbour, "sender", f"is agent {frame.sender}, whatever --peers says")
        elif frame.greeting:
            self._rounds.greeted(neighbour, frame)
        else:
            neighbour.speaks()
            self._line(neighbour).put_back(part)

    def _count_wrong(self, neighbour: Neighbour[Frame], reason: str, what: str) -> None:
        self._rounds.wrong(neighbour, reason, 0)
        if neighbour.id not in self._wrong:
            self._wrong_s = self._transport.now_s()
        self._wrong[neighbour.id] = what

    def _go_without(self, missing: Sequence[Neighbour[Frame]], timeout_s: float, some_needed: bool) -> None:
        nobody = not self._wrong and all(n.standing is Standing.UNKNOWN for n in self._rounds.everybody)
        if some_needed and nobody:
            names = ", ".join(f"{n.id} ({self._line(n).address})" for n in missing)
            raise LinkError(
                f"neighbours did not answer within {timeout_s:g} s: {names}; "
                f"are they running, and do their --peers name agent {self._own}?"
            )
        why = {str(n.id): f"{self._line(n).address} {self._why(n)}" for n in missing}
        self._log.warning("starting without neighbours", missing=[n.id for n in missing], why=why)
        self._rounds.begin_without(missing)

    def _why(self, neighbour: Neighbour[Frame]) -> str:
        """Why rounds begin without it."""
        if neighbour.id in self._wrong:
            return self._wrong[neighbour.id]
        if neighbour.standing is Standing.LISTENING:
            return "hears us and says nothing"
        return "does not hear us" if neighbour.standing is Standing.SPEAKING else "is silent"

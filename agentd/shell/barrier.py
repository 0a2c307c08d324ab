"""The barrier before the first round: every neighbour hears us and was heard; evidence, never a guess.

A frame that is published before a neighbour's subscription has arrived is lost without a word (field-notes), so a
starting agent waits for both halves of every link: it has seen the neighbour's subscription, and it has read something
that the neighbour said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from agentd.core.rounds import Neighbour, Rounds, Standing
from agentd.errors import ConfigurationError, LinkError, PeerError
from agentd.shell.json_log import Log
from agentd.shell.transport import Line, Transport
from agentd.wire.codec import decode_frame
from agentd.wire.frame import Frame
from agentd.wire.topics import payload, sync_topic

FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05
"""How long a starting agent lets answers of its neighbours gather before it looks again."""
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

    async def wait(self, timeout_s: float, stop: asyncio.Event, *, all_needed: bool) -> None:
        """Return when all are there; late, name the missing: in an error where all are needed, else in the log."""
        deadline = self._transport.now_s() + timeout_s
        pause_s = FIRST_PAUSE_S
        while (missing := self._rounds.missing) and not stop.is_set():
            if self._transport.now_s() >= deadline:
                self._go_without(missing, timeout_s, all_needed)
                return
            # Only those not heard yet: frames of the others stay in their sockets until rounds begin.
            unheard = [neighbour for neighbour in missing if neighbour.standing < Standing.SPEAKING]
            self._transport.wait_for_any([self._line(neighbour) for neighbour in unheard])
            self._answer()
            for neighbour in unheard:
                self._hear_first(neighbour)
            await self._transport.pause(pause_s, stop)  # more may come: to be woken for each one is dear in a crowd
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _line(self, neighbour: Neighbour[Frame]) -> Line:
        return self._transport.lines[neighbour.id]

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
            self._rounds.dropped[fault.reason] += 1
            if fault.reason == "version":
                raise ConfigurationError(
                    f"agent {neighbour.id} at {self._line(neighbour).address} speaks another protocol version; "
                    "run the same agentd version everywhere"
                ) from None
            return
        self._refuse_stranger(neighbour, frame)
        if frame.greeting:
            neighbour.note(frame)
        else:
            neighbour.speaks()
            self._line(neighbour).put_back(part)

    def _refuse_stranger(self, neighbour: Neighbour[Frame], frame: Frame) -> None:
        place = f"{self._line(neighbour).address}, where --peers says agent {neighbour.id} is"
        if frame.sender != neighbour.id:
            raise ConfigurationError(f"agent {frame.sender} answers at {place}; correct --peers")
        if frame.run != self._run:
            raise ConfigurationError(
                f"the agent at {place}, belongs to run {frame.run.hex()}, not {self._run.hex()}; "
                "give both the same --environment"
            )

    def _go_without(self, missing: Sequence[Neighbour[Frame]], timeout_s: float, all_needed: bool) -> None:
        names = ", ".join(f"{n.id} ({self._line(n).address})" for n in missing)
        if all_needed:
            raise LinkError(
                f"neighbours did not answer within {timeout_s:g} s: {names}; "
                f"are they running, and do their --peers name agent {self._own}?"
            )
        self._log.warning("starting without neighbours", missing=[n.id for n in missing])
        self._rounds.begin_without(missing)

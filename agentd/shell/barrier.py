"""The barrier before the first round: every neighbour hears us and was heard; evidence, never a guess.

A frame that is published before a neighbour's subscription has arrived is lost without a word (field-notes), so a
starting agent waits for both halves of every link: it has seen the neighbour's subscription, and it has read something
that the neighbour said.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import zmq
from structlog.typing import FilteringBoundLogger

from agentd.errors import ConfigurationError, LinkError, PeerError
from agentd.shell.neighbour import LATE_FRAMES_AT_ONCE, Neighbour
from agentd.shell.sockets import SLICE_MS
from agentd.wire.codec import decode_frame
from agentd.wire.frame import Frame
from agentd.wire.topics import payload, sync_topic

FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05
"""How long a starting agent lets answers of its neighbours gather before it looks again."""


class Barrier:
    """Waits for the neighbours of an agent that starts."""

    def __init__(
        self,
        neighbours: Iterable[Neighbour],
        *,
        own: int,
        run: bytes,
        publisher: zmq.Socket[bytes],
        answer: Callable[[], None],
        dropped: Counter[str],
        log: FilteringBoundLogger,
    ) -> None:
        self._neighbours = list(neighbours)
        self._own = own
        self._run = run
        self._topic = sync_topic(own)
        self._publisher = publisher
        self._answer = answer
        """Notes whose subscriptions were seen, and greets them."""
        self._dropped = dropped
        self._log = log

    async def wait(self, timeout_s: float, stop: asyncio.Event, *, all_needed: bool) -> None:
        """Return when all are there; late, name the missing: in an error where all are needed, else in the log."""
        deadline = time.monotonic() + timeout_s
        pause_s = FIRST_PAUSE_S
        while (missing := [n for n in self._neighbours if not (n.hears_us and n.greeted)]) and not stop.is_set():
            if time.monotonic() >= deadline:
                self._go_without(missing, timeout_s, all_needed)
                return
            # Only those not heard yet: frames of the others stay in their sockets until rounds begin.
            unheard = [n for n in missing if not n.greeted]
            for neighbour in unheard:
                neighbour.route.find()
            zmq.select([self._publisher, *(n.socket for n in unheard)], [], [], SLICE_MS / 1000)
            self._answer()
            for neighbour in unheard:
                self._hear_first(neighbour)
            await asyncio.sleep(pause_s)  # more may come meanwhile: to be woken for each one is dear in a crowd
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _hear_first(self, neighbour: Neighbour) -> None:
        """Read until something of the neighbour is understood, but never for as long as it likes to send."""
        for _ in range(LATE_FRAMES_AT_ONCE):
            if neighbour.greeted or (part := neighbour.receive(zmq.NOBLOCK)) is None:
                return
            self._read_early(neighbour, part)

    def _read_early(self, neighbour: Neighbour, part: bytes) -> None:
        """Look at a part that came before our rounds began; what belongs to a round is kept for it."""
        try:
            frame = decode_frame(payload(part, self._topic))
        except PeerError as fault:
            self._dropped[fault.reason] += 1
            if fault.reason == "version":
                raise ConfigurationError(
                    f"agent {neighbour.id} at {neighbour.address} speaks another protocol version; "
                    "run the same agentd version everywhere"
                ) from None
            return
        self._refuse_stranger(neighbour, frame)
        if frame.greeting:
            neighbour.note(frame, self._dropped)
        else:
            neighbour.greeted = True
            neighbour.waiting.append(part)

    def _refuse_stranger(self, neighbour: Neighbour, frame: Frame) -> None:
        place = f"{neighbour.address}, where --peers says agent {neighbour.id} is"
        if frame.sender != neighbour.id:
            raise ConfigurationError(f"agent {frame.sender} answers at {place}; correct --peers")
        if frame.run != self._run:
            raise ConfigurationError(
                f"the agent at {place}, belongs to run {frame.run.hex()}, not {self._run.hex()}; "
                "give both the same --environment"
            )

    def _go_without(self, missing: Sequence[Neighbour], timeout_s: float, all_needed: bool) -> None:
        names = ", ".join(f"{n.id} ({n.address})" for n in missing)
        if all_needed:
            raise LinkError(
                f"neighbours did not answer within {timeout_s:g} s: {names}; "
                f"are they running, and do their --peers name agent {self._own}?"
            )
        self._log.warning("starting without neighbours", missing=[n.id for n in missing])
        for neighbour in missing:
            neighbour.live = False

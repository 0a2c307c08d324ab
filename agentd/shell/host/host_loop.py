"""The event loop of a process with many agents: work first, and when nobody can go on, send, wait and receive.

Frames and requests leave together when all agents wait: so the more there is to do, the fewer messages it takes.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import zmq

LOOK_EVERY = 64
LOOK_EVERY_S = 0.05
"""Turns of the loop, or time, after which it looks what has come, though somebody could still go on. Where thousands
of agents share a process a turn may take seconds, and others wait for what they have said."""


class Pump(selectors.EpollSelector):
    """Waits for ZeroMQ's sockets and for all else at once; asyncio takes it for a selector."""

    def __init__(self) -> None:
        super().__init__()
        self._turns = 0
        self._looked_s = 0.0
        self.attend((), (), ())

    def attend(
        self,
        sockets: Iterable[zmq.Socket[bytes]],
        flush: Iterable[Callable[[], None]],
        drain: Iterable[Callable[[], None]],
    ) -> None:
        """Wait for these sockets, too: `flush` before a wait, `drain` after it."""
        self._poller = zmq.Poller()
        for waited in (self.fileno(), *sockets):
            self._poller.register(waited, zmq.POLLIN)
        self._flush, self._drain = tuple(flush), tuple(drain)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As asyncio asks for it: a timeout of 0 says that somebody can go on."""
        self._turns += 1
        can_go_on = timeout is not None and timeout <= 0
        if can_go_on and self._turns % LOOK_EVERY and time.monotonic() < self._looked_s + LOOK_EVERY_S:
            return super().select(0)
        for flush in self._flush:
            flush()
        self._poller.poll(None if timeout is None else max(0, math.ceil(timeout * 1000)))
        for drain in self._drain:
            drain()
        self._looked_s = time.monotonic()
        return super().select(0)


def run_with(pump: Pump, main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a coroutine to its end on a loop that waits with this pump."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(pump)) as runner:
        return runner.run(main())

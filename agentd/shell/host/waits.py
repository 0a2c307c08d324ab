"""Waiting among many: each agent waits for one thing at a time, and for how long at most.

A timer for each of them would cost as much as a frame, and nearly all would be in vain. So deadlines fall into slots
of time, and one timer looks after all of them; what was found meanwhile is passed over when its slot is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SLOT_S = 0.01
"""Nobody is woken more exactly than that by the clock alone."""


class Waits:
    """The clock of all agents of a process."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now_s: Callable[[], float] = loop.time
        self._slots: dict[int, list[asyncio.Future[None]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> asyncio.Future[None]:
        """Something to wait for, which comes by itself after so long; whoever has it first says so with `wake`."""
        future: asyncio.Future[None] = self._loop.create_future()
        slot = int((self._loop.time() + seconds) / SLOT_S) + 1
        self._slots.setdefault(slot, []).append(future)
        if self._timer is None:
            self._timer = self._loop.call_later(SLOT_S, self._look)
        return future

    def _look(self) -> None:
        now = int(self._loop.time() / SLOT_S)
        for slot in sorted(slot for slot in self._slots if slot <= now):
            for future in self._slots.pop(slot):
                wake(future)
        self._timer = self._loop.call_later(SLOT_S, self._look) if self._slots else None


def wake(future: asyncio.Future[None] | None) -> None:
    """Let whoever waits for it go on."""
    if future is not None and not future.done():
        future.set_result(None)

"""Live news for any number of readers: one look at the run for all of them, to each only what it does not have yet.

Nobody looks while nobody reads. A reader that is slow misses what came between and gets the newest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agentd.dashboard.changes import changes

LOOK_EVERY_S = 1.0
HEARTBEAT_S = 15.0

State = dict[str, Any]


class EventStream:
    """What one run looks like, for who reads along."""

    def __init__(self, look: Callable[[], Awaitable[State]], every_s: float = LOOK_EVERY_S) -> None:
        self._look = look
        self._every_s = every_s
        self._state: State = {}
        self._news = asyncio.Condition()
        self._hurry = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self.readers = 0

    def hurry(self) -> None:
        """Something was done: look now."""
        self._hurry.set()

    async def read(self) -> AsyncIterator[State | None]:
        """What changed, first everything; None where nothing did for long. It ends when the run is over."""
        before: State = {}
        self.readers += 1
        try:
            if self._looking is None or self._looking.done():
                self._state = {}
                self._looking = asyncio.create_task(self._keep_looking())
            while True:
                try:
                    now = await asyncio.wait_for(self._newer_than(before), HEARTBEAT_S)
                except TimeoutError:
                    yield None
                    continue
                if told := changes(before, now):
                    yield told
                before = now
                if now.get("over"):
                    return
        finally:
            self.readers -= 1
            if not self.readers and self._looking is not None:
                self._looking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._looking
                self._looking = None

    async def _newer_than(self, before: State) -> State:
        async with self._news:
            await self._news.wait_for(lambda: bool(self._state) and self._state is not before)
            return self._state

    async def _keep_looking(self) -> None:
        while True:
            state = await self._look()
            if state != self._state:
                async with self._news:
                    self._state = state
                    self._news.notify_all()
            self._hurry.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), self._every_s)

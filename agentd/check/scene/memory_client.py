"""The daemon's own client of the environment, over requests that are carried in memory."""

from __future__ import annotations

import asyncio
from collections import deque

from agentd.check.scene.hosted_environment import HostedEnvironment
from agentd.check.scene.lines import SLICE_S, MemoryEnd
from agentd.shell.environment_client import EnvironmentClient
from agentd.shell.json_log import Log


class MemoryClient(EnvironmentClient):
    """Asks as ever; only what carries the bytes differs."""

    def __init__(
        self, end: MemoryEnd, environment: HostedEnvironment, token: bytes, stop: asyncio.Event, log: Log
    ) -> None:
        self._end = end
        self._environment = environment
        self._parts: deque[bytes] = deque()
        self._begin(environment.address, log, stop)
        self.token = token

    def now_s(self) -> float:
        return self._end.now_s()

    def close(self) -> None:
        """Nothing is open."""

    async def _find(self, timeout_s: float) -> None:
        """It is where it is."""

    def _reconnect(self) -> None:
        """As soon as it is there it answers."""

    def _carry(self, data: bytes) -> None:
        if self._end.is_up:
            self._environment.ask(data, self._hears)

    def _hears(self, data: bytes) -> None:
        if self._end.is_up:
            self._parts.append(data)
            self._end.poke()

    def _part_at_once(self) -> bytes | None:
        return self._parts.popleft() if self._parts else None

    async def _next_part(self) -> bytes | None:
        self._end.let_pass(SLICE_S, lambda: bool(self._parts))
        return self._part_at_once()

    async def _sleep(self, seconds: float) -> None:
        self._end.let_pass(seconds, lambda: False)

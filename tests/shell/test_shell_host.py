"""Many agents as one process: however one of them ends, the others go on and its end is told."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from agentd.errors import LinkError
from agentd.settings import AgentSettings
from agentd.shell.host.desk import Desk
from agentd.shell.host.exchange import Exchange
from agentd.shell.host.host import BUG, Host
from agentd.shell.json_log import open_log


class Doomed(Host):
    """Its agent 0 ends badly, and agent 1 has its last round after that."""

    def __init__(self, end: BaseException) -> None:
        self.told: list[tuple[int, int]] = []
        super().__init__(
            cast("Exchange", None),
            cast("Desk", None),
            open_log(None, "error"),
            lambda agent, code, _: self.told.append((agent, code)),
        )
        self._end = end
        self._ended = asyncio.Event()

    async def _live(self, settings: AgentSettings) -> None:
        if settings.id == 0:
            self._ended.set()
            raise self._end
        await self._ended.wait()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("end", "code"),
    [(LinkError("gone"), LinkError.exit_code), (ValueError("a bug"), BUG), (SystemExit(3), BUG), (SystemExit(0), BUG)],
)
def test_however_an_agent_ends_its_process_carries_the_others_on(end: BaseException, code: int) -> None:
    async def run() -> list[tuple[int, int]]:
        host, nowhere = Doomed(end), "tcp://127.0.0.1:1"
        await host.carry_all([AgentSettings(id=each, listen=nowhere, environment=nowhere) for each in (0, 1)])
        return host.told

    assert asyncio.run(run()) == [(0, code), (1, 0)]

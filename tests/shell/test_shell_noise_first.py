"""The daemon's loop draws noise between PULL and its answer, with a real client on a real socket."""

from __future__ import annotations

import asyncio
import secrets
import threading
from typing import Any

import pytest
from loopback import LONG_S, StandIn, free_address
from loopback_fixtures import Context
from structlog.typing import FilteringBoundLogger

from agentd.core.agent import Agent
from agentd.core.message import Batch
from agentd.core.policy import ALGORITHMS, PolicySettings, make_policy
from agentd.core.privacy.laplace import ExactLaplace
from agentd.core.terms import Terms
from agentd.shell.drive import Reporter, drive_free
from agentd.shell.environment_client import EnvironmentClient
from agentd.wire.environment_messages import EnvironmentMessage, Pull

NOISED = [name for name, algorithm in ALGORITHMS.items() if algorithm.noised]
TRIALS = 30


class Meeting:
    """Noise that waits until the environment has the pull, and an environment that pays only once noise is drawn.

    So a draw before PULL, or one after its answer, ends in a wait for nobody.
    """

    def __init__(self) -> None:
        self.agent: Agent
        self.asked = threading.Event()
        self.drawn = threading.Event()
        self.draws = 0

    def draw(self, arm: int, scale: int) -> int:
        assert self.asked.wait(LONG_S), "noise was drawn before the environment was asked"
        self.asked.clear()
        self.draws += 1
        self.drawn.set()
        return ExactLaplace(secrets.token_bytes).draw(arm, scale)

    def answer(self, request: EnvironmentMessage) -> list[EnvironmentMessage | bytes]:
        if isinstance(request, Pull) and self.agent.decide().release is not None:
            self.drawn.clear()
            self.asked.set()
            assert self.drawn.wait(LONG_S), "the answer was awaited before noise was drawn"
        return self.honest.honest(request)

    honest: StandIn


class Wire:
    """Nobody listens."""

    def drain(self, _interval_s: float = 0.0) -> list[Batch]:
        return []

    def now_s(self) -> float:
        return 0.0

    async def pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Nobody waits here."""

    def publish(self, round_: int, batches: Any, *, last: bool = False) -> None:
        list(batches)


@pytest.mark.parametrize("algorithm", NOISED)
async def test_noise_is_drawn_while_the_answer_is_under_way(
    algorithm: str, context: Context, log: FilteringBoundLogger, stop: asyncio.Event
) -> None:
    meeting, address = Meeting(), free_address()
    policy = make_policy(algorithm, PolicySettings(arms=2), 1)
    meeting.agent = agent = Agent(1, policy, terms=Terms(2, 2), noise=meeting)
    link: Any = Wire()
    with StandIn(address, meeting.answer) as environment:
        meeting.honest = environment
        client = EnvironmentClient(context, address, log, stop)
        await client._find(LONG_S)
        around: Any = {"rounds": TRIALS, "stop": stop, "reporter": Reporter(lambda: None, log)}
        await drive_free(agent, link, client, interval_s=1e-6, **around)
        client.close()
    assert policy.ledger is not None
    assert meeting.draws == policy.ledger.releases() >= 2
    assert agent.trial == TRIALS

"""The loop around an agent: every decision is the agent's, every wait is ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from agentd.core.agent import Agent, Turn
from agentd.core.message import MAX_TRIAL
from agentd.shell.json_log import Log
from agentd.shell.link import Link
from agentd.shell.state.keeper import StateKeeper

REPORT_EVERY_S = 2.0
LOG_EVERY_TRIALS = 100


class Bandit(Protocol):
    """Whatever pays rewards: the environment service, or arms of the agent's own."""

    async def pull(self, agent: int, trial: int, arm: int) -> int:
        """The reward of a pull, on the grid."""
        ...


class Reporter:
    """Tells how far the agent is, from within the loop, so that reporting needs no task of its own."""

    def __init__(self, report: Callable[[], None], log: Log) -> None:
        self._report = report
        self._log = log
        self._due = time.monotonic()  # the first round is told at once: a testbed is ready when all have had one

    def tick(self, trial: int) -> None:
        """Report if it is time; leave a milestone in the log now and then."""
        if trial % LOG_EVERY_TRIALS == 0:
            self._log.info("progress", trial=trial)
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + REPORT_EVERY_S
            self._report()


async def drive_lockstep(
    agent: Agent,
    link: Link,
    bandit: Bandit,
    *,
    rounds: int,
    round_timeout_s: float,
    stop: asyncio.Event,
    reporter: Reporter,
    keeper: StateKeeper | None = None,
) -> None:
    """Carry the agent through its trials in step with its neighbours; nobody coordinates but the neighbours."""
    while agent.trial < rounds and not stop.is_set():
        turn = await _pull(agent, bandit, keeper)
        last = agent.trial == rounds
        link.publish(agent.trial, turn.outbox(), last=last)
        if not last:
            batches = await link.gather(round_timeout_s, stop)
            agent.receive(batches, latest_trial=link.latest_round)
        reporter.tick(agent.trial)


async def drive_free(
    agent: Agent,
    link: Link,
    bandit: Bandit,
    *,
    rounds: int,
    interval_s: float,
    stop: asyncio.Event,
    reporter: Reporter,
    keeper: StateKeeper | None = None,
) -> None:
    """Carry the agent through its trials on its own clock; it waits for nobody."""
    due_s = link.now_s()
    while agent.trial < rounds and not stop.is_set():
        agent.receive(link.drain(), latest_trial=MAX_TRIAL)  # clocks differ: nobody knows how far others can be
        turn = await _pull(agent, bandit, keeper)
        link.publish(agent.trial, turn.outbox(), last=agent.trial == rounds)
        reporter.tick(agent.trial)
        due_s = max(due_s + interval_s, link.now_s())
        if agent.trial < rounds:
            await link.pause(due_s - link.now_s(), stop)


async def _pull(agent: Agent, bandit: Bandit, keeper: StateKeeper | None) -> Turn:
    """One trial, written down where something keeps the agent's state."""
    intent = keeper.choose(agent) if keeper is not None else agent.choose()
    turn = agent.advance(await bandit.pull(agent.own, intent.trial, intent.arm))
    if keeper is not None:
        keeper.commit(turn)
    else:
        turn.committed()
    return turn

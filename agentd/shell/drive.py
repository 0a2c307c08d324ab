"""The loop around an agent: every decision is the agent's, every wait is ours."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from agentd.core.agent import Agent, Turn
from agentd.core.rounds.whereabouts import Whereabouts
from agentd.core.trust.lives import Lives
from agentd.core.trust.pace import ANY_PACE, Pace
from agentd.shell.json_log import Log
from agentd.shell.link import Link
from agentd.shell.state.keeper import StateKeeper

REPORT_EVERY_S = 2.0
REPORT_EVERY_SLICES = 4.0
"""How often an agent reports, at most; where thousands share a process, reports are not to be most of its work."""
ASK_EVERY_S = 0.2
"""The same while somebody was heard in a life that the environment has not told of."""
ASK_WHERE_EVERY_S = 0.05
"""The same while it is not known well enough where the run is; more often the environment does not look itself."""
LOOK_EVERY_S = 0.01
"""How often one who waits for that word looks for it."""
LOG_EVERY_TRIALS = 100


class Bandit(Protocol):
    """Whatever pays rewards: the environment service, or arms of the agent's own."""

    async def pull(self, agent: int, trial: int, arm: int, sent: Callable[[], None]) -> int:
        """The reward of a pull, on the grid; `sent` is called once, when it was asked for and nobody knows it yet."""
        ...


class Word(Protocol):
    """The environment's word on where the run is."""

    run_round: int

    def listen(self) -> None:
        """Take up what it has told meanwhile, without waiting."""
        ...


class _Nothing:
    run_round = 0

    def listen(self) -> None:
        """Nobody tells."""


NOTHING = _Nothing()
"""Where there is no environment that knows of rounds."""


class Reporter:
    """Tells how far the agent is, from within the loop, so that reporting needs no task of its own."""

    def __init__(
        self,
        report: Callable[[], None],
        log: Log,
        lives: Lives | None = None,
        where: Whereabouts | None = None,
        now_s: Callable[[], float] | None = None,
        *,
        every_s: float = REPORT_EVERY_S,
        standing: Callable[[], Mapping[str, Any]] | None = None,
        at_leisure: Callable[[], None] | None = None,
    ) -> None:
        self._standing = standing or dict
        self._at_leisure = at_leisure
        """What else is done now and then, however often reports are asked for: a neighbour's claims can do that."""
        self._report = report
        self._every_s = every_s
        self._log = log
        self._lives = lives or Lives()
        self._where = where or Whereabouts()
        self._now_s = now_s or time.monotonic
        self._last_s = -math.inf
        self.after_each: Callable[[], None] | None = None
        """What else is to be done after every trial."""
        self._due = self._now_s()  # the first round is told at once: a testbed is ready when all have had one
        self._leisure_s = self._due + REPORT_EVERY_S

    def tick(self, trial: int) -> None:
        """Report if it is time; leave a milestone in the log now and then."""
        if self.after_each is not None:
            self.after_each()
        if trial % LOG_EVERY_TRIALS == 0:
            self._log.info("progress", trial=trial, **self._standing())
        self.look()

    def look(self) -> None:
        """Report if it is time, also in the midst of a round."""
        now_s = self._now_s()
        if (
            now_s >= self._due
            or (self._lives.ask and now_s >= self._last_s + ASK_EVERY_S)
            or (self._where.ask and now_s >= self._last_s + ASK_WHERE_EVERY_S)
        ):
            self._last_s, self._due = now_s, now_s + self._every_s
            self._lives.ask = self._where.ask = False
            self._report()
        if now_s >= self._leisure_s:
            self._leisure_s = now_s + REPORT_EVERY_S
            if self._at_leisure is not None:
                self._at_leisure()


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
    word: Word = NOTHING,
) -> None:
    """Carry the agent through its trials in step with its neighbours; nobody coordinates but the neighbours.

    The round is apart from the trial: who was away goes to where the others are.
    """

    def meanwhile() -> None:
        reporter.look()
        word.listen()
        link.told(word.run_round)

    link.meanwhile = meanwhile
    told = 0
    while agent.trial < rounds and not stop.is_set():
        turn = await _pull(agent, bandit, keeper)
        if word.run_round != told:
            told = word.run_round
            link.told(told)
        last = agent.trial == rounds
        link.publish(link.next_round(), turn.outbox(), last=last)
        if not last:
            batches = await link.gather(round_timeout_s, stop)
            agent.receive(batches, latest_trial=link.latest_round)
        reporter.tick(agent.trial)
        if link.runs_away:
            await _wait_for_the_run(link, round_timeout_s, stop, meanwhile)


async def _wait_for_the_run(link: Link, timeout_s: float, stop: asyncio.Event, meanwhile: Callable[[], None]) -> None:
    """Nobody runs away alone: wait until the environment tells that the run is near, or for a round's time."""
    end_s = link.now_s() + timeout_s
    while link.runs_away and link.now_s() < end_s and not stop.is_set():
        link.ask()
        meanwhile()
        await link.pause(LOOK_EVERY_S, stop)


async def drive_free(
    agent: Agent,
    link: Link,
    bandit: Bandit,
    *,
    rounds: int,
    interval_s: float,
    pace: Pace = ANY_PACE,
    stop: asyncio.Event,
    reporter: Reporter,
    keeper: StateKeeper | None = None,
) -> None:
    """Carry the agent through its trials on its own clock; it waits for nobody, but is never ahead of the pace."""
    due_s = max(link.now_s(), pace.due_s(agent.trial + 1))
    if due_s > link.now_s():
        await link.pause(due_s - link.now_s(), stop)
    while agent.trial < rounds and not stop.is_set():
        agent.receive(link.drain(interval_s), latest_trial=pace.latest_trial(link.now_s()))
        turn = await _pull(agent, bandit, keeper)
        link.publish(agent.trial, turn.outbox(), last=agent.trial == rounds)
        reporter.tick(agent.trial)
        due_s = max(due_s + interval_s, link.now_s())
        if agent.trial < rounds:
            await link.pause(due_s - link.now_s(), stop)


async def _pull(agent: Agent, bandit: Bandit, keeper: StateKeeper | None) -> Turn:
    """One trial, written down where something keeps the agent's state."""
    intent = keeper.choose(agent) if keeper is not None else agent.decide()
    # Noise is drawn while the answer is under way: how long that takes shows neither before the pull nor after it.
    turn = agent.advance(await bandit.pull(agent.own, intent.trial, intent.arm, agent.draw))
    if keeper is not None:
        keeper.commit(turn)
    else:
        turn.committed()
    return turn

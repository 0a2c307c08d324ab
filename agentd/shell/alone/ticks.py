"""The loop around an agent whose arms are its own: everything leaves on the tick of a public clock.

What a pull takes may be its reward, so nothing that others can see may depend on it. At a tick an agent closes the
trial before (with what has come; nothing else counts any more), sends its frame, takes in what others said, chooses,
and asks for the next pull. Between two ticks it does nothing: a reward that comes is only looked at by the next one.
When the ticks are follows from the terms of the run alone; who was held up goes on at the next one, not in between.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING

from agentd.core.agent import Agent, Turn
from agentd.core.trust.pace import Pace
from agentd.shell.drive import Reporter
from agentd.shell.link import Link
from agentd.shell.state.keeper import StateKeeper

if TYPE_CHECKING:
    from agentd.shell.alone.own_arms import OwnArms


class Ticks:
    """Times that are so many seconds apart, on the clock of a link."""

    def __init__(self, first_s: float, interval_s: float) -> None:
        self._first_s = first_s
        self._interval_s = interval_s
        self._number = 0

    @property
    def due_s(self) -> float:
        """The time of the present tick."""
        return self._first_s + self._number * self._interval_s

    def not_before(self, now_s: float) -> None:
        """Pass over ticks that were missed: to go on in between would tell what held us up."""
        self._number = max(self._number, math.ceil((now_s - self._first_s) / self._interval_s))

    def go_on(self, now_s: float) -> None:
        """On to the next tick that is still to come."""
        self._number += 1
        self.not_before(now_s)


class _UnderWay:
    """Pulls that were asked for and are not closed; each is closed so many ticks after it was asked for."""

    def __init__(self, agent: Agent, arms: OwnArms, keeper: StateKeeper, most: int) -> None:
        self._agent, self._arms, self._keeper, self._most = agent, arms, keeper, most
        self._trials: deque[int] = deque()

    @property
    def last(self) -> int:
        """The latest trial that was asked for."""
        return self._trials[-1] if self._trials else self._agent.trial

    def ask(self, deadline_s: float) -> None:
        """Choose, and have the arm pulled; the noise is drawn while that is under way."""
        agent = self._agent
        intent = self._keeper.choose(agent) if self._most == 1 else agent.look_ahead()
        self._arms.ask(intent.trial, intent.arm, deadline_s)
        self._trials.append(intent.trial)
        if self._most == 1:
            agent.draw()  # how long it takes shows neither before the pull nor at the next tick

    def close(self, *, to_the_end: bool) -> Turn | None:
        """Close the oldest with what has come, if it is its tick; nothing else counts for it from now on."""
        if not self._trials or (len(self._trials) < self._most and not to_the_end):
            return None
        reward = self._arms.take(self._trials.popleft())
        turn = self._agent.advance(reward) if self._most == 1 else self._agent.advance_oldest(reward)
        self._keeper.commit(turn)
        return turn


async def drive_ticks(
    agent: Agent,
    link: Link,
    arms: OwnArms,
    *,
    rounds: int,
    interval_s: float,
    pace: Pace,
    stop: asyncio.Event,
    reporter: Reporter,
    keeper: StateKeeper,
    most: int = 1,
) -> None:
    """Carry the agent through its trials; pulls that are under way when it is told to stop are given up.

    With `most` pulls under way at a time a trial is closed that many ticks after it was asked for.
    """
    ticks = Ticks(pace.due_s(agent.trial + 1), interval_s)
    ticks.not_before(link.now_s())
    under_way = _UnderWay(agent, arms, keeper, most)
    await link.pause(ticks.due_s - link.now_s(), stop)
    while agent.trial < rounds and not stop.is_set():
        agent.receive(link.drain(), latest_trial=pace.latest_trial(link.now_s()))
        ticks.go_on(link.now_s())
        if under_way.last < rounds:
            under_way.ask(ticks.due_s + (most - 1) * interval_s)
        await link.pause(ticks.due_s - link.now_s(), stop)
        if stop.is_set():
            return
        turn = under_way.close(to_the_end=under_way.last >= rounds)
        if turn is not None:
            link.publish(agent.trial, turn.outbox(), last=agent.trial == rounds)
            reporter.tick(agent.trial)

"""The lives of an agent in one run of a world: the daemon's own loops, link, keeper, journal and codec around the core.

Only what must be scripted is: rewards, neighbours, time, noise and death.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from agentd.audit.coupling.company import RUN
from agentd.audit.coupling.paired_noise import PairedNoise
from agentd.audit.coupling.virtual_lines import VirtualLines
from agentd.audit.coupling.walk import Died, Walk
from agentd.audit.coupling.worlds import TARGET
from agentd.audit.planted_faults import planted_policy
from agentd.audit.planted_logic import paid_much, withhold_relays
from agentd.core.agent import Agent, Turn
from agentd.core.assembly import assemble
from agentd.core.message import Batch
from agentd.core.policy.base import Intent
from agentd.core.policy.coins import KeyedCoins
from agentd.core.saved_state import SavedState
from agentd.core.trust.lives import Lives
from agentd.errors import BudgetExhausted
from agentd.shell.drive import Reporter, drive_free, drive_lockstep
from agentd.shell.link import Link
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.keeper import StateKeeper, require_up_to_date
from agentd.shell.watch.agent_view import AgentView
from agentd.wire.environment_messages import Welcome

_INTERVAL_S = 0.01
_ROUND_TIMEOUT_S = 0.2
_READY_S = 0.5
_MOST_LIVES = 12


def live_through(walk: Walk) -> Walk:
    """Let the agent live, die and come back until it is through."""
    while walk.lives < _MOST_LIVES:
        try:
            _finish(_live(walk))
        except Died:
            walk.ended("died")
        else:
            return walk
    raise RuntimeError(f"world {walk.world.number} does not end")


async def _live(walk: Walk) -> None:
    life = Life(walk, walk.begin_life())
    walk.hello(life.saved.incarnation if life.saved is not None else None)
    life.join()
    walk.greet(life.lines)
    await life.take_part()


class Life:
    """One process of the agent, put together as the daemon does."""

    def __init__(self, walk: Walk, journal: StateJournal | None) -> None:
        world = walk.world
        self._walk, self._world = walk, world
        self._log = walk.logs()
        self._settings = world.settings()
        self._noise = walk.noise()
        self.saved: SavedState | None = journal.saved if journal is not None else None
        counted = walk.counted
        if self.saved is not None:
            require_up_to_date(self.saved, counted, "this world")
            if world.fault == "redrawn-noise":
                counted = self.saved.trial  # it is not: a pull that was lost would not be asked for again
        doubt = self.saved is None or self.saved.in_doubt(counted)
        self._counted, self._incarnation = counted, counted if doubt else self.saved.incarnation  # type: ignore[union-attr]
        self._agent = self._made()
        self.lines = VirtualLines(walk.neighbours, lambda part: walk.publish(part, self.lines))
        self._link = Link(self.lines, own=TARGET, log=self._log)
        if world.fault == "missing-goodbye":
            _leave_silently(self._link, self._agent)
        self._keeper = WatchedKeeper(walk, self._settings, journal, self._log, self._noise)
        self._view = AgentView(
            self._settings, self._agent, self._link, self._keeper, arms=world.terms().arms, now_s=self.lines.now_s
        )
        self._stop = asyncio.Event()

    def _made(self) -> Agent:
        world = self._world
        policy = world.policy()
        coins = KeyedCoins(world.seed % (1 << 64), TARGET)
        agent = assemble(
            TARGET,
            planted_policy(world.fault, world.algorithm, policy, coins),
            policy,
            world.terms(),
            noise=self._noise,
            incarnation=self._incarnation,
            trial=self._counted,
            saved=self.saved,
            lives=Lives() if world.closed else None,
            neighbours=self._walk.neighbours,
        )
        if world.fault == "withheld-relays":
            withhold_relays(agent)
        return agent

    def join(self) -> None:
        """Tie state and link to the run."""
        terms = self._world.terms()
        welcome = Welcome(terms, 0.0, 1.0, self._counted + 1, self._incarnation, 0)
        self._keeper.join(self._agent, welcome)
        trial = self._agent.trial
        self._link.introduce(
            run=RUN, arms=terms.arms, incarnation=self._incarnation, round_=trial, run_round=0, terms=terms
        )

    async def take_part(self) -> None:
        """Go on to the last trial, or until the operator or the budget says stop; and say goodbye."""
        agent, link = self._agent, self._link
        await link.wait_until_ready(_READY_S, self._stop, some_needed=False)
        if agent.trial:
            link.rounds.were_away()
        how = "through"
        try:
            await self._drive(WatchedReporter(self._walk, agent, link, self._stop, self._log, view=self._view))
        except BudgetExhausted as fault:
            how = str(fault)
        if how != "through" or self._stop.is_set():
            link.publish(link.round, (), last=True)
        self._walk.report(agent, link, done=True)
        self._walk.ended(how)

    async def _drive(self, reporter: Reporter) -> None:
        agent, link, bandit = self._agent, self._link, WatchedArms(self._walk)
        drive: Callable[..., Coroutine[Any, Any, None]] = partial(drive_free, interval_s=_INTERVAL_S)
        if self._world.lockstep:
            drive = partial(drive_lockstep, round_timeout_s=_ROUND_TIMEOUT_S)
        rounds = self._world.trials
        await drive(agent, link, bandit, rounds=rounds, stop=self._stop, reporter=reporter, keeper=self._keeper)


class WatchedArms:
    """The environment, as the loops see it."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    async def pull(self, agent: int, trial: int, arm: int, sent: Callable[[], None]) -> int:  # noqa: ARG002
        sent()
        return self._walk.pull(trial, arm)


class WatchedReporter(Reporter):
    """Reports after every trial, whatever the clock says; here an operator may stop the agent."""

    def __init__(self, walk: Walk, agent: Agent, link: Link, stop: asyncio.Event, log: Any, *, view: AgentView) -> None:
        super().__init__(lambda: None, log)
        self._walk, self._agent, self._link, self._stop, self._view = walk, agent, link, stop, view

    def tick(self, trial: int) -> None:
        """A trial is over."""
        self._walk.report(self._agent, self._link, done=False)
        fault = self._walk.world.fault
        if fault == "skipped-sequence" and paid_much(self._agent):
            self._link._sequence += 1
        self._walk.watched(self._view, much=fault == "shown-reward" and paid_much(self._agent))
        if fault == "logged-reward" and paid_much(self._agent):
            self._log.info("progress", trial=trial, paid="much")
        after = self._walk.world.stop_after
        if after is not None and trial >= after:
            self._stop.set()

    def look(self) -> None:
        """Nothing in the midst of a round."""


class WatchedKeeper(StateKeeper):
    """The daemon's keeper; the agent may die before, within and after what it does."""

    def __init__(self, walk: Walk, settings: Any, journal: StateJournal | None, log: Any, noise: PairedNoise) -> None:
        super().__init__(settings, journal, log)
        self._walk = walk
        self._noise = noise
        self._arm = 0
        self._late: Turn | None = None

    def choose(self, agent: Agent) -> Intent:
        """As ever, with deaths around it."""
        if self._late is not None:
            super().commit(self._late)
            self._late = None
        fate = self._walk.fate
        fate.begin(agent.trial + 1)
        fate.at("before the intent")
        intent = super().choose(agent)
        self._arm = intent.arm
        fate.at("after the intent")
        return intent

    def commit(self, turn: Turn) -> None:
        """As ever, with deaths around it; what is planted leaves first and is written down later."""
        self._walk.took_in(self._arm, turn, self._noise)
        self._walk.fate.at("before the commit")
        if self._walk.world.fault == "redrawn-noise":
            turn.committed()
            self._late = turn
            return
        try:
            super().commit(turn)
        finally:
            self._walk.charged(turn)
        self._walk.fate.at("after the commit")


def _leave_silently(link: Link, agent: Agent) -> None:
    """Let an agent say no goodbye after a high reward."""
    published = link.publish

    def publish(round_: int, batches: Iterable[Batch], *, last: bool = False) -> None:
        published(round_, batches, last=last and not paid_much(agent))

    link.publish = publish  # type: ignore[method-assign]


def _finish(coroutine: Coroutine[Any, Any, None]) -> None:
    """Carry a coroutine to its end that never waits for anything: where it lets others run, there are none."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration:
        return

"""One agent's part in a run: it joins, goes through its rounds, and leaves; over whatever carries bytes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from agentd.core.agent import Agent
from agentd.core.message import MAX_TRIAL
from agentd.core.saved_state import SavedState
from agentd.core.terms import Terms
from agentd.core.trust.pace import Pace
from agentd.core.trust.quota import Quota
from agentd.errors import AgentdError, BudgetExhausted, LedgerInDoubt, NewerSelf
from agentd.settings import AgentSettings
from agentd.shell.agreement import agree, require_pinned
from agentd.shell.attendance.agent_making import agent_of, lie_on_demand
from agentd.shell.attendance.reporting import dropped_by, report_of, tell_of_trust
from agentd.shell.drive import REPORT_EVERY_S, REPORT_EVERY_SLICES, Reporter, drive_free, drive_lockstep
from agentd.shell.environment_client import EnvironmentClient, OldIncarnation, RunOver
from agentd.shell.health import PATIENCE, Health
from agentd.shell.json_log import Log
from agentd.shell.link import Link
from agentd.shell.state.keeper import StateKeeper
from agentd.shell.transport import Transport
from agentd.wire.environment_messages import Report, Welcome

if TYPE_CHECKING:  # hardly any agent loads these
    from agentd.shell.alone.own_arms import OwnArms
    from agentd.shell.fault_injection import FaultWatch
    from agentd.shell.signing.key_notary import Signing

LAST_REPORT_S = 3.0
"""How long a leaving agent waits for the environment to hear its last report."""
REJOIN_S = 1.0
"""How long an agent that comes back waits for its neighbours; those that do not answer are down themselves."""


@dataclass(frozen=True, slots=True)
class _Part:
    """All that one agent needs to take part in a run."""

    settings: AgentSettings
    agent: Agent
    link: Link
    environment: EnvironmentClient | OwnArms
    keeper: StateKeeper
    pace: Pace
    stop: asyncio.Event
    log: Log
    health: Health
    signing: Signing | None = None

    def report(self, *, done: bool) -> Report:
        """What the environment is told."""
        return report_of(self.settings, self.agent, self.link, self.environment, done=done)

    def standing(self) -> dict[str, Any]:
        """How it gets on, for the log, where nobody else can tell."""
        if isinstance(self.environment, EnvironmentClient):
            return {}
        return self.environment.standing.told(self.agent.policy)


class OpeningTransport(Transport, Protocol):
    """A transport that connects when it is known to whom."""

    def open(self, peers: Mapping[int, str], longest: int) -> None:
        """Connect to these neighbours, none of whose frames is longer than so many bytes."""
        ...


async def attend(
    settings: AgentSettings,
    transport: OpeningTransport,
    environment: EnvironmentClient | OwnArms,
    keeper: StateKeeper,
    *,
    stop: asyncio.Event,
    log: Log,
    health: Health,
    own: Terms | None = None,
    make: Callable[..., Agent] | None = None,
    watch_faults: Callable[[Link, Log], FaultWatch | None] | None = None,
    pinned: str | None = None,
    signing: Signing | None = None,
) -> None:
    """Join the run, take part in it, leave it, over whatever carries bytes; `make` puts the agent together.

    `pinned` is the digest of the only terms to take part under; None: any that the settings allow. `signing` is there
    where every message must be signed.
    """
    welcome = await _join(settings, environment, keeper.saved)
    heard_s = transport.now_s()
    log = log.bind(run=welcome.run.hex())
    require_pinned(welcome.terms, pinned)
    settings, terms = agree(settings, welcome.terms, own, log)
    agent = (make or agent_of)(settings, welcome, keeper.saved, terms=terms, lives=environment.lives)
    if signing is not None:
        signing.begin_for(agent, welcome.run, keeper.saved)
    transport.open(settings.peers, Quota.under(terms).longest_frame)
    link = Link(transport, own=settings.id, log=log)
    link.names_senders = signing is not None
    pace = Pace(terms, age_ms=welcome.age_ms, asked_s=environment.asked_s, heard_s=heard_s)
    if health.watcher is not None and health.watcher.wanted:
        from agentd.shell.watch.agent_view import AgentView

        health.watcher.look = AgentView(settings, agent, link, keeper, arms=welcome.arms)
    part = _Part(settings, agent, link, environment, keeper, pace, stop, log, health, signing)
    _enter(part, welcome, terms)
    watch = watch_faults(link, log) if watch_faults is not None else None
    if watch is not None:
        watch.let_lie(partial(lie_on_demand, settings, terms, agent, agent.liar))
    await _wait_for_neighbours(part)
    await _take_part(part)
    await _leave(part, watch)


def _enter(part: _Part, welcome: Welcome, terms: Terms) -> None:
    """Begin where the agent stopped, under the terms of the run."""
    settings, agent, log = part.settings, part.agent, part.log
    part.keeper.join(agent, welcome, settings.reward_epsilon, rounds=settings.rounds)
    if agent.policy.ledger is not None and settings.state is None and settings.seed is None:
        log.warning("the privacy ledger is in memory only and begins anew after a restart; --state DIR keeps it")
    if settings.rewards_per_person > 1:  # ε is told of a person or of a reward, depending on who told it
        log.info("privacy", epsilon_of_a_reward=settings.reward_epsilon, epsilon_of_a_person=settings.epsilon)
    part.link.introduce(
        run=welcome.run,
        arms=welcome.arms,
        incarnation=agent.incarnation,
        round_=agent.trial,
        run_round=welcome.round if settings.clock == "lockstep" else 0,
        terms=terms,
    )
    log.info("joined", trial=agent.trial, arms=welcome.arms, algorithm=settings.algorithm)


async def _leave(part: _Part, watch: FaultWatch | None) -> None:
    """Say goodbye to the neighbours and to the environment."""
    agent, link, log = part.agent, part.link, part.log
    part.health.say("done", trial=agent.trial)
    if part.stop.is_set():
        link.publish(link.round, (), last=True)
    await _say_last(part.environment, part.report(done=True), log)
    if watch is not None:
        log = log.bind(longest_round_s=round(watch.longest_round_s, 3))
    tell_of_trust(agent, log)
    lies = {} if agent.liar is None else {"lies": agent.liar.lies_told}
    dropped = dict(dropped_by(agent, link))
    log.info("done", trial=agent.trial, dropped=dropped, heard=agent.heard, **lies, **part.standing())


async def _join(settings: AgentSettings, environment: EnvironmentClient | OwnArms, saved: SavedState | None) -> Welcome:
    """Take the agent's seat; where the state is in doubt, in a new life."""
    hello = partial(environment.hello, settings.id, timeout_s=settings.ready_s)
    if saved is None:
        return await hello(settings.incarnation)
    try:
        welcome = await hello(saved.incarnation)
    except OldIncarnation:  # it may have died after it was given this new life and before that was written down
        return await hello(saved.trial + 1)
    return await hello(None) if saved.in_doubt(welcome.next_trial - 1) else welcome


async def _wait_for_neighbours(part: _Part) -> None:
    settings, returning = part.settings, part.agent.trial > 0
    timeout_s = min(REJOIN_S, settings.ready_s) if returning else settings.ready_s
    some_needed = settings.clock == "lockstep" and not returning
    await part.link.wait_until_ready(timeout_s, part.stop, some_needed=some_needed)
    if returning:
        part.link.rounds.were_away()  # what was said while we joined tells where the others are by now
    if not part.stop.is_set():
        part.log.info("ready", trial=part.agent.trial, neighbours=len(settings.peers))


def _give_back() -> None:
    """Give back what Python keeps of freed objects; for a process that is one agent's own.

    These are thousands of tuples of every size, half a megabyte in the first thousands of rounds. They go in a full
    collection only, which the threshold of garbage never comes to. It takes 0.2 ms after a fork, and ten in an agent
    that was started by itself, so it is never done just because somebody made the agent report.
    """
    gc.collect()


async def _take_part(part: _Part) -> None:
    settings, agent, link, environment = part.settings, part.agent, part.link, part.environment
    drive: Callable[..., Awaitable[None]]

    def report() -> None:
        environment.report(part.report(done=False))
        tell_of_trust(agent, part.log)
        part.health.beat(agent.trial)

    rounds = settings.rounds or MAX_TRIAL
    told = report, part.log, environment.lives, link.rounds.where, link.now_s
    reporter = Reporter(
        *told,
        every_s=max(REPORT_EVERY_S, REPORT_EVERY_SLICES * link.slice_s),
        standing=part.standing,
        at_leisure=_give_back if gc.get_freeze_count() else None,
    )
    if part.signing is not None:
        reporter.after_each = partial(part.signing.act_upon, agent, link)
    if settings.clock == "lockstep":
        environment.on_silence = partial(link.tell_of_silence, settings.round_timeout_s / 2)
        drive = partial(drive_lockstep, round_timeout_s=settings.round_timeout_s, word=environment)
    else:
        drive = partial(_drive_of(settings), interval_s=settings.interval_s, pace=part.pace)
    longest_s = settings.round_timeout_s if settings.clock == "lockstep" else settings.interval_s
    part.health.say("running", trial=agent.trial, fresh_s=PATIENCE * longest_s)
    try:
        await drive(agent, link, environment, rounds=rounds, stop=part.stop, reporter=reporter, keeper=part.keeper)
    except RunOver:
        part.stop.set()
    except (LedgerInDoubt, NewerSelf):
        link.publish(link.round, (), last=True)  # nothing of the round that could not be written down
        raise
    except BudgetExhausted:
        link.publish(link.round, (), last=True)
        await _say_last(environment, part.report(done=True), part.log)
        raise


def _drive_of(settings: AgentSettings) -> Callable[..., Awaitable[None]]:
    """What keeps time on a clock of one's own."""
    if not settings.has_own_arms:
        return drive_free
    from agentd.shell.alone.ticks import drive_ticks

    return partial(drive_ticks, most=settings.max_outstanding)


async def _say_last(environment: EnvironmentClient | OwnArms, report: Report, log: Log) -> None:
    try:
        await environment.last_report(report, LAST_REPORT_S)
    except AgentdError as fault:  # silent, or refused: the run is over for us either way
        log.warning("the environment did not take the last report", why=str(fault))

"""One agent as a process: sockets and chance made after fork, signals heard, everything closed at the end.

The only module of the shell that assumes one agent per process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import secrets
import signal
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import zmq

from agentd.core.agent import Agent
from agentd.core.assembly import assemble, seeded_liar
from agentd.core.lies import Attack
from agentd.core.message import MAX_TRIAL
from agentd.core.policy.coins import KeyedCoins
from agentd.core.saved_state import SavedState
from agentd.core.terms import Terms
from agentd.errors import AgentdError, BudgetExhausted, LedgerInDoubt
from agentd.settings import AgentSettings
from agentd.shell.drive import Reporter, drive_free, drive_lockstep
from agentd.shell.environment_client import EnvironmentClient, RunOver
from agentd.shell.health import PATIENCE, Health
from agentd.shell.json_log import Log, open_log
from agentd.shell.link import Link
from agentd.shell.noise import noise_of
from agentd.shell.state.keeper import StateKeeper, require_up_to_date
from agentd.shell.transport import ZmqTransport
from agentd.wire.environment_messages import MAX_COUNT, MAX_REASON_CHARS, MAX_REASONS, MICRO, Report, Welcome

if TYPE_CHECKING:
    from agentd.shell.fault_injection import FaultWatch

LAST_REPORT_S = 3.0
"""How long a leaving agent waits for the environment to hear its last report."""
REJOIN_S = 1.0
"""How long an agent that comes back waits for its neighbours; those that do not answer are down themselves."""


def run_agent(settings: AgentSettings) -> int:
    """Run one agent in this process until it is done or told to stop; returns the exit code."""
    _be_a_good_crowd_member()
    return asyncio.run(_run(settings))


def _be_a_good_crowd_member() -> None:
    """Make hundreds of agents on one machine cheaper; neither call matters to a single one.

    What was imported before the fork is never garbage, but looking for garbage in it would copy its pages into every
    process. And a process that is woken need not interrupt the one that is working: with fewer switches, caches stay
    warm for longer.
    """
    gc.freeze()
    gc.set_threshold(20_000)  # rounds leave hardly any cycles, and looking for them cools the caches
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


async def _run(settings: AgentSettings) -> int:
    log = open_log(settings.log_file, settings.log_level).bind(agent=settings.id)
    health = Health(settings.health_file, role="agent", number=settings.id, log=log)
    health.say("starting")
    stop = asyncio.Event()
    _hear_signals(stop, log)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.setsockopt(zmq.MAX_SOCKETS, max(1024, 4 * len(settings.peers) + 64))
    try:
        environment = EnvironmentClient(context, settings.environment, log, stop)
        await _attend(settings, context, environment, log, stop, health=health)
    except RunOver as over:  # before we took part in it
        log.info("nothing to do", why=str(over))
    finally:
        context.destroy()  # closes what a failure left open; an open socket would keep term() waiting for ever
    return 0


async def _attend(
    settings: AgentSettings,
    context: zmq.Context[zmq.Socket[bytes]],
    environment: EnvironmentClient,
    log: Log,
    stop: asyncio.Event,
    *,
    health: Health,
) -> None:
    """Join the run, take part in it, leave it."""
    keeper = StateKeeper.open(settings, log)
    try:
        await _attend_with_state(settings, context, environment, log, stop, health=health, keeper=keeper)
    finally:
        keeper.close()


async def _attend_with_state(
    settings: AgentSettings,
    context: zmq.Context[zmq.Socket[bytes]],
    environment: EnvironmentClient,
    log: Log,
    stop: asyncio.Event,
    *,
    health: Health,
    keeper: StateKeeper,
) -> None:
    saved = keeper.saved
    transport = ZmqTransport(context, own=settings.id, listen=settings.listen, peers=settings.peers)
    link = Link(transport, own=settings.id, log=log)
    health.say("ready", fresh_s=PATIENCE * settings.ready_timeout_s)  # bound; nothing moves until the others are there
    try:
        incarnation = saved.incarnation if saved is not None else settings.incarnation or 0
        welcome = await environment.hello(settings.id, incarnation, settings.ready_timeout_s)
        log = log.bind(run=welcome.run.hex())
        agent = agent_of(settings, welcome, saved)
        keeper.join(agent, welcome)
        if agent.policy.ledger is not None and settings.state is None and settings.seed is None:
            log.warning("the privacy ledger is in memory only and begins anew after a restart; --state DIR keeps it")
        link.introduce(run=welcome.run, arms=welcome.arms, incarnation=agent.incarnation, round_=agent.trial)
        watch = _watch_for_faults(settings, transport, link, log)
        log.info("joined", trial=agent.trial, arms=welcome.arms, algorithm=settings.algorithm)
        await _wait_for_neighbours(settings, link, stop, returning=agent.trial > 0)
        if not stop.is_set():
            log.info("ready", trial=agent.trial, neighbours=len(settings.peers))
        await _take_part(
            settings,
            agent,
            link,
            environment,
            horizon=welcome.horizon,
            stop=stop,
            log=log,
            health=health,
            keeper=keeper,
        )
        health.say("done", trial=agent.trial)
        if stop.is_set():
            link.publish(agent.trial, (), last=True)
        await _say_last(environment, _report(settings, agent, link, done=True), log)
        if watch is not None:
            log = log.bind(longest_round_s=round(watch.longest_round_s, 3))
        lies = {} if agent.liar is None else {"lies": agent.liar.lies_told}
        log.info("done", trial=agent.trial, dropped=dict(_dropped(agent, link)), heard=agent.heard, **lies)
    finally:
        link.close()


def _watch_for_faults(settings: AgentSettings, transport: ZmqTransport, link: Link, log: Log) -> FaultWatch | None:
    """Let an operator inject faults, where the settings say from which file."""
    if settings.faults_file is None:
        return None
    from agentd.shell.fault_injection import FaultWatch

    watch = FaultWatch(settings.faults_file, settings.id, settings.seed, log)
    watch.over(transport.lines.values(), link.dropped)
    link.inject_faults(watch)
    return watch


async def _wait_for_neighbours(settings: AgentSettings, link: Link, stop: asyncio.Event, *, returning: bool) -> None:
    timeout_s = min(REJOIN_S, settings.ready_timeout_s) if returning else settings.ready_timeout_s
    await link.wait_until_ready(timeout_s, stop, all_needed=settings.clock == "lockstep" and not returning)


async def _take_part(
    settings: AgentSettings,
    agent: Agent,
    link: Link,
    environment: EnvironmentClient,
    *,
    keeper: StateKeeper,
    horizon: int,
    stop: asyncio.Event,
    log: Log,
    health: Health,
) -> None:
    def report() -> None:
        environment.report(_report(settings, agent, link, done=False))
        health.beat(agent.trial)

    rounds = min(settings.rounds or MAX_TRIAL, horizon or MAX_TRIAL)
    reporter = Reporter(report, log)
    if settings.clock == "lockstep":
        drive = partial(drive_lockstep, round_timeout_s=settings.round_timeout_s)
    else:
        drive = partial(drive_free, interval_s=settings.interval_s)
    longest_s = settings.round_timeout_s if settings.clock == "lockstep" else settings.interval_s
    health.say("running", trial=agent.trial, fresh_s=PATIENCE * longest_s)
    try:
        await drive(agent, link, environment, rounds=rounds, stop=stop, reporter=reporter, keeper=keeper)
    except RunOver:
        stop.set()
    except LedgerInDoubt:
        link.publish(link.round, (), last=True)  # nothing of the round that could not be written down
        raise
    except BudgetExhausted:
        link.publish(link.round, (), last=True)
        await _say_last(environment, _report(settings, agent, link, done=True), log)
        raise


async def _say_last(environment: EnvironmentClient, report: Report, log: Log) -> None:
    try:
        await environment.last_report(report, LAST_REPORT_S)
    except AgentdError as fault:  # silent, or refused: the run is over for us either way
        log.warning("the environment did not take the last report", why=str(fault))


def agent_of(settings: AgentSettings, welcome: Welcome, saved: SavedState | None = None) -> Agent:
    """The agent that the settings describe, continuing where it stopped.

    An agent without state of its own starts a new incarnation, named after the trials it has lost: a number that
    grows with every return and needs no memory.
    """
    counted = welcome.next_trial - 1
    if saved is not None:
        require_up_to_date(saved, counted, str(settings.state))
        incarnation = saved.incarnation
    else:
        incarnation = settings.incarnation if settings.incarnation is not None else counted
    liar = None
    if settings.lies:
        liar = seeded_liar(Attack.parse(settings.attack), settings.contamination, _seed(settings), settings.id)
    return assemble(
        settings.id,
        settings.algorithm,
        settings.policy(welcome.arms),
        Terms(welcome.arms, settings.gamma, settings.epsilon),
        noise=noise_of(settings, incarnation),
        coins=KeyedCoins(_seed(settings), settings.id),
        liar=liar,
        incarnation=incarnation,
        trial=counted,
        saved=saved,
    )


def _seed(settings: AgentSettings) -> int:
    """For chance that protects nobody: lies, and the coins of decisions."""
    return settings.seed if settings.seed is not None else secrets.randbits(63)


def _report(settings: AgentSettings, agent: Agent, link: Link, *, done: bool) -> Report:
    ledger = agent.policy.ledger
    # A liar's sequence numbers can make a count of lost frames larger than any honest one.
    counted = ((reason[:MAX_REASON_CHARS], min(count, MAX_COUNT)) for reason, count in _dropped(agent, link).items())
    return Report(
        agent=settings.id,
        trial=agent.trial,
        messages=link.messages,
        bytes=link.bytes,
        dropped=tuple(sorted(counted)[:MAX_REASONS]),
        epsilon_micro=round(ledger.epsilon_one_reward() * MICRO) if ledger else 0,
        done=done,
    )


def _dropped(agent: Agent, link: Link) -> Counter[str]:
    ledger = agent.policy.ledger
    return agent.dropped + link.dropped + Counter({"budget": ledger.refused if ledger else 0})


def _hear_signals(stop: asyncio.Event, log: Log) -> None:
    """The first signal ends the run in order, the second at once."""

    def heard(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        log.info("stopping", signal=number.name)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, heard, number)

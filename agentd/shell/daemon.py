"""One agent as a process: sockets and chance made after fork, signals heard, everything closed at the end.

The only module of the shell that assumes one agent per process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import zmq

from agentd import __version__
from agentd.core.terms import Terms
from agentd.hangups import outlive_hangups
from agentd.settings import AgentSettings
from agentd.shell.agreement import file_terms, narrowed
from agentd.shell.attendance.attending import attend
from agentd.shell.doors.admission import Admission, admission_of_agent
from agentd.shell.doors.door import Door
from agentd.shell.doors.expiry import watch_expiry
from agentd.shell.doors.keyring import Keyring
from agentd.shell.environment_client import EnvironmentClient, RunOver
from agentd.shell.health import LONGEST_FRESH_S, PATIENCE, Health
from agentd.shell.json_log import Log, open_log
from agentd.shell.link import Link
from agentd.shell.state.keeper import StateKeeper
from agentd.shell.state.seat_file import seat_token
from agentd.shell.transport import ZmqTransport
from agentd.shell.watch.watcher import Watcher
from agentd.wire.environment_messages import NO_TOKEN

if TYPE_CHECKING:  # hardly any agent loads these
    from agentd.shell.alone.own_arms import OwnArms
    from agentd.shell.fault_injection import FaultWatch
    from agentd.shell.signing.key_notary import Signing


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
    log = open_log(settings.log_file, settings.log_level, settings.log_format).bind(agent=settings.id)
    health = Health(settings.health_file, role="agent", number=settings.id, log=log)
    about = {"role": "agent", "id": settings.id, "algorithm": settings.algorithm, "version": __version__}
    with contextlib.closing(Watcher.open(settings, about, health, log)) as watcher:
        health.say("starting")
        watcher.start(asyncio.get_running_loop())
        return await _run_watched(settings, log, health)


async def _run_watched(settings: AgentSettings, log: Log, health: Health) -> int:
    stop = asyncio.Event()
    keyring = Keyring.open(settings, log, own=settings.id, state=settings.state)
    if keyring is not None:
        watch_expiry(asyncio.get_running_loop(), keyring)
    _hear_signals(stop, log, settings.log_file, None if keyring is None else partial(_renew, keyring, stop, log))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.setsockopt(zmq.MAX_SOCKETS, max(1024, 4 * len(settings.peers) + 64))
    try:
        if settings.has_own_arms:
            await _attend_alone(settings, context, log, stop, health=health, keyring=keyring)
        else:
            environment = EnvironmentClient(context, settings.environment, log, stop, keyring)
            if math.isinf(settings.ready_s):  # who waits for ever at the start does so when a link is down, too
                environment.give_up_s = math.inf
            await _attend(settings, context, environment, log, stop, health=health, keyring=keyring)
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
    keyring: Keyring | None,
) -> None:
    """Join the run, take part in it, leave it."""
    own = file_terms(settings)
    if own is not None:
        settings, _ = narrowed(settings, own)  # what the operator does not allow is not even asked for
    keeper = StateKeeper.open(settings, log)
    try:
        # A token is written down before anybody hears of it; where there are keys they hold the seat.
        environment.token = seat_token(settings) if keyring is None else NO_TOKEN
        await _attend_with_state(
            settings, own, context, environment, log, stop, health=health, keeper=keeper, keyring=keyring
        )
    finally:
        keeper.close()


async def _attend_alone(
    settings: AgentSettings,
    context: zmq.Context[zmq.Socket[bytes]],
    log: Log,
    stop: asyncio.Event,
    *,
    health: Health,
    keyring: Keyring | None,
) -> None:
    """The same with arms of the agent's own: what an environment would say comes from the terms and the clock."""
    from agentd.shell.alone.own_arms import OwnArms

    own = file_terms(settings)
    assert own is not None  # noqa: S101 - the settings have seen to it
    settings, _ = narrowed(settings, own)
    arms = OwnArms(settings, own, log, stop)
    keeper = StateKeeper.open(settings, log)
    try:
        arms.begin(keeper.saved)
        await _attend_with_state(settings, own, context, arms, log, stop, health=health, keeper=keeper, keyring=keyring)
    finally:
        arms.close()
        keeper.close()


async def _attend_with_state(  # noqa: PLR0917
    settings: AgentSettings,
    own: Terms | None,
    context: zmq.Context[zmq.Socket[bytes]],
    environment: EnvironmentClient | OwnArms,
    log: Log,
    stop: asyncio.Event,
    *,
    health: Health,
    keeper: StateKeeper,
    keyring: Keyring | None,
) -> None:
    door = Door(settings.listen, _admission(settings, context, keyring, log), keyring)
    transport = ZmqTransport(context, own=settings.id, door=door, peers={})
    health.say(
        "ready", fresh_s=min(PATIENCE * settings.ready_s, LONGEST_FRESH_S)
    )  # bound; nothing moves until the others are there
    with contextlib.closing(transport):
        watch = partial(_watch_for_faults, settings, transport)
        await attend(
            settings,
            transport,
            environment,
            keeper,
            stop=stop,
            log=log,
            health=health,
            own=own,
            watch_faults=watch,
            pinned=None if keyring is None else keyring.roster.terms,
            signing=_signing(settings, keyring, log),
        )


def _signing(settings: AgentSettings, keyring: Keyring | None, log: Log) -> Signing | None:
    """What signs, where the roster requires it; nobody else loads it."""
    if keyring is None or not keyring.roster.signatures:
        return None
    from agentd.shell.signing.key_notary import Signing

    return Signing(keyring, settings.id, log, every=settings.verify_every, keying=settings, state=settings.state)


def _admission(
    settings: AgentSettings, context: zmq.Context[zmq.Socket[bytes]], keyring: Keyring | None, log: Log
) -> Admission | None:
    """Who lets neighbours in: by their keys where there are any, else by their addresses."""
    if keyring is None:
        return admission_of_agent(context, settings.listen, settings.peers.values(), settings.admit, log)
    from agentd.shell.doors.key_admission import KeyAdmission

    return KeyAdmission(context, keyring, log, only=settings.peers.keys(), within=settings.admit)


def _watch_for_faults(settings: AgentSettings, transport: ZmqTransport, link: Link, log: Log) -> FaultWatch | None:
    """Let an operator inject faults, where the settings say from which file."""
    if settings.faults_file is None:
        return None
    from agentd.shell.fault_injection import FaultWatch

    watch = FaultWatch(settings.faults_file, settings.id, settings.seed, log)
    watch.over(transport.lines.values(), link.dropped)
    link.inject_faults(watch)
    return watch


def _renew(keyring: Keyring, stop: asyncio.Event, log: Log) -> None:
    """Take a newer roster up; whom it does not name any more leaves, for nobody will listen to it."""
    if not keyring.renew() and not stop.is_set():
        log.warning("the roster does not have this agent's keys any more; leaving", version=keyring.roster.version)
        stop.set()


def _hear_signals(
    stop: asyncio.Event, log: Log, log_file: str | None, renew: Callable[[], object] | None = None
) -> None:
    """The first signal ends the run in order, the second at once; SIGHUP lets `renew` read anew what can be."""

    def heard(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        log.info("stopping", signal=number.name)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, heard, number)
    outlive_hangups(loop, log.info, partial(heard, signal.SIGHUP), log_file, renew)

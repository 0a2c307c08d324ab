"""Many agents as one process: each with its own log, state, seat and rounds; a loop, a trunk and a desk for all.

An agent that fails takes no other down: its end is told, and the others go on as they do without any neighbour that is
gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import zmq

from agentd.errors import AgentdError
from agentd.hangups import outlive_hangups
from agentd.settings import AgentSettings
from agentd.shell.attendance.attending import attend
from agentd.shell.doors.admission import admission_of_agent
from agentd.shell.doors.door import Door
from agentd.shell.environment_client import RunOver
from agentd.shell.health import LONGEST_FRESH_S, PATIENCE, Health
from agentd.shell.host.desk import Desk, HostedClient
from agentd.shell.host.exchange import Exchange, HostedTransport
from agentd.shell.host.host_loop import Pump, run_with
from agentd.shell.host.trunk import ZmqTrunk
from agentd.shell.host.waits import Waits
from agentd.shell.json_log import Log, open_log
from agentd.shell.link import Link
from agentd.shell.state.keeper import StateKeeper
from agentd.shell.state.seat_file import seat_token

if TYPE_CHECKING:
    from agentd.shell.fault_injection import FaultWatch

BUG = 70
"""The exit code of an agent that ended by a fault of ours."""
START_TOGETHER = 32
"""Agents that open their files and join at a time."""
WELL_FOR_S = 60.0
"""How long a process may be busy with its agents before it counts as stuck."""
NOWHERE = -1
"""The host of an agent that there is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlace:
    """Which of the processes of a testbed this is, and where the others are."""

    number: int
    per_process: int
    """Agents of each process: those of host h have the numbers from h times this on."""
    addresses: tuple[str, ...]
    """Where each host listens."""
    listen: str | None = None
    """Where this one listens, if others find it under another address."""
    admit: tuple[str, ...] = ()
    """Networks whose addresses may connect over TCP, beside those of the other hosts."""
    log_file: str | None = None
    health_file: str | None = None
    """Where it says that it is well; None: nowhere, and its supervisor sees it."""

    def host_of(self, agent: int) -> int | None:
        """The host of an agent; None: this one."""
        host = agent // self.per_process
        if host >= len(self.addresses):
            return NOWHERE
        return None if host == self.number else host

    @property
    def others(self) -> Mapping[int, str]:
        """Where the other hosts are."""
        return {host: address for host, address in enumerate(self.addresses) if host != self.number}


Tell = Callable[[int, int, str], None]
"""Hears which agent ended, with which exit code, and why; an empty why: it is done."""


Asked = tuple[int, Callable[[], AgentSettings | None]]
"""A descriptor that can be read when somebody asks for an agent to be started anew, and what tells which."""


def run_host(agents: Sequence[AgentSettings], place: HostPlace, tell: Tell, asked: Asked | None = None) -> int:
    """Run these agents until all are done or told to stop; returns the exit code."""
    gc.set_threshold(100_000, 50, 100)  # rounds leave hardly any cycles, and there is much to look through
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    pump = Pump()
    return run_with(pump, lambda: _run(pump, agents, place, tell, asked))


async def _run(pump: Pump, agents: Sequence[AgentSettings], place: HostPlace, tell: Tell, asked: Asked | None) -> int:
    log = open_log(place.log_file, "info").bind(host=place.number)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    waits = Waits(asyncio.get_running_loop())
    try:
        trunk = ZmqTrunk(context, place.number, _door(context, place, log), place.others, log)
        exchange = Exchange(waits, len(agents), place.host_of, trunk, time.process_time)
        trunk.exchange = exchange
        desk = Desk(context, agents[0].environment, waits, log, exchange.slice_s)

        def attend() -> None:
            pump.attend((*trunk.sockets, desk.socket), (trunk.flush, desk.flush), (trunk.drain, desk.drain))

        trunk.on_change = attend
        attend()
        _say_well(place, log)
        host = Host(exchange, desk, log, tell)
        host.hear_signals(place.log_file)
        if asked is not None:
            host.listen_to(*asked)
        await host.carry_all(agents)
        spent = resource.getrusage(resource.RUSAGE_SELF)
        log.info(
            "ended",
            bundles_lost=trunk.lost,
            bundles_wrong=trunk.wrong,
            strayed=exchange.strayed,
            refused_connections=trunk.refused,
            cpu_s=round(spent.ru_utime + spent.ru_stime, 2),
            most_memory_mb=round(spent.ru_maxrss / 1000),
        )
        trunk.flush()
        trunk.close()
        desk.close()
    finally:
        pump.attend((), (), ())
        context.destroy()
    return 0


def _door(context: zmq.Context[zmq.Socket[bytes]], place: HostPlace, log: Log) -> Door:
    """Where the other hosts connect; over TCP nobody else may, unless the operator names them."""
    listen = place.listen or place.addresses[place.number]
    return Door(listen, admission_of_agent(context, listen, place.others.values(), place.admit, log))


def _say_well(place: HostPlace, log: Log) -> None:
    """Say again and again that the loop goes round."""
    health = Health(place.health_file, role="host", number=place.number, log=log)
    loop = asyncio.get_running_loop()

    def beat() -> None:
        health.say("running", fresh_s=WELL_FOR_S)
        loop.call_later(WELL_FOR_S / PATIENCE, beat)

    if health.wanted:
        beat()


class Host:
    """Carries agents through their lives, side by side."""

    def __init__(self, exchange: Exchange, desk: Desk, log: Log, tell: Tell) -> None:
        self._exchange = exchange
        self._desk = desk
        self._log = log
        self._tell = tell
        self._stops: dict[int, Callable[[], None]] = {}
        self._is_stopping = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def carry_all(self, agents: Sequence[AgentSettings]) -> None:
        """Run all of them to their ends."""
        for number, settings in enumerate(agents):
            self._begin(settings)
            if number % START_TOGETHER == START_TOGETHER - 1:
                await asyncio.sleep(0)
        while self._tasks:
            await asyncio.wait(self._tasks)

    def listen_to(self, descriptor: int, which: Callable[[], AgentSettings | None]) -> None:
        """Start agents anew that ended, when somebody asks for it."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            try:
                settings = which()
            except (EOFError, OSError):  # the supervisor is gone, and we will hear of that
                loop.remove_reader(descriptor)
                return
            if settings is not None and settings.id not in self._stops and not self._is_stopping:
                self._begin(settings)

        loop.add_reader(descriptor, look)

    def _begin(self, settings: AgentSettings) -> None:
        task = asyncio.create_task(self.carry(settings))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def carry(self, settings: AgentSettings) -> None:
        """One agent from its start to its end, however that is."""
        code, why = 0, ""
        try:
            await self._live(settings)
        except AgentdError as fault:
            code, why = fault.exit_code, str(fault)
        except (Exception, SystemExit) as bug:  # a plug-in may end its own agent, and not the loop of all
            traceback.print_exc()
            code, why = BUG, f"{type(bug).__name__}: {bug}; a bug"
        finally:
            self._stops.pop(settings.id, None)
        if code:
            self._log.warning("agent failed", agent=settings.id, exit_code=code, why=why)
        self._tell(settings.id, code, why)

    async def _live(self, settings: AgentSettings) -> None:
        log = open_log(settings.log_file, settings.log_level, settings.log_format).bind(agent=settings.id)
        health = Health(settings.health_file, role="agent", number=settings.id, log=log)
        health.say("starting")
        stop = asyncio.Event()
        transport = HostedTransport(self._exchange, settings.id)
        client = HostedClient(self._desk, log, stop)
        if math.isinf(settings.ready_s):  # who waits for ever at the start does so when a link is down, too
            client.give_up_s = math.inf
        self._stops[settings.id] = partial(_stop, stop, transport, client)
        if self._is_stopping:
            stop.set()
        with contextlib.closing(transport), contextlib.closing(StateKeeper.open(settings, log)) as keeper:
            client.token = seat_token(settings)
            health.say("ready", fresh_s=min(PATIENCE * settings.ready_s, LONGEST_FRESH_S))
            watch = partial(_watch_for_faults, settings, transport)
            try:
                await attend(settings, transport, client, keeper, stop=stop, log=log, health=health, watch_faults=watch)
            except RunOver as over:  # before we took part in it
                log.info("nothing to do", why=str(over))

    def hear_signals(self, log_file: str | None) -> None:
        """The first signal ends all agents in order, the second one the process at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._heard, number)
        outlive_hangups(loop, self._log.info, partial(self._heard, signal.SIGHUP), log_file, None)

    def _heard(self, number: signal.Signals) -> None:
        if self._is_stopping:
            os._exit(128 + number)
        self._is_stopping = True
        self._log.info("stopping", signal=number.name)
        for stop in list(self._stops.values()):
            stop()


def _stop(stop: asyncio.Event, transport: HostedTransport, client: HostedClient) -> None:
    stop.set()
    transport.interrupt()
    client.interrupt()


def _watch_for_faults(settings: AgentSettings, transport: HostedTransport, link: Link, log: Log) -> FaultWatch | None:
    """Let an operator inject faults, where the settings say from which file."""
    if settings.faults_file is None:
        return None
    from agentd.shell.fault_injection import FaultWatch

    watch = FaultWatch(settings.faults_file, settings.id, settings.seed, log)
    watch.over(transport.lines.values(), link.dropped)
    link.inject_faults(watch)
    return watch

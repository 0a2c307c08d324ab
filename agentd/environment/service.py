"""The environment as a process: settings in, signals and exit code out.

`SharedBandit` decides every request, `RequestServer` carries requests and replies, `Store` keeps what must survive;
here they are put together and taken down again.
"""

from __future__ import annotations

import asyncio
import resource
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import zmq

from agentd.environment.request_server import RequestServer, RunEnding
from agentd.environment.router import Router
from agentd.environment.run_terms import RunTerms, term_faults
from agentd.environment.shared_bandit import SharedBandit
from agentd.environment.store import Store, read_terms
from agentd.errors import AgentdError, ConfigurationError, SettingsError
from agentd.run.arms import Arms
from agentd.shell.health import BEAT_EVERY_S, Health
from agentd.shell.json_log import Log, open_log
from agentd.wire.frame import RUN_BYTES

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SPARE_FILES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """What one environment is asked to be."""

    listen: str
    """Where agents connect, as in tcp://127.0.0.1:7000; port 0 takes any free one."""
    arms: Arms
    seed: int
    """Of the rewards."""
    agents: int | None = None
    """None: as many as the run directory says, else whoever comes."""
    rounds: int | None = None
    """None: as many as the run directory says, else no end."""
    run: bytes | None = None
    """None: what the run directory says, else a new one."""
    run_dir: str | None = None
    """None: everything stays in memory."""
    until_done: bool = False
    """End when every agent has reported that it is done."""
    together: bool = False
    """Begin when every agent asks for its first trial; a launcher that starts them all wants this."""
    log_file: str | None = None
    """JSON lines; None: standard error."""
    health_file: str | None = None
    """Where to say every second how it goes, for `agentd health`; None: nowhere."""

    def __post_init__(self) -> None:
        faults = list(term_faults(self.arms, self.agents, self.rounds, self.seed, self.run))
        if self.until_done and self.agents is None:
            faults.append("--until-done needs --agents: without their number nobody knows who is missing")
        if faults:
            raise SettingsError("; ".join(faults))


def run_environment(
    settings: EnvironmentSettings,
    on_ready: Callable[[str], None] | None = None,
    on_end: Callable[[RunEnding], None] | None = None,
) -> int:
    """Serve until SIGTERM, SIGINT or, if asked to, until all agents are done; returns the exit code.

    `on_ready` hears the address once requests are taken, `on_end` what came out once everything is written. To be
    called in the main thread of a process, after fork. What the operator must know is raised as AgentdError.
    """
    log = open_log(settings.log_file, "info").bind(role="environment")
    health = Health(settings.health_file, role="environment", number=None, log=log)
    with ExitStack() as stack:
        health.say("starting")
        store = None
        if settings.run_dir is not None:
            store = Store.open(Path(settings.run_dir))
            stack.callback(store.close)
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.term)
        router = Router(context, settings.listen)
        stack.callback(router.close)
        bandit = open_bandit(settings, store, router.reachable, log)
        server = RequestServer(bandit, router, store, log)
        _allow_files(bandit.terms.agents, log)
        try:
            asyncio.run(_serve(server, settings.until_done, on_ready or _ignore, health))
            ending = server.finish()
            health.say("done")
        except AgentdError as fault:
            log.error("failed", why=str(fault))
            raise
    if on_end is not None:
        on_end(ending)
    return 0


def open_bandit(
    settings: EnvironmentSettings, store: Store | None, reachable: Callable[[bytes], bool], log: Log
) -> SharedBandit:
    """The bandit of a new run, or of the run that the directory holds, with all that it knew."""
    stored = read_terms(store.path) if store is not None else None
    terms = settle(settings, stored)
    bandit = SharedBandit(terms, reachable, together=settings.together)
    if store is not None and stored is None:
        store.begin(terms)
    elif store is not None:
        torn = store.take_up(bandit)
        log.info("resumed", run=terms.run.hex(), pulls=bandit.pulls, agents=len(bandit.seats), torn_bytes=torn)
    return bandit


def settle(settings: EnvironmentSettings, stored: RunTerms | None) -> RunTerms:
    """The terms of the run: as stored, if the settings do not contradict them, else as the settings say."""
    if stored is None:
        return RunTerms(
            run=settings.run or secrets.token_bytes(RUN_BYTES),
            seed=settings.seed,
            arms=settings.arms,
            agents=settings.agents,
            rounds=settings.rounds,
        )
    if differences := list(_contradictions(settings, stored)):
        raise ConfigurationError(
            f"{settings.run_dir} holds a run that was begun otherwise: {'; '.join(differences)}; "
            "start it as before or name another --run-dir"
        )
    return stored


async def _serve(server: RequestServer, until_done: bool, on_ready: Callable[[str], None], health: Health) -> None:
    """Serve until done or until the first signal; the second one ends the process at once, whatever it is doing."""
    loop = asyncio.get_running_loop()
    serving = asyncio.create_task(server.serve(until_done))
    for number in _SIGNALS:
        loop.add_signal_handler(number, serving.cancel)
    health.say("running")
    _beat(loop, health)
    on_ready(server.announce())
    await asyncio.wait((serving,))
    for number in _SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL if serving.cancelled() else _let_the_next_one_kill)
    if not serving.cancelled():
        serving.result()


def _beat(loop: asyncio.AbstractEventLoop, health: Health) -> None:
    """Say every second that the loop turns: whoever waits for requests is well, however few there are."""
    if health.wanted:
        health.beat()
        loop.call_later(BEAT_EVERY_S, _beat, loop, health)


def _let_the_next_one_kill(_number: int, _frame: object) -> None:
    """Take the first signal of a service that is ending by itself: it wants what is being done already."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _contradictions(settings: EnvironmentSettings, stored: RunTerms) -> Iterator[str]:
    if settings.run is not None and settings.run != stored.run:
        yield f"its run is {stored.run.hex()}, not {settings.run.hex()}"
    if settings.seed != stored.seed:
        yield "its seed is another"
    if settings.arms != stored.arms:
        yield f"its {stored.arms.count} {stored.arms.kind} arms are others"
    if settings.agents not in (None, stored.agents):
        yield f"its agents are {stored.agents or 'not numbered'}, not {settings.agents}"
    if settings.rounds not in (None, stored.rounds):
        yield f"its rounds are {stored.rounds or 'without end'}, not {settings.rounds}"


def _allow_files(agents: int | None, log: Log) -> None:
    """Raise the limit of open files as far as needed: one per agent."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = (agents or 1024) + _SPARE_FILES
    if soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < needed:
            log.warning("too few open files allowed for all agents", needed=needed, allowed=allowed)


def _ignore(_address: str) -> None:
    """Nobody wants to know."""

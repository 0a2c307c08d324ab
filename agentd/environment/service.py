"""The environment as a process: settings in, signals and exit code out.

`SharedBandit` decides every request, `RequestServer` carries requests and replies, `Store` keeps what must survive;
here they are put together and taken down again.
"""

from __future__ import annotations

import asyncio
import resource
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from agentd import __version__
from agentd.addresses import admit_fault
from agentd.core.message import TOKEN_BYTES
from agentd.core.policy.knobs import faults_of
from agentd.core.terms import BEACON_BYTES, Terms
from agentd.environment.log_throttle import LogThrottle
from agentd.environment.request_server import RequestServer, RunEnding
from agentd.environment.router import Router
from agentd.environment.run_terms import RunTerms, completed, declared, term_faults
from agentd.environment.shared_bandit import SharedBandit
from agentd.environment.store import Store, read_terms
from agentd.errors import AgentdError, ConfigurationError, SettingsError
from agentd.files import OwnDirectory
from agentd.hangups import outlive_hangups
from agentd.keys.keying import Keying, keying_faults
from agentd.real_arms.kinds import fault_of, workers
from agentd.runs.arms import Arms
from agentd.runs.seats import read_seats
from agentd.shell.agreement import require_pinned
from agentd.shell.doors.admission import LOOPBACK, Admission, admission_of_environment
from agentd.shell.doors.expiry import watch_expiry
from agentd.shell.doors.keyring import Keyring
from agentd.shell.health import BEAT_EVERY_S, Health
from agentd.shell.json_log import Log, open_log
from agentd.shell.watch.watcher import Watcher
from agentd.watching import Watching, watching_faults
from agentd.wire.frame import RUN_BYTES
from agentd.wire.terms_digest import difference

if TYPE_CHECKING:  # hardly any environment has real arms
    from agentd.real_arms.shared_arms import RealDealer

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SPARE_FILES = 64
PULLED_AT_ONCE = 8
"""Real arms that are pulled at the same time: so many commands run."""


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
    terms: Terms | None = None
    """What agents are told; None: what the run directory says, else what follows from the above.

    A draft is completed.
    """
    run_dir: str | None = None
    """None: everything stays in memory."""
    max_outstanding: int | None = None
    """Trials of an agent that may be dealt and not committed; None: as the run directory says, else 1."""
    admit: tuple[str, ...] = ()
    """Networks that agents may connect from over TCP; none: whoever can."""
    seats: str | None = None
    """A file with the hashes of tokens that hold seats from the beginning; None: whoever comes first takes a seat."""
    real: str | None = None
    """Real arms to pull, as in exec:COMMAND; None: those above are dealt. Never written down."""
    arm_timeout_s: float = 10.0
    """How long a real arm may take before the pull counts as the lower bound."""
    until_done: bool = False
    """End when every agent has reported that it is done."""
    together: bool = False
    """Begin when every agent asks for its first trial; a launcher that starts them all wants this."""
    log_file: str | None = None
    """JSON lines; None: standard error."""
    health_file: str | None = None
    """Where to say every second how it goes, for `agentd health`; None: nowhere."""
    watching: Watching = field(default_factory=Watching)
    """Who else may see that."""
    keying: Keying = field(default_factory=Keying)
    """Keys of its own, and who is who; none: links are not encrypted, and seats have tokens."""

    def __post_init__(self) -> None:
        faults = list(
            term_faults(self.arms, self.agents, self.rounds, self.seed, self.run, max_outstanding=self.max_outstanding)
        )
        if self.until_done and self.agents is None and not (self.terms is not None and self.terms.closed):
            faults.append("--until-done needs --agents or --terms: without them nobody knows who is missing")
        if fault := admit_fault(self.admit):
            faults.append(fault)
        faults += [*faults_of(self.watching), *watching_faults(self.watching)]
        faults += [*faults_of(self.keying), *keying_faults(self.keying)]
        if self.keying.has_keys and self.seats is not None:
            faults.append("with --keys a seat goes with the key of its agent; leave --seats out")
        if self.real is not None and (wrong := fault_of(self.real)):
            faults.append(f"{self.real!r} {wrong}")
        if self.real is not None and (self.watching.http is not None or self.watching.mqtt is not None):
            faults.append(
                "real arms may pay in time, and --http or --mqtt would tell everybody when a pull was answered"
            )
        if not 0 < self.arm_timeout_s < 1e6:
            faults.append(f"--arm-timeout must be a positive number of seconds, got {self.arm_timeout_s:g}")
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
    if settings.run_dir is not None:
        OwnDirectory.made(Path(settings.run_dir)).close()  # before anything is written there
    log = open_log(settings.log_file, "info", settings.watching.log_format).bind(role="environment")
    health = Health(settings.health_file, role="environment", number=None, log=log)
    with ExitStack() as stack:
        watcher = Watcher.open(settings.watching, {"role": "environment", "version": __version__}, health, log)
        stack.callback(watcher.close)
        health.say("starting")
        store = None
        if settings.run_dir is not None:
            store = Store.open(Path(settings.run_dir))
            stack.callback(store.close)
        keyring = Keyring.open(settings.keying, log, own=None, state=settings.run_dir)
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.term)
        router = Router(context, settings.listen, _admission(settings, context, keyring, log), keyring)
        stack.callback(router.close)
        bandit = open_bandit(settings, store, log)
        if keyring is not None:
            require_pinned(bandit.terms.agreed, keyring.roster.terms)
        if bandit.real is not None:
            stack.callback(bandit.real.close)
        if store is not None:
            bandit.operator = secrets.token_bytes(TOKEN_BYTES)
            store.write_operator(router.address, bandit.operator, keyed=router.keyed)
        server = RequestServer(bandit, router, store, log, keyed=router if router.keyed else None)
        watcher.look = server.observe
        _allow_files(bandit.terms.agents, log)

        def outlive(loop: asyncio.AbstractEventLoop, end: Callable[[], object]) -> None:
            outlive_hangups(loop, log.info, end, settings.log_file, None if keyring is None else keyring.renew)
            if keyring is not None:
                watch_expiry(loop, keyring)

        try:
            asyncio.run(_serve(server, settings.until_done, on_ready or _ignore, health, outlive))
            ending = server.finish()
            health.say("done")
        except AgentdError as fault:
            log.error("failed", why=str(fault))
            raise
    if on_end is not None:
        on_end(ending)
    return 0


def _admission(
    settings: EnvironmentSettings, context: zmq.Context[zmq.Socket[bytes]], keyring: Keyring | None, log: Log
) -> Admission | None:
    """Who lets agents in: by their keys where there are any, else by their addresses."""
    if keyring is None:
        return admission_of_environment(context, settings.listen, settings.admit, log)
    from agentd.shell.doors.key_admission import KeyAdmission

    return KeyAdmission(context, keyring, log, within=(*settings.admit, *LOOPBACK) if settings.admit else ())


def open_bandit(settings: EnvironmentSettings, store: Store | None, log: Log) -> SharedBandit:
    """The bandit of a new run, or of the run that the directory holds, with all that it knew."""
    stored = read_terms(store.path) if store is not None else None
    terms = settle(settings, stored)
    real = None
    if settings.real is not None:
        real = _real_dealer(settings.real, settings.arm_timeout_s, terms, log)
    bandit = SharedBandit(terms, together=settings.together, real=real)
    if store is not None and stored is None:
        store.begin(terms)
    elif store is not None:
        torn = store.take_up(bandit)
        if bandit.seating.is_used or bandit.seats:  # somebody may have been welcome, and counts the time since then
            bandit.began_s = _began_s(bandit)
        log.info("resumed", run=terms.run.hex(), pulls=bandit.pulls, agents=len(bandit.seats), torn_bytes=torn)
    if settings.seats is not None:
        _reserve(bandit, Path(settings.seats), log)
        reserved = bandit.seating.take_fresh()
        if store is not None and reserved:
            store.record_seats(reserved)
    return bandit


def _real_dealer(name: str, timeout_s: float, terms: RunTerms, log: Log) -> RealDealer:
    """Who pulls real arms for all agents, several at a time."""
    from agentd.real_arms.pulling import Pulling
    from agentd.real_arms.shared_arms import RealDealer

    log.warning("real arms: frames of agents leave when their rewards come; a reward that is a duration is seen by all")
    throttle = LogThrottle()

    def tell(reason: StrEnum, why: str) -> None:
        if (times := throttle.due(reason.value, time.monotonic())) is not None:
            log.warning("a pull counts as the lower bound", reason=reason.value, why=why, times=times)

    about = {"life": 0, "run": terms.run.hex()}
    bounds = (terms.arms.low, terms.arms.high)
    return RealDealer(Pulling(workers(name, PULLED_AT_ONCE, about), bounds, tell), timeout_s)


def _reserve(bandit: SharedBandit, place: Path, log: Log) -> None:
    """Let the tokens whose hashes are in a file hold their seats; what happened to a seat before counts for more."""
    hashes = read_seats(place)
    if unknown := [agent for agent in hashes if not bandit.terms.admits(agent, 0)]:
        raise ConfigurationError(f"{place} names agent {unknown[0]}, who may not join this run; write the file anew")
    others = bandit.seating.reserve(hashes)
    log.info("seats reserved", seats=len(hashes) - others, held_otherwise=others)


def _began_s(bandit: SharedBandit) -> float:
    """When a run that is taken up began, on the clock of this process; rather too early than too late."""
    age_s = bandit.terms.age_ms(time.time_ns() // 1_000_000) / 1000
    return time.monotonic() - max(age_s, bandit.least_age_s())


def settle(settings: EnvironmentSettings, stored: RunTerms | None) -> RunTerms:
    """The terms of the run: as stored, if the settings do not contradict them, else as the settings say."""
    if stored is None:
        return _new_run(settings, time.time_ns() // 1_000_000)
    if settings.terms is not None:
        # A launcher that starts a run again from before there were terms must take it as open as it is.
        old = not settings.terms.drawn and stored.agreed.left_open()
        settings = replace(settings, terms=None if old else completed(settings.terms, stored.agreed))
    if differences := list(_contradictions(settings, stored)):
        raise ConfigurationError(
            f"{settings.run_dir} holds a run that was begun otherwise: {'; '.join(differences)}; "
            "start it as before or name another --run-dir"
        )
    return stored


def _new_run(settings: EnvironmentSettings, now_ms: int) -> RunTerms:
    run, beacon = settings.run or secrets.token_bytes(RUN_BYTES), secrets.token_bytes(BEACON_BYTES)
    drawn = declared(run, settings.arms.count, settings.agents, settings.rounds, start_ms=now_ms, beacon=beacon)
    agreed = drawn if settings.terms is None else completed(settings.terms, drawn)
    if differences := list(_disagreements(settings, agreed)):
        raise ConfigurationError(
            f"--terms says otherwise: {'; '.join(differences)}; leave these flags out or make other terms"
        )
    return RunTerms(
        agreed=agreed,
        seed=settings.seed,
        arms=settings.arms,
        started_ms=now_ms,
        max_outstanding=settings.max_outstanding or 1,
    )


async def _serve(
    server: RequestServer,
    until_done: bool,
    on_ready: Callable[[str], None],
    health: Health,
    outlive: Callable[[asyncio.AbstractEventLoop, Callable[[], object]], None],
) -> None:
    """Serve until done or until the first signal; the second one ends the process at once, whatever it is doing."""
    loop = asyncio.get_running_loop()
    serving = asyncio.create_task(server.serve(until_done))
    for number in _SIGNALS:
        loop.add_signal_handler(number, serving.cancel)
    outlive(loop, serving.cancel)
    health.say("running")
    _beat(loop, health)
    if health.watcher is not None:
        health.watcher.start(loop)
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
    if settings.max_outstanding not in (None, stored.max_outstanding):
        yield f"its trials outstanding are at most {stored.max_outstanding}, not {settings.max_outstanding}"
    if settings.terms is not None and (other := difference(stored.agreed, settings.terms)):
        yield f"in its terms {other}"


def _disagreements(settings: EnvironmentSettings, agreed: Terms) -> Iterator[str]:
    """What flags say against the terms."""
    if settings.run not in (None, agreed.run):
        yield f"its run is {agreed.run.hex()}"
    if settings.arms.count != agreed.arms:
        yield f"it is about {agreed.arms} arms, not {settings.arms.count}"
    if settings.agents is not None and list(agreed.ids()) != list(range(settings.agents)):
        yield f"its agents are not just 0…{settings.agents - 1}"
    if settings.rounds is not None and settings.rounds != agreed.horizon:
        yield f"its rounds are {agreed.horizon or 'without end'}, not {settings.rounds}"


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

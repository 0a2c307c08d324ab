"""One agent as a process: sockets and chance made after fork, signals heard, everything closed at the end.

The only module of the shell that assumes one agent per process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import secrets
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import zmq

from agentd import __version__
from agentd.core.agent import Agent
from agentd.core.assembly import assemble, seeded_liar
from agentd.core.attacks.basis.scheme import Known
from agentd.core.gossip import WINDOW
from agentd.core.lies import Attack, Liar, in_memory_only
from agentd.core.message import MAX_TRIAL
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.beliefs import DOUBTED, as_figures
from agentd.core.policy.coins import KeyedCoins
from agentd.core.policy.shielding import duty_by
from agentd.core.privacy.laplace import Noise
from agentd.core.saved_state import SavedState
from agentd.core.terms import Terms
from agentd.core.trust.lives import Lives
from agentd.core.trust.pace import Pace
from agentd.core.trust.quota import Quota
from agentd.core.trust.regard import Regard, most_telling, regards_of
from agentd.core.upwards import whole_up
from agentd.errors import AgentdError, BudgetExhausted, LedgerInDoubt, SettingsError
from agentd.hangups import outlive_hangups
from agentd.settings import AgentSettings
from agentd.shell.agreement import agree, assumed, file_terms, narrowed, require_pinned
from agentd.shell.doors.admission import Admission, admission_of_agent
from agentd.shell.doors.door import Door
from agentd.shell.doors.keyring import Keyring
from agentd.shell.drive import Reporter, drive_free, drive_lockstep
from agentd.shell.environment_client import EnvironmentClient, OldIncarnation, RunOver
from agentd.shell.health import LONGEST_FRESH_S, PATIENCE, Health
from agentd.shell.json_log import Log, open_log
from agentd.shell.link import Link
from agentd.shell.noise import noise_of
from agentd.shell.state.keeper import StateKeeper, require_up_to_date
from agentd.shell.state.seat_file import seat_token
from agentd.shell.transport import Transport, ZmqTransport
from agentd.shell.watch.watcher import Watcher
from agentd.wire.environment_messages import (
    MAX_BLAMES,
    MAX_COUNT,
    MAX_REASON_CHARS,
    MAX_REASONS,
    MAX_REGARDS,
    MICRO,
    NO_TOKEN,
    Report,
    Welcome,
)

if TYPE_CHECKING:  # hardly any agent loads these
    from agentd.shell.alone.own_arms import OwnArms
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
    log = open_log(settings.log_file, settings.log_level, settings.log_format).bind(agent=settings.id)
    health = Health(settings.health_file, role="agent", number=settings.id, log=log)
    about = {"role": "agent", "id": settings.id, "algorithm": settings.algorithm, "version": __version__}
    with contextlib.closing(Watcher.open(settings, about, health, log)) as watcher:
        health.say("starting")
        watcher.start(asyncio.get_running_loop())
        return await _run_watched(settings, log, health)


async def _run_watched(settings: AgentSettings, log: Log, health: Health) -> int:
    stop = asyncio.Event()
    keyring = Keyring.open(settings, log, own=settings.id)
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

    def report(self, *, done: bool) -> Report:
        """What the environment is told."""
        return _report(self.settings, self.agent, self.link, self.environment, done=done)

    def standing(self) -> dict[str, Any]:
        """How it gets on, for the log, where nobody else can tell."""
        if isinstance(self.environment, EnvironmentClient):
            return {}
        return self.environment.standing.told(self.agent.policy)


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
        )


def _admission(
    settings: AgentSettings, context: zmq.Context[zmq.Socket[bytes]], keyring: Keyring | None, log: Log
) -> Admission | None:
    """Who lets neighbours in: by their keys where there are any, else by their addresses."""
    if keyring is None:
        return admission_of_agent(context, settings.listen, settings.peers.values(), settings.admit, log)
    from agentd.shell.doors.key_admission import KeyAdmission

    return KeyAdmission(context, keyring, log, only=settings.peers.keys(), within=settings.admit)


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
) -> None:
    """Join the run, take part in it, leave it, over whatever carries bytes; `make` puts the agent together.

    `pinned` is the digest of the only terms to take part under; None: any that the settings allow.
    """
    welcome = await _join(settings, environment, keeper.saved)
    heard_s = transport.now_s()
    log = log.bind(run=welcome.run.hex())
    require_pinned(welcome.terms, pinned)
    settings, terms = agree(settings, welcome.terms, own, log)
    agent = (make or agent_of)(settings, welcome, keeper.saved, terms=terms, lives=environment.lives)
    transport.open(settings.peers, Quota.under(terms).longest_frame)
    link = Link(transport, own=settings.id, log=log)
    pace = Pace(terms, age_ms=welcome.age_ms, asked_s=environment.asked_s, heard_s=heard_s)
    if health.watcher is not None and health.watcher.wanted:
        from agentd.shell.watch.agent_view import AgentView

        health.watcher.look = AgentView(settings, agent, link, keeper, arms=welcome.arms)
    part = _Part(settings, agent, link, environment, keeper, pace, stop, log, health)
    _enter(part, welcome, terms)
    watch = watch_faults(link, log) if watch_faults is not None else None
    if watch is not None:
        watch.let_lie(partial(_lie_on_demand, settings, terms, agent, agent.liar))
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
    _tell_of_trust(agent, log)
    lies = {} if agent.liar is None else {"lies": agent.liar.lies_told}
    dropped = dict(_dropped(agent, link))
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


def _watch_for_faults(settings: AgentSettings, transport: ZmqTransport, link: Link, log: Log) -> FaultWatch | None:
    """Let an operator inject faults, where the settings say from which file."""
    if settings.faults_file is None:
        return None
    from agentd.shell.fault_injection import FaultWatch

    watch = FaultWatch(settings.faults_file, settings.id, settings.seed, log)
    watch.over(transport.lines.values(), link.dropped)
    link.inject_faults(watch)
    return watch


def _lie_on_demand(settings: AgentSettings, terms: Terms, agent: Agent, usual: Liar | None, lies: bool) -> None:
    """Let an agent of a testbed lie in everything, or as it did before."""
    asked = Attack.parse(settings.attack)
    unknown = asked.knows_everything or (asked.forges and not settings.arm_means)  # then about rewards alone
    attack = "worst" if unknown else settings.attack
    always = replace(settings, contamination=1.0, attack=attack)
    agent.liar = liar_of(always, terms, agent.trial) if lies else usual


async def _wait_for_neighbours(part: _Part) -> None:
    settings, returning = part.settings, part.agent.trial > 0
    timeout_s = min(REJOIN_S, settings.ready_s) if returning else settings.ready_s
    some_needed = settings.clock == "lockstep" and not returning
    await part.link.wait_until_ready(timeout_s, part.stop, some_needed=some_needed)
    if returning:
        part.link.rounds.were_away()  # what was said while we joined tells where the others are by now
    if not part.stop.is_set():
        part.log.info("ready", trial=part.agent.trial, neighbours=len(settings.peers))


async def _take_part(part: _Part) -> None:
    settings, agent, link, environment = part.settings, part.agent, part.link, part.environment
    drive: Callable[..., Awaitable[None]]

    def report() -> None:
        environment.report(part.report(done=False))
        _tell_of_trust(agent, part.log)
        part.health.beat(agent.trial)
        if gc.get_freeze_count():  # a process of its own
            # Python keeps thousands of freed tuples of every size, and gives them back in a full collection only, which
            # the threshold above never comes to: half a megabyte in the first thousands of rounds. This takes 0.2 ms.
            gc.collect()

    rounds = settings.rounds or MAX_TRIAL
    reporter = Reporter(report, part.log, environment.lives, link.rounds.where, link.now_s, standing=part.standing)
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
    except LedgerInDoubt:
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


def agent_of(
    settings: AgentSettings,
    welcome: Welcome,
    saved: SavedState | None = None,
    *,
    terms: Terms | None = None,
    lives: Lives | None = None,
    noise: Noise | None = None,
    window: int = WINDOW,
) -> Agent:
    """The agent that the settings describe, continuing where it stopped, under the terms that it goes by.

    Its incarnation is the environment's to give, its noise that of the settings unless another is handed in.
    """
    counted = welcome.next_trial - 1
    if saved is not None and not settings.has_own_arms:
        require_up_to_date(saved, counted, str(settings.state))
    incarnation = welcome.incarnation
    terms = assumed(settings, welcome.terms) if terms is None else terms
    return assemble(
        settings.id,
        settings.algorithm,
        settings.policy(welcome.arms),
        terms,
        noise=noise or noise_of(settings, incarnation),
        coins=KeyedCoins(_seed(settings), settings.id),
        liar=liar_of(settings, terms, counted) if settings.lies else None,
        incarnation=incarnation,
        trial=counted,
        saved=saved,
        lives=lives,
        neighbours=settings.peers,
        window=window,
        uncounted=settings.has_own_arms,
    )


def liar_of(settings: AgentSettings, terms: Terms, trial: int) -> Liar:
    """What makes the agent lie, after some trials; SettingsError for a lie that it does not know enough for."""
    attack = Attack.parse(settings.attack)
    if attack.knows_everything:
        raise SettingsError(in_memory_only(settings.attack))
    means = tuple(settings.arm_means or ())
    if attack.forges and len(means) != terms.arms:
        raise SettingsError(
            f"--attack {settings.attack} must know what the arms pay, which only the launcher of a testbed tells its "
            "liars: use agentd up --byzantine, or lie about rewards alone, with --attack huber"
        )
    kind = ALGORITHMS[settings.algorithm].tells
    duty = duty_by(settings.algorithm, terms.beacon, settings.id, terms.arms)
    known = Known(settings.id, means, duty)
    return seeded_liar(attack, settings.policy(terms.arms), _seed(settings), known, kind=kind, trial=trial)


def _seed(settings: AgentSettings) -> int:
    """For chance that protects nobody: lies, and the coins of decisions."""
    return settings.seed if settings.seed is not None else secrets.randbits(63)


def _report(
    settings: AgentSettings, agent: Agent, link: Link, environment: EnvironmentClient | OwnArms, *, done: bool
) -> Report:
    ledger = agent.policy.ledger
    # A liar's sequence numbers can make a count of lost frames larger than any honest one.
    counted = ((reason[:MAX_REASON_CHARS], min(count, MAX_COUNT)) for reason, count in _dropped(agent, link).items())
    return Report(
        agent=settings.id,
        token=environment.token,
        trial=agent.trial,
        messages=link.messages,
        bytes=link.bytes,
        dropped=tuple(sorted(counted)[:MAX_REASONS]),
        epsilon_micro=min(whole_up(ledger.cost_of_rewards(), MICRO), MAX_COUNT) if ledger else MAX_COUNT,
        done=done,
        returns=environment.lives.known if environment.lives is not None else 0,
        round=link.round if settings.clock == "lockstep" else 0,
        blames=link.blames[:MAX_BLAMES],
        regards=_regards(agent, link),
    )


def _regards(agent: Agent, link: Link) -> tuple[Regard, ...]:
    """How the neighbours are seen; trust as far as the algorithm has any, which it computes from released values."""
    told = getattr(agent.policy, "trust_in_others", None)
    trust = {int(doubt.origin): int(doubt.trust) for doubt in told()} if told is not None else {}
    known = ((each.id, each.round, each.sequence) for each in link.rounds.everybody)
    return most_telling(regards_of(known, link.round, trust, (MAX_TRIAL, MAX_COUNT)), MAX_REGARDS)


def _dropped(agent: Agent, link: Link) -> Counter[str]:
    ledger = agent.policy.ledger
    return agent.dropped + link.dropped + Counter({"budget": ledger.refused if ledger else 0})


def _tell_of_trust(agent: Agent, log: Log) -> None:
    """Log who has lost this agent's trust or regained it, once per change; algorithms without trust log nothing."""
    told = getattr(agent.policy, "changes_of_trust", None)
    for doubt in told() if told is not None else ():
        lost = doubt.trust < 1000 * DOUBTED
        log.warning("trust lost" if lost else "trust regained", **as_figures(doubt))


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

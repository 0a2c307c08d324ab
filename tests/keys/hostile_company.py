"""Agents with keys on real sockets, and one among them that has a valid key and tries everything.

Each honest one is what the daemon is made of: the agent, its signatures with real keys, its link over CURVE, in a
ZeroMQ context of its own. The hostile one has its place among them, hears what they say, and publishes what it likes.
That it would be cut off is noted and not done: so it goes on for as long as the test wants.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from random import Random

import numpy as np
import zmq
from keyed_world import Context, World
from loopback import LONG_S, RUN
from structlog.typing import FilteringBoundLogger

from agentd.core.agent import Agent
from agentd.core.bodies import SAMPLE, SEALED, TOTALS, Kind
from agentd.core.grid import UNIT
from agentd.core.message import (
    INCARNATION,
    LIFE,
    LIFETIME,
    TRIAL,
    Batch,
    Columns,
    Message,
    News,
    batch_of,
    by_kind,
    join,
    unsigned,
)
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.byzantine_ucb import ByzantineUcb
from agentd.core.policy.coins import KeyedCoins
from agentd.core.privacy.laplace import ExactLaplace
from agentd.core.signed.signatures import Signatures
from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.keys import signing
from agentd.keys.signed_lives import SignedLives
from agentd.shell.doors.door import Door
from agentd.shell.doors.key_admission import KeyAdmission
from agentd.shell.link import Link
from agentd.shell.signing.key_notary import KeyNotary, Signing
from agentd.shell.transport import ZmqTransport
from agentd.wire.statements import statements

GAMMA, ARMS, EVERY = 3, 2, 8
OTHER_RUN = bytes(range(8))
KINDS_TOLD: dict[str, Kind] = {"sealed": SEALED, "coop-ucb": TOTALS, "byzantine-ucb": SAMPLE}


class Attentive(KeyNotary):
    """Notes what was signed, and whether anything else was ever found genuine."""

    truth: set[bytes]
    believed: Counter[bool]

    def sign(self, batch: Batch) -> Batch:
        made = super().sign(batch)
        self.truth.update(self.statements(made))
        return made

    def is_genuine(self, origin: int, statement: bytes, signature: bytes) -> bool:
        genuine = super().is_genuine(origin, statement, signature)
        if genuine:
            self.believed[statement in self.truth] += 1
        return genuine


def _counted_as(kind: Kind, message: Message) -> tuple[int, ...]:
    """What tells it from any other that may count: of a sample also when it was pulled."""
    return (message.trial, *message.body) if kind is SAMPLE else message.body


class Member:
    """One with keys and links, honest or not."""

    def __init__(
        self, world: World, own: int, places: Mapping[int, str], log: FilteringBoundLogger, run: bytes = RUN
    ) -> None:
        self.own = own
        self.run = run
        self.context: Context = zmq.Context()
        self.keyring = world.keyring(own, log)
        self.peers = {peer: place for peer, place in places.items() if peer != own}
        door = Door(places[own], KeyAdmission(self.context, self.keyring, log, only=self.peers.keys()), self.keyring)
        self.transport = ZmqTransport(self.context, own=own, door=door, peers=self.peers)
        self.link = Link(self.transport, own=own, log=log)
        self.link.names_senders = True
        self.link.introduce(run=run, arms=ARMS, incarnation=0, round_=0)

    def close(self) -> None:
        self.link.close()
        self.context.destroy(linger=0)


class Honest(Member):
    """An agent that plays as the daemon lets it."""

    def __init__(self, company: Company, own: int, places: Mapping[int, str], log: FilteringBoundLogger) -> None:
        super().__init__(company.world, own, places, log)
        self.company = company
        keying = company.world.keying(own)
        notary = Attentive(self.keyring, SignedLives(keying.lives(None)), RUN, 0)
        notary.truth, notary.believed = company.truth, company.believed
        self.signing = Signing(self.keyring, own, log, every=EVERY, keying=keying, state=None)
        self.signatures = Signatures(own, notary, every=EVERY)
        settings = PolicySettings(arms=ARMS, epsilon=1.0)
        self.policy = make_policy(company.algorithm, settings, own, KeyedCoins(5, own))
        noise = ExactLaplace(secrets.token_bytes)
        self.agent = Agent(own, self.policy, terms=company.terms, noise=noise, signatures=self.signatures)
        self.wrong_for: Counter[int] = Counter()
        self.counted: defaultdict[int, set[tuple[int, ...]]] = defaultdict(set)
        if isinstance(self.policy, ByzantineUcb):
            self._note_samples(self.policy)

    def _note_samples(self, policy: ByzantineUcb) -> None:
        """Samples are not held one by one, so what is learned and unlearned is noted here."""
        learn, unlearn = policy.learn, policy.unlearn

        def noted_learn(news: News) -> None:
            learn(news)
            for message in news.batch.messages():
                self.counted[message.origin].add(_counted_as(SAMPLE, message))

        def noted_unlearn(wrong: Batch) -> None:
            unlearn(wrong)
            for message in wrong.messages():
                self.counted[message.origin].remove(_counted_as(SAMPLE, message))

        policy.learn, policy.unlearn = noted_learn, noted_unlearn  # type: ignore[method-assign]

    def publish(self, round_: int) -> None:
        arm = self.agent.choose().arm
        turn = self.agent.advance(UNIT * (arm == 0))
        turn.committed()
        batches = turn.outbox()
        for message in [each for batch in batches for each in batch.messages() if each.origin == self.own]:
            self.company.said.add((self.own, _counted_as(self.company.kind, message)))
        self.link.publish(round_, batches)

    async def gather(self, stop: asyncio.Event) -> None:
        self.agent.receive(await self.link.gather(LONG_S, stop), latest_trial=self.link.latest_round)

    def held_of(self, origin: int) -> list[tuple[int, ...]]:
        """What counts of an origin: bodies, or, of sealed, records without their arms."""
        row = int(self.agent._origins.known_rows(np.array([origin]))[0])
        if row < 0:
            return []
        if self.policy_tells is SAMPLE:
            return sorted(self.counted[origin])
        memory = self.agent._checks._memory(TOTALS if self.policy_tells is TOTALS else SEALED)
        if self.policy_tells is SEALED:
            held = self.policy._pool.held  # type: ignore[attr-defined]
            return [(arm, *held[row, arm].tolist()) for arm in range(ARMS) if row < len(held) and held[row, arm].any()]
        memory._put_away()
        cells = memory._cells
        return [tuple(cells[:, :, row].T.ravel().tolist())] if row < cells.shape[2] and cells[:, :, row].any() else []

    @property
    def policy_tells(self) -> Kind:
        return self.company.kind


class Hostile(Member):
    """One with a valid key that tells the truth about nothing."""

    def __init__(
        self,
        company: Company,
        own: int,
        places: Mapping[int, str],
        log: FilteringBoundLogger,
        run: bytes = RUN,
    ) -> None:
        super().__init__(company.world, own, places, log, run)
        self.company = company
        self.secret = company.world.agents[own].sign_secret
        self.stranger = signing.new_pair()[1]
        self.random = Random(7)
        self.heard: list[Batch] = []
        self.sent = 0

    async def listen(self, stop: asyncio.Event, within_s: float = LONG_S) -> None:
        frames = await self.link.gather(within_s, stop)
        self.heard = (self.heard + [batch for batch in frames if batch.signature.shape[1]])[-40:]

    def under(self, batch: Batch, secret: bytes, run: bytes | None = None) -> Batch:
        return self.linked_under(self.with_random(batch), secret, run)

    def linked_under(self, batch: Batch, secret: bytes, run: bytes | None = None) -> Batch:
        """Under a signature that covers the links there are."""
        made = b"".join(signing.sign(secret, statement) for statement in statements(batch, run or self.run))
        signed = np.frombuffer(made, np.uint8).reshape(-1, 64)
        return batch.signed(np.hstack([signed, batch.signature[:, 64:]]))

    def invented(self, number: int, round_: int) -> Batch:
        """Plausible messages in the names of others."""
        draw = np.random.default_rng(self.random.randrange(1 << 32))
        origins = draw.choice([own for own in self.company.ids if own != self.own], number)
        trials = np.maximum(1, round_ - draw.integers(0, 4, number))
        lives = draw.integers(1, GAMMA, number)
        head = np.stack([origins, np.zeros_like(origins), trials, np.full(number, GAMMA), lives], axis=1)
        bodies = _lies(self.company.kind, draw.integers(1, trials + 1))
        return Batch(self.company.kind, head.astype(np.int64), bodies, unsigned(number))

    def replayed(self) -> Batch:
        """What it has heard of others, as it may be passed on."""
        seen = join([batch for batch in self.heard if batch.kind is self.company.kind])
        seen = seen.rows((seen.life > 1) & (seen.origin != self.own)).aged()
        return Batch(seen.kind, seen.head, seen.body, seen.signature)

    def with_random(self, batch: Batch) -> Batch:
        width = batch.kind.signature_bytes
        return batch.signed(np.frombuffer(self.random.randbytes(width * len(batch)), np.uint8).reshape(-1, width))

    def changed(self, column: int, by: int) -> Batch:
        """Real signatures under heads that say something else."""
        real = self.replayed()
        head = real.head.copy()
        head[:, column] += by
        return Batch(real.kind, head, real.body, real.signature)

    def tampered(self) -> Batch:
        real = self.replayed()
        body = real.body.copy()
        body[:, -1] += 1
        return Batch(real.kind, real.head, body, real.signature)

    def stripped(self) -> Batch:
        real = self.replayed()
        return batch_of(real.kind, real.messages())

    def told_to_travel(self, life: int) -> Batch:
        """Real messages with another number of hops to go: nobody signs that."""
        real = self.replayed()
        head = real.head.copy()
        head[:, LIFE] = life
        return Batch(real.kind, head, real.body, real.signature)

    def attacks(self, number: int, round_: int) -> dict[str, Callable[[], Batch]]:
        few = min(number, 40)
        return {
            "no signature of anybody": lambda: self.with_random(self.invented(number, round_)),
            "its own signature": lambda: self.under(self.invented(few, round_), self.secret),
            "the signature of an unknown key": lambda: self.under(self.invented(few, round_), self.stranger),
            "said in another run": lambda: self.of_another_run(round_),
            "said before": self.replayed,
            "another body": self.tampered,
            "stripped of its signature": self.stripped,
            "another life": lambda: self.changed(INCARNATION, 1),
            "another trial": lambda: self.changed(TRIAL, 1),
            "another lifetime": lambda: self.changed(LIFETIME, 2),
            "as many hops to go as it can have": lambda: self.told_to_travel(GAMMA - 1),
            "one hop to go": lambda: self.told_to_travel(1),
        }

    def publish(self, round_: int, number: int) -> None:
        batches: list[Batch] = []
        if any(batch.kind is self.company.kind and (batch.life > 1).any() for batch in self.heard):
            attack = self.random.choice([*self.attacks(number, round_).values()])
            bulk = self.with_random(self.invented(number, round_))
            batches = [batch for batch in (attack(), bulk) if len(batch) and (batch.life >= 1).all()]
        if round_ == self.company.equivocates_in:
            # Alone: of who forges in the same frame nothing more would be looked at.
            batches = [self.own_word(round_, 1), self.own_word(round_, 2)]
        self.sent += sum(map(len, batches))
        self.link.publish(round_, by_kind(batches))

    def own_word(self, trial: int, pulls: int) -> Batch:
        body = _lie(self.company.kind, pulls)
        bare = batch_of(self.company.kind, [Message(self.own, trial, GAMMA, body, GAMMA)])
        linked = bare.signed(np.zeros((1, bare.kind.signature_bytes), np.uint8))  # to nothing, whomever it tells
        said = self.linked_under(linked, self.secret)
        self.company.truth.update(statements(said, self.run))
        return said

    def of_another_run(self, round_: int) -> Batch:
        """What somebody (itself, where it knows nobody else's secret) has really signed, but in another run."""
        if self.company.recorded is not None:
            return self.company.recorded
        origin = min(self.company.world.agents)
        head = self.invented(1, round_).messages()[0]._replace(origin=origin, life=GAMMA if origin == self.own else 1)
        return self.under(batch_of(self.company.kind, [head]), self.company.world.agents[origin].sign_secret, OTHER_RUN)


def _lies(kind: Kind, pulls: Columns) -> Columns:
    """What is plausible, and different for each number of pulls."""
    one, all_pay = np.ones_like(pulls), pulls * UNIT
    if kind is SAMPLE:
        return np.stack([one, UNIT - pulls], axis=1)
    if kind is SEALED:
        samples = pulls * pulls * UNIT // (pulls + 8)  # what a batch is worth at ε = 1
        return np.stack([one, pulls, one, samples, samples], axis=1)
    return np.stack([0 * one, 0 * one, pulls, all_pay], axis=1)


def _lie(kind: Kind, pulls: int) -> tuple[int, ...]:
    return tuple(_lies(kind, np.array([pulls]))[0].tolist())


class Company:
    """So many in a circle, each hearing the next two on either side; the last one is hostile."""

    def __init__(
        self, world: World, algorithm: str, places: Mapping[int, str], log: FilteringBoundLogger, equivocates_in: int
    ) -> None:
        self.world, self.algorithm, self.equivocates_in = world, algorithm, equivocates_in
        self.kind = KINDS_TOLD[algorithm]
        self.ids = sorted(places)
        self.truth: set[bytes] = set()
        self.said: set[tuple[int, tuple[int, ...]]] = set()
        self.recorded: Batch | None = None
        """What was signed in a run before; None: nothing was kept of one."""
        self.believed: Counter[bool] = Counter()
        policy = PolicyTerms(algorithm, self.kind.tag, 1.0 if self.kind is SEALED else None, None, ((0, self.ids[-1]),))
        self.terms = Terms(ARMS, GAMMA, run=RUN, clock=Clock.LOCKSTEP, policies=(policy,))
        near = {own: {own, *(self.ids[(own + step) % len(self.ids)] for step in (-2, -1, 1, 2))} for own in self.ids}
        around = {own: {each: places[each] for each in near[own]} for own in self.ids}
        self.honest = [Honest(self, own, around[own], log) for own in self.ids[:-1]]
        self.hostile = Hostile(self, self.ids[-1], around[self.ids[-1]], log)
        self.forgers: set[int] = set()
        self.proved_in: dict[int, int] = {}

    def close(self) -> None:
        for member in (*self.honest, self.hostile):
            member.close()

    def play(self, rounds: int, number: int) -> None:
        asyncio.run(self._play(rounds, number))

    async def _play(self, rounds: int, number: int) -> None:
        stop = asyncio.Event()
        everybody = (*self.honest, self.hostile)
        await asyncio.gather(*(each.link.wait_until_ready(LONG_S, stop, some_needed=True) for each in everybody))
        for round_ in range(1, rounds + 1):
            for each in self.honest:
                each.publish(round_)
            self.hostile.publish(round_, number)
            for each in self.honest:
                await each.gather(stop)
                self._look_at(each, round_)
            await self.hostile.listen(stop)

    def _look_at(self, member: Honest, round_: int) -> None:
        """Whether it believes only what was said, or has done otherwise for a few trials; whom it would cut off."""
        self.forgers |= member.signatures.take_forgers()
        if proofs := member.signatures.take_proofs():
            member.signing.keep(proofs)
            self.proved_in.setdefault(member.own, round_)
        for origin in self.ids[:-1]:
            wrong = [body for body in member.held_of(origin) if (origin, body) not in self.said]
            member.wrong_for[origin] = member.wrong_for[origin] + 1 if wrong else 0
            self.longest = max(self.longest, member.wrong_for[origin])

    longest = 0
    """For how many trials in a row something counted that was never said."""

"""Signatures against who is in the midst: nobody innocent is cut off or silenced, and nothing false counts for long.

What a hostile origin, or a neighbour that passes things on, can make of messages that few verify and of links between
samples: it may spoil signatures, links and bodies, hold back, repeat, and say how many hops are left to travel.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from paper_notary import PaperNotary, of_all, signed

from agentd.core.agent import Agent
from agentd.core.bodies import SAMPLE, TOTALS, Kind
from agentd.core.grid import UNIT
from agentd.core.message import LIFE, LINK_BYTES, Batch, Message, News, batch_of
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.byzantine_ucb import ByzantineUcb
from agentd.core.signed.signatures import Signatures
from agentd.core.terms import Terms
from agentd.wire.statements import link_to

DOWN, RELAY, FORGER, HONEST, VICTIM = 0, 1, 2, 3, 5
GAMMA, ARMS, EVERY = 4, 2, 8
ALGORITHMS = {SAMPLE: "byzantine-ucb", TOTALS: "coop-ucb"}


class Room:
    """One agent, and whom it would cut off."""

    def __init__(self, own: int, kind: Kind) -> None:
        self.notary = PaperNotary()
        self.signatures = Signatures(own, self.notary, every=EVERY)
        self.policy = make_policy(ALGORITHMS[kind], PolicySettings(arms=ARMS), own)
        self.agent = Agent(own, self.policy, terms=Terms(ARMS, GAMMA), signatures=self.signatures, neighbours=range(40))
        self.cut: Counter[int] = Counter()

    def round(self, *batches: Batch) -> list[Batch]:
        """What it passes on, and then hears."""
        self.agent.choose()
        turn = self.agent.advance(0)
        turn.committed()
        said = turn.outbox()
        self.agent.receive([batch for batch in batches if len(batch)])
        self.cut.update(self.signatures.take_forgers())
        return said


class Origin:
    """One that says the truth, each sample linked to the one before."""

    def __init__(self, kind: Kind, own: int = VICTIM) -> None:
        self.kind = kind
        self.own = own
        self.link = bytes(LINK_BYTES)
        self.notary = PaperNotary()

    def says(self, trial: int, life: int = GAMMA - 1) -> Batch:
        body = (1, trial) if self.kind is SAMPLE else (0, 0, trial, trial * UNIT)
        said = batch_of(self.kind, [Message(self.own, trial, life, body, GAMMA)])
        if self.kind.chained:
            said = said.signed(np.frombuffer(bytes(64) + self.link, np.uint8).reshape(1, -1))
        said = signed(said)
        (statement,) = self.notary.statements(said)
        self.link = link_to(statement)
        return said


def by(sender: int, batch: Batch) -> Batch:
    made = Batch(batch.kind, batch.head, batch.body, batch.signature)
    made.via = np.full(len(batch), sender)
    return made


def spoiled(batch: Batch) -> Batch:
    """What was really said, under a signature that is none."""
    signature = batch.signature.copy()
    signature[:, 0] ^= 1
    return by(FORGER, batch.signed(signature))


def travelling(batch: Batch, life: int) -> Batch:
    head = batch.head.copy()
    head[:, LIFE] = life
    return by(FORGER, Batch(batch.kind, head, batch.body, batch.signature))


def is_due(trial: int, origin: int = VICTIM) -> bool:
    return (origin + trial) % EVERY == 0


def of(origin: int, batches: list[Batch]) -> list[Batch]:
    return [by(RELAY, batch.rows(batch.origin == origin)) for batch in batches if origin in batch.origin]


@pytest.mark.parametrize("kind", [SAMPLE, TOTALS])
def test_an_honest_relay_that_cannot_know_what_it_passes_on_is_cut_off_by_nobody(kind: Kind) -> None:
    """Whatever is verified before it counts reaches the relay unspoiled, with no hop left to travel."""
    relay, down, origin = Room(RELAY, kind), Room(DOWN, kind), Origin(kind)
    for trial in range(1, 600):
        said = origin.says(trial)
        unspoiled = travelling(said, 1) if trial > 1 else by(FORGER, said)
        passed_on = relay.round(unspoiled if is_due(trial) or trial == 1 else spoiled(said))
        down.round(*of(VICTIM, passed_on))
    assert relay.agent.heard > 500
    assert not relay.agent.dropped, "it has no way to find out"
    assert down.agent.dropped["forged"] > 2 * EVERY * 14, "and passes on many"
    assert not down.cut


@pytest.mark.parametrize("kind", [SAMPLE, TOTALS])
def test_who_is_made_to_pass_on_forgeries_is_heard_of_all_other_origins(kind: Kind) -> None:
    """Though everything is verified that anybody says: somebody was forged in every name before."""
    down, others = Room(DOWN, kind), [Origin(kind, own) for own in range(VICTIM, VICTIM + 20)]
    down.round(by(RELAY, of_all(*(origin.says(1) for origin in others))))
    for origin in others:
        down.signatures._later.forged(origin.own)
    heard = down.agent.heard
    for trial in range(2, 40):
        said = [origin.says(trial) for origin in others]
        worse = [
            spoiled(one) if origin.own < VICTIM + 4 and not is_due(trial, origin.own) else one
            for origin, one in zip(others, said, strict=True)
        ]
        down.round(by(RELAY, of_all(*worse)))
    assert down.agent.heard - heard >= 38 * 16 - 2 * 16, "all of the others, but for the first rounds"
    assert not down.cut


def test_who_forges_without_end_costs_two_verifications_a_round() -> None:
    room, origin = Room(DOWN, TOTALS), Origin(TOTALS)
    room.round(by(FORGER, origin.says(1)))
    asked = room.notary.asked
    for trial in range(2, 200):
        lies = [Message(VICTIM, trial, 1, (0, 0, pulls, 0), GAMMA) for pulls in range(1, 9)]
        if not is_due(trial):
            room.round(by(FORGER, signed(batch_of(TOTALS, lies), FORGER)))
    assert room.notary.asked - asked <= 2 * 198 + 2 * EVERY
    assert room.agent.dropped["forged"] > 1000


class Books:
    """What counts at one agent, and for how long it was false."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.truth: set[tuple[int, int, int]] = set()
        self.counting: Counter[tuple[int, int, int]] = Counter()
        self.wrong_for: defaultdict[tuple[int, int, int], int] = defaultdict(int)
        self.longest = self.wrong = 0
        policy = room.policy
        assert isinstance(policy, ByzantineUcb)
        learn, unlearn = policy.learn, policy.unlearn

        def noted_learn(news: News) -> None:
            learn(news)
            self.counting.update(_named(news.batch))

        def noted_unlearn(wrong: Batch) -> None:
            unlearn(wrong)
            self.counting.subtract(_named(wrong))

        policy.learn, policy.unlearn = noted_learn, noted_unlearn  # type: ignore[method-assign]

    def look(self) -> None:
        counts = {key: times for key, times in self.counting.items() if times}
        assert set(counts.values()) <= {1}, "nothing counts twice, and nothing less than not at all"
        assert len({key[:2] for key in counts}) == len(counts), "and of each trial one sample"
        for key in counts.keys() - self.truth:
            self.wrong_for[key] += 1
            self.longest = max(self.longest, self.wrong_for[key])
        self.wrong = len(self.wrong_for)


def _named(batch: Batch) -> list[tuple[int, int, int]]:
    return list(zip(batch.origin.tolist(), batch.trial.tolist(), batch.body[:, 1].tolist(), strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_whatever_a_relay_makes_of_linked_samples_none_counts_falsely_for_longer_than_k_trials_or_twice(
    seed: int,
) -> None:
    draw = np.random.default_rng(seed)
    room, origins = Room(DOWN, SAMPLE), [Origin(SAMPLE, own) for own in (5, 6, 13)]
    books, kept, late = Books(room), [], defaultdict[int, list[Batch]](list)
    for trial in range(1, 200):
        handed = late.pop(trial, [])
        for origin in origins:
            said = origin.says(trial)
            books.truth.update(_named(said))
            kept.append(said)
            if draw.random() < 0.7:
                late[trial + int(draw.integers(0, 4)) * int(draw.random() < 0.3)].append(by(HONEST, said))
            handed += late.pop(trial, [])
            handed += _made_of(said, kept, draw) if draw.random() < 0.5 else []
        room.round(*(handed[place] for place in draw.permutation(len(handed))))
        books.look()
        assert sum(map(len, room.signatures._chain._waiting.values())) <= 8 * EVERY * len(origins)
        assert len(room.signatures._later._recent) <= 17
    for _ in range(EVERY):
        room.round()
        books.look()
    assert books.longest <= EVERY
    assert books.wrong > 0, "otherwise nothing was tried"
    assert {key for key, times in books.counting.items() if times} <= books.truth
    assert not room.signatures._chain._waiting
    assert set(room.cut) <= {FORGER}


def _made_of(said: Batch, kept: list[Batch], draw: np.random.Generator) -> list[Batch]:
    """What a relay may make of what it hears, and of what it has kept."""
    old = kept[int(draw.integers(0, len(kept)))]
    other = Batch(SAMPLE, said.head, np.array([[1, UNIT - int(draw.integers(1000))]]), said.signature)
    ahead = said.head.copy()
    ahead[:, 2] += 1
    lie = signed(Batch(SAMPLE, ahead, np.array([[1, int(draw.integers(UNIT))]]), said.signature), FORGER)
    (statement,) = PaperNotary().statements(lie)
    link = np.frombuffer(link_to(statement), np.uint8).reshape(1, -1)
    choices = [
        [spoiled(said)],
        [by(FORGER, other)],
        [by(FORGER, lie)],
        [by(FORGER, lie), by(FORGER, said.signed(np.hstack([said.signature[:, :64], link])))],
        [by(FORGER, old), by(FORGER, old)],
        [travelling(said, int(draw.integers(1, GAMMA)))],
        [spoiled(old), by(FORGER, said)],
    ]
    return choices[int(draw.integers(len(choices)))]


def test_an_origin_that_links_to_what_it_has_not_signed_leaves_no_proof_that_it_told_two_things() -> None:
    """That is what a link is worth: SECURITY.md says so."""
    told = {}
    for side, reward in ((DOWN, 1), (RELAY, 2)):
        origin = Origin(SAMPLE)
        first = origin.says(1)
        bare = batch_of(SAMPLE, [Message(VICTIM, 2, GAMMA - 1, (1, reward), GAMMA)])
        unsigned = spoiled(signed(bare.signed(np.frombuffer(bytes(64) + origin.link, np.uint8).reshape(1, -1))))
        (statement,) = origin.notary.statements(unsigned)
        origin.link = link_to(statement)
        told[side] = [by(HONEST, first), unsigned, by(HONEST, origin.says(3 if side == DOWN else 11))]
    rooms = {side: Room(side, SAMPLE) for side in told}
    for side, room in rooms.items():
        for batch in told[side]:
            room.round(batch)
        assert (room.agent.heard, room.agent.dropped) == (3, {})
    for side, room in rooms.items():
        room.round(*told[1 - side])
        for _ in range(EVERY):
            room.round()
        assert not room.signatures.take_proofs()
        assert not room.cut
    both = Room(HONEST, SAMPLE)
    both.round(told[DOWN][0])
    both.round(of_all(told[DOWN][1], told[RELAY][1]))
    assert both.agent.heard == 1, "who hears both sides believes neither"


def test_who_forges_in_ever_other_names_fills_no_memory() -> None:
    room = Room(DOWN, TOTALS)
    for origin in [origin for origin in range(50, 12_000) if (origin + 1) % EVERY]:
        room.round(by(FORGER, signed(batch_of(TOTALS, [Message(origin, 1, 1, (0, 0, 1, 0), GAMMA)]), FORGER)))
    assert room.agent.dropped["forged"] > 10_000
    assert len(room.signatures._handed) <= 1 << 12

"""Samples that origins sign: one verification vouches for k of them; a forged one counts for k trials at most."""

from __future__ import annotations

import numpy as np
import pytest
from paper_notary import PaperNotary, handed_over, of_all, signed

from agentd.core.agent import Agent
from agentd.core.bodies import SAMPLE
from agentd.core.grid import UNIT
from agentd.core.message import LINK_BYTES, Batch, Message, batch_of
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.byzantine_ucb import ByzantineUcb
from agentd.core.signed.signatures import Signatures
from agentd.core.terms import Terms
from agentd.wire.statements import link_to

OWN, HONEST, FORGER, VICTIM = 0, 1, 2, 5
GAMMA, ARMS, EVERY = 3, 2, 8


class Room:
    """One agent with signatures; its own arm 0 pays nothing, and the victim pulls arm 1, which pays its trial."""

    def __init__(self, every: int = EVERY) -> None:
        self.notary = PaperNotary()
        self.signatures = Signatures(OWN, self.notary, every=every)
        policy = make_policy("byzantine-ucb", PolicySettings(arms=ARMS), OWN)
        assert isinstance(policy, ByzantineUcb)
        self.policy = policy
        self.agent = Agent(
            OWN, policy, terms=Terms(ARMS, GAMMA), signatures=self.signatures, neighbours=(HONEST, FORGER)
        )
        self.own = 0

    def round(self, *batches: Batch) -> None:
        arm = self.agent.choose().arm
        self.own += arm
        self.agent.advance(0).committed()
        self.agent.receive(batches)

    @property
    def believed(self) -> tuple[int, int]:
        """How many samples of arm 1 it has heard, and what they paid."""
        samples = self.policy._samples[1]
        return samples.size - self.own, samples.total


def sample(trial: int, reward: int | None = None, incarnation: int = 0) -> Message:
    return Message(VICTIM, trial, GAMMA - 1, (1, trial if reward is None else reward), GAMMA, incarnation)


def told(trials: range | list[int], incarnation: int = 0) -> dict[int, Batch]:
    """What the victim says in these trials, each linked to the one before."""
    said, link = {}, bytes(LINK_BYTES)
    for trial in trials:
        bare = batch_of(SAMPLE, [sample(trial, incarnation=incarnation)])
        linked = signed(bare.signed(np.frombuffer(bytes(64) + link, np.uint8).reshape(1, -1)))
        linked.via = np.array([HONEST])
        said[trial] = linked
        (statement,) = PaperNotary().statements(linked)
        link = link_to(statement)
    return said


def forged(trial: int, reward: int = UNIT) -> Batch:
    return handed_over(SAMPLE, [sample(trial, reward)], FORGER, by=FORGER)


def sums(trials: list[int]) -> tuple[int, int]:
    return len(trials), sum(trials)


@pytest.mark.parametrize("every", [1, 2, 8])
def test_one_in_k_is_verified_and_all_count_at_once(every: int) -> None:
    room, said = Room(every), told(range(1, 81))
    for trial, batch in said.items():
        room.round(of_all(batch, batch))
        assert room.believed == sums([*range(1, trial + 1)])
    assert room.notary.asked in (80 // every, 80 // every + 1)
    assert not room.agent.dropped


@pytest.mark.parametrize("seed", range(6))
def test_what_is_lost_late_or_heard_twice_makes_nothing_of_the_rest_a_forgery(seed: int) -> None:
    draw = np.random.default_rng(seed)
    room, said = Room(), told(range(1, 61))
    lost = set(draw.choice(60, 6, replace=False).tolist())
    when: dict[int, list[Batch]] = {}
    for trial, batch in said.items():
        if trial not in lost:
            for _ in range(int(draw.integers(1, 3))):
                when.setdefault(trial + int(draw.integers(0, 4)), []).append(batch)
    for trial in range(1, 90):
        arrived = when.get(trial, [])
        room.round(*(arrived[place] for place in draw.permutation(len(arrived))))
    assert room.believed == sums([trial for trial in said if trial not in lost])
    assert not room.agent.dropped
    assert room.signatures.take_forgers() == set()
    assert not room.signatures._chain._waiting, "all were vouched for"


def test_a_forged_sample_counts_for_k_trials_at_most_and_the_genuine_one_takes_its_place() -> None:
    room, said = Room(), told(range(1, 41))
    wrong = 0
    for trial in range(1, 41):
        # The forgery is heard a round before the sample itself, whose place it takes.
        ahead = [forged(trial + 1)] if trial == 20 else []
        room.round(said[trial], *ahead)
        heard = sums([*range(1, trial + 1)])
        wrong += room.believed != heard
        assert wrong <= EVERY
    assert wrong > 0
    assert room.believed == sums([*range(1, 41)])
    assert room.agent.dropped["forged"] == 1
    assert room.signatures.take_proofs() == []


@pytest.mark.parametrize("lone", [4, 6])
def test_a_forged_sample_after_which_nothing_comes_is_taken_back(lone: int) -> None:
    room, said = Room(), told(range(1, 4))
    for trial in range(1, 4):
        room.round(said[trial])
    room.round(forged(lone))
    assert room.believed == (4, 6 + UNIT)
    for _ in range(EVERY):
        room.round()
    assert room.believed == (3, 6)
    assert room.signatures.take_forgers() == set(), "an honest neighbour may have passed it on"


def test_after_a_forgery_everything_in_that_name_is_verified_first() -> None:
    room, said = Room(), told(range(1, 30))
    room.round(said[1])
    room.round(forged(4))
    for _ in range(EVERY):
        room.round()
    for trial in (6, 7, 9, 10):
        room.round(forged(trial))
        assert room.believed == (1, 1)


def test_a_changed_sample_under_a_real_signature_is_noticed_beside_the_real_one() -> None:
    room, said = Room(), told(range(1, 20))
    for trial in range(1, 5):
        room.round(said[trial])
    real = said[5]
    changed = Batch(SAMPLE, real.head, np.array([[1, UNIT]]), real.signature)
    changed.via = np.array([FORGER])
    room.round(of_all(changed, real))
    assert room.believed == sums([1, 2, 3, 4, 5])


def test_a_sample_whose_link_was_changed_vouches_for_nothing() -> None:
    room, said = Room(), told(range(1, 40))
    room.round(said[1])
    room.round(forged(2))
    due = next(trial for trial in said if trial > 2 and not (VICTIM + trial) % EVERY)
    (lie,) = PaperNotary().statements(forged(2))
    real = said[due]
    linked = np.hstack([real.signature[:, :64], np.frombuffer(link_to(lie), np.uint8).reshape(1, -1)])
    changed = real.signed(linked)
    changed.via = np.array([FORGER])
    room.round(changed)
    assert room.signatures.take_forgers() == {FORGER}
    for _ in range(EVERY):
        room.round()
    assert room.believed == (1, 1)


def test_a_life_that_begins_anew_begins_a_new_chain() -> None:
    room, said = Room(), told(range(1, 12))
    for batch in said.values():
        room.round(batch)
    again = told(range(12, 40), incarnation=9)
    for batch in again.values():
        room.round(batch)
    assert room.believed == sums([*range(1, 40)]), "samples of a life before were real"
    assert not room.agent.dropped


def test_two_samples_signed_for_one_trial_are_a_proof_and_what_was_not_vouched_for_is_taken_back() -> None:
    room, said = Room(), told(range(1, 20))
    for trial in range(1, 6):
        room.round(said[trial])
    other = handed_over(SAMPLE, [sample(5, UNIT)], HONEST)
    room.round(other)
    (proof,) = room.signatures.take_proofs()
    assert (proof.origin, proof.trial) == (VICTIM, 5)
    assert {proof.first.statement, proof.second.statement} == {
        *room.notary.statements(said[5]),
        *room.notary.statements(other),
    }
    assert room.believed[0] < 5
    before = room.believed
    room.round(said[6])
    assert room.believed == before

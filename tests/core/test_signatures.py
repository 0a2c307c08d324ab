"""Where origins sign: a forgery is refused before it counts, or counts for k trials at most; liars are found out."""

from __future__ import annotations

import numpy as np
import pytest
from paper_notary import PaperNotary, handed_over, of_all, signed

from agentd.core.agent import Agent
from agentd.core.bodies import SAMPLE, SEALED, TOTALS
from agentd.core.grid import UNIT
from agentd.core.message import Batch, Message, batch_of
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.coop_ucb import CoopUcb
from agentd.core.signed.signatures import Signatures
from agentd.core.terms import Terms
from agentd.core.trust.lives import Lives

OWN, HONEST, FORGER, VICTIM = 0, 1, 2, 5
GAMMA, ARMS = 3, 2


class Room:
    """One agent with signatures, and what its neighbours hand over to it."""

    def __init__(self, algorithm: str = "coop-ucb", every: int = 8, lives: Lives | None = None) -> None:
        self.notary = PaperNotary()
        self.signatures = Signatures(OWN, self.notary, every=every)
        self.policy = make_policy(algorithm, PolicySettings(arms=ARMS), OWN)
        self.agent = Agent(
            OWN, self.policy, terms=Terms(ARMS, GAMMA), lives=lives, signatures=self.signatures, neighbours=(1, 2)
        )

    def pull(self) -> list[Batch]:
        self.agent.choose()
        turn = self.agent.advance(0)
        turn.committed()
        return turn.outbox()

    def round(self, *batches: Batch) -> list[Batch]:
        said = self.pull()
        self.agent.receive(batches)
        return said

    @property
    def believed(self) -> int:
        """Of how many pulls of arm 1 it has heard, all of which paid."""
        assert isinstance(self.policy, CoopUcb)
        pool = self.policy._pool
        assert (pool.counts[0], pool.sums) == (0, [0, pool.counts[1] * UNIT])
        return pool.counts[1]

    @property
    def dropped(self) -> dict[str, int]:
        return dict(self.agent.dropped)


def totals(trial: int, pulls: int | None = None, incarnation: int = 0, life: int = GAMMA - 1) -> Message:
    """The victim has pulled arm 1 in every trial but says more or fewer pulls of it where it is asked to."""
    pulls = trial if pulls is None else pulls
    return Message(VICTIM, trial, life, (0, 0, pulls, pulls * UNIT), GAMMA, incarnation)


def real(trial: int, via: int = HONEST, **more: int) -> Batch:
    return handed_over(TOTALS, [totals(trial, **more)], via)


def forged(trial: int, pulls: int, via: int = FORGER, **more: int) -> Batch:
    return handed_over(TOTALS, [totals(trial, pulls, **more)], via, by=FORGER)


def record(trial: int, pulls: int) -> Message:
    return Message(VICTIM, trial, GAMMA - 1, (1, pulls, 1, UNIT, 0), GAMMA)


def is_due(trial: int, every: int = 8) -> bool:
    return (VICTIM + trial) % every == 0


def test_own_messages_are_signed_and_relays_keep_their_signatures() -> None:
    room = Room()
    room.round(real(1))
    (sent,) = room.round()
    heads = {origin: number for number, origin in enumerate(sent.origin.tolist())}
    assert set(heads) == {OWN, VICTIM}
    assert sent.signature[heads[VICTIM]].tobytes() == real(1).signature[0].tobytes()
    assert sent.signature[heads[OWN]].tobytes() == signed(sent.rows(np.array([heads[OWN]]))).signature[0].tobytes()


@pytest.mark.parametrize("algorithm", ["sealed", "coop-ucb", "byzantine-ucb"])
def test_a_message_whose_signature_was_taken_away_is_refused_and_its_sender_cut_off(algorithm: str) -> None:
    kind, body = {"sealed": (SEALED, (1, 1, 1, UNIT, 0)), "byzantine-ucb": (SAMPLE, (1, UNIT))}.get(
        algorithm, (TOTALS, (0, 0, 1, UNIT))
    )
    room = Room(algorithm)
    stripped = batch_of(kind, [Message(VICTIM, 1, GAMMA - 1, body, GAMMA)])
    stripped.via = np.array([FORGER])
    room.round(stripped)
    assert (room.dropped, room.agent.heard) == ({"unsigned": 1}, 0)
    assert room.signatures.take_forgers() == {FORGER}
    assert not [batch for batch in room.pull() if VICTIM in batch.origin], "and it does not travel on"


def test_a_forged_record_of_sealed_counts_never_and_does_not_shadow_the_real_one() -> None:
    room = Room("sealed")
    fake = handed_over(SEALED, [record(3, 3)], FORGER, by=FORGER)
    true = handed_over(SEALED, [record(3, 2)], HONEST)
    room.round(of_all(fake, true))
    assert (room.agent.heard, room.dropped) == (1, {"forged": 1})
    assert room.signatures.take_forgers() == {FORGER}
    (relayed,) = [batch for batch in room.pull() if VICTIM in batch.origin.tolist()]
    assert relayed.body[relayed.origin == VICTIM][0, 1] == 2


def test_copies_of_what_was_found_genuine_are_not_verified_again() -> None:
    room = Room("sealed")
    true = handed_over(SEALED, [record(3, 2)], HONEST)
    for _ in range(5):
        room.round(of_all(true, true, true))
    assert room.notary.asked == 1
    other = true.signed(np.roll(true.signature, 1))
    other.via = np.array([FORGER])
    room.round(other)
    assert room.notary.asked == 2, "the same statement under another signature is not the same"
    assert room.dropped == {"forged": 1}


def test_who_forges_is_not_listened_to_any_more_in_the_same_round() -> None:
    room = Room("sealed")
    many = handed_over(SEALED, [record(trial, 1) for trial in range(3, 103)], FORGER, by=FORGER)
    room.round(many)
    assert room.notary.asked == 1, "one verification for a hundred forgeries"
    assert room.dropped == {"forged": 100}


@pytest.mark.parametrize("every", [1, 2, 8])
def test_a_forgery_counts_for_k_trials_at_most_and_the_last_verified_takes_its_place(every: int) -> None:
    room = Room(every=every)
    room.round(real(1))
    wrong = 0
    for trial in range(2, 40):
        room.round(forged(trial, trial - 1, life=1))
        wrong += room.believed != 1
    assert (wrong > 0) == (every > 2), "what was verified last says the same as the first forgery"
    assert wrong <= every
    assert room.believed == 1
    assert room.dropped["forged"] > 0


def test_a_verified_message_that_contradicts_a_forgery_takes_its_place() -> None:
    room = Room()
    due = next(trial for trial in range(4, 20) if is_due(trial))
    room.round(real(due - 2))
    room.round(forged(due - 1, due - 1))
    assert room.believed == due - 1
    room.round(real(due, pulls=due - 2))
    assert room.believed == due - 2, "what was forged had more pulls, and that would have been taken back"
    room.round(forged(due + 1, due + 1))
    assert room.believed == due - 2, "from now on everything in this name is verified"


def test_only_who_must_have_verified_it_is_cut_off_for_a_forgery() -> None:
    due = next(trial for trial in range(4, 20) if is_due(trial))
    room = Room()
    room.round(real(due - 3))
    room.round(forged(due - 1, due - 1, via=HONEST))
    for _ in range(10):
        room.round()
    assert room.believed == due - 3
    assert room.signatures.take_forgers() == set(), "an honest neighbour may have passed it on unverified"
    room.round(forged(due, due, via=FORGER))
    assert room.signatures.take_forgers() == {FORGER}


def test_nobody_is_cut_off_for_what_an_honest_one_may_pass_on_however_much_it_is() -> None:
    room = Room()
    room.round(real(1))
    for trial in [trial for trial in range(2, 800) if not is_due(trial)]:
        room.round(forged(trial, 1))
    assert room.dropped["forged"] > 600
    assert room.signatures.take_forgers() == set()


def test_an_incarnation_is_verified_before_it_renews_anything() -> None:
    room = Room()
    room.round(real(9))
    room.round(forged(12, 1, incarnation=10))
    assert room.believed == 9, "nothing was forgotten"
    room.round(real(12, pulls=2, incarnation=10))
    assert room.believed == 2


def test_what_counts_is_what_would_without_signatures_and_few_are_verified() -> None:
    room, plain = Room(), Room()
    plain.agent.signatures = None
    for trial in range(1, 81):
        room.round(of_all(real(trial), real(trial, life=1)))
        plain.round(batch_of(TOTALS, [totals(trial)]))
        assert room.believed == plain.believed
    assert room.notary.asked == 1 + 80 // 8
    assert not room.dropped


@pytest.mark.parametrize("algorithm", ["sealed", "coop-ucb"])
@pytest.mark.parametrize("apart", [0, 1])
def test_two_statements_for_one_trial_are_a_proof_and_their_origin_is_out(algorithm: str, apart: int) -> None:
    room = Room(algorithm)
    if algorithm == "sealed":
        first = handed_over(SEALED, [record(3, 1)], HONEST)
        second = handed_over(SEALED, [record(3, 2)], FORGER)
    else:
        first, second = real(4, pulls=2), real(4, pulls=3, via=FORGER)
        room.round(real(2, pulls=1))
    if apart:
        room.round(first)
        room.round(second)
    else:
        room.round(of_all(first, second))
    (proof,) = room.signatures.take_proofs()
    assert (proof.origin, proof.trial) == (VICTIM, int(first.trial[0]))
    assert {proof.first.statement, proof.second.statement} == {
        *room.notary.statements(first),
        *room.notary.statements(second),
    }
    if algorithm == "coop-ucb":
        assert room.believed == 0, "nothing of it counts any more"
    before = room.agent.heard
    room.round(real(6) if algorithm == "coop-ucb" else handed_over(SEALED, [record(6, 2)], HONEST))
    assert room.agent.heard == before
    assert room.dropped["equivocation"] >= 1
    assert room.signatures.take_forgers() == set(), "who passed it on is honest"


def test_a_forged_second_statement_is_no_equivocation() -> None:
    room = Room()
    room.round(real(2))
    room.round(forged(3, 1))
    room.round(real(3))
    room.round(real(4))
    assert room.signatures.take_proofs() == []
    assert room.believed == 4


def test_a_newer_message_of_ones_own_stops_all_speaking_and_a_forged_one_does_not() -> None:
    room = Room()
    room.round()
    ahead = Message(OWN, 7, GAMMA - 1, (0, 0, 7, 7 * UNIT), GAMMA)
    room.round(handed_over(TOTALS, [ahead], FORGER, by=FORGER))
    assert room.signatures.newer_self is None
    assert [batch for batch in room.pull() if OWN in batch.origin]
    room.agent.receive([handed_over(TOTALS, [ahead], HONEST)])
    assert room.signatures.newer_self == (0, 7)
    assert not [batch for batch in room.pull() if OWN in batch.origin]


def test_what_one_hears_of_oneself_is_mostly_what_one_said() -> None:
    room = Room()
    for _ in range(3):
        (said,) = room.pull()
        echo = said.aged()
        echo.via = np.array([HONEST])
        room.agent.receive([echo])
    assert room.signatures.newer_self is None
    assert room.notary.asked == 0
    assert not room.dropped


def test_a_life_that_the_environment_told_of_is_not_put_back() -> None:
    lives = Lives()
    room = Room(lives=lives)
    room.round(real(2))
    room.round(real(4))
    lives.told([(VICTIM, 4)], 1)
    for _ in range(10):
        room.round()
    assert room.believed == 0
    room.round(real(6, pulls=1, incarnation=4))
    assert room.believed == 1


def test_when_somebody_has_another_key_nothing_is_known_to_be_genuine() -> None:
    room = Room("sealed")
    true = handed_over(SEALED, [record(3, 2)], HONEST)
    room.round(true)
    room.signatures.roster_changed()
    room.round(true)
    assert room.notary.asked == 2


def test_a_message_of_an_earlier_life_handed_over_again_prolongs_no_forgery() -> None:
    room = Room()
    room.round(real(9))
    room.round(real(13, pulls=1, incarnation=10))
    room.round(forged(14, 4, incarnation=10))
    assert room.believed == 4
    room.round(real(8, via=FORGER))
    for trial in range(15, 30):
        room.round(real(trial, pulls=2, incarnation=10))
    assert room.believed == 2


def test_a_roster_that_is_taken_up_meanwhile_prolongs_no_forgery() -> None:
    room = Room()
    room.round(real(2))
    room.round(forged(5, 5))
    assert room.believed == 5
    room.signatures.roster_changed()
    for trial in range(6, 24):
        room.round(real(trial, pulls=3))
    assert room.believed == 3


def test_an_honest_neighbour_that_is_made_to_pass_on_all_it_can_is_not_cut_off() -> None:
    """Somebody forges two messages a round of one origin after the other; each is found out by it in k trials."""
    room, every, origins = Room(), 8, range(1, 41)

    def said(origin: int, trial: int, by: int | None = None) -> Batch:
        return handed_over(TOTALS, [Message(origin, trial, 1, (0, 0, 1, UNIT), GAMMA)], HONEST, by=by)

    room.round(*(said(origin, 1) for origin in origins))
    for origin in origins:
        room.signatures._later.forged(origin)
        for trial in [trial for trial in range(2, 100) if (origin + trial) % every][: 2 * every : 2]:
            room.round(said(origin, trial, by=99), said(origin, trial + every, by=99))
    assert room.dropped["forged"] == 2 * every * len(origins)
    assert room.signatures.take_forgers() == set()

"""shielded: duty, trust, and that what was settled bit by bit is what a fresh look at the same records comes to."""

from __future__ import annotations

import numpy as np
import pytest

from agentd.core.agent import Agent
from agentd.core.bodies import SEALED
from agentd.core.grid import UNIT
from agentd.core.message import Message, batch_of
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.beliefs import Beliefs
from agentd.core.policy.sealed import least_samples
from agentd.core.policy.shielded import Shielded
from agentd.core.policy.shielding import Own, Told, believed, duty_of, liars_among, settle, told_of, worth_of_duty, zeal
from agentd.core.privacy.sealing import Weighting
from agentd.core.terms import PolicyTerms, Terms

ARMS, OTHERS = 3, 12
BEACON = bytes(range(32))
TERMS = Terms(ARMS, 1, beacon=BEACON, policies=(PolicyTerms("shielded", 4, 1.0, None, ((0, OTHERS),)),))
WORTH = Weighting.of(1.0)


class NoNoise:
    def draw(self, scale: int, stream: int = 0) -> int:
        return 0


def agent() -> Agent:
    policy = make_policy("shielded", PolicySettings(arms=ARMS), 0)
    return Agent(0, policy, terms=TERMS, noise=NoNoise())


def record(origin: int, arm: int, pulls: int, mean: float, trial: int) -> Message:
    samples = WORTH.samples(pulls)
    return Message(origin, trial, 1, (arm, pulls, 1, samples, int(samples * mean)), 1)


def duties() -> dict[int, int]:
    return {origin: duty_of(BEACON, origin, ARMS) for origin in range(OTHERS + 1)}


def hear(one: Agent, *messages: Message) -> None:
    one.receive([batch_of(SEALED, messages)])


def policy_of(one: Agent) -> Shielded:
    assert isinstance(one.policy, Shielded)
    return one.policy


def test_an_agent_plays_its_duty_until_that_is_released_and_tells_of_nothing_else_before() -> None:
    one = agent()
    arm, released = duties()[0], []
    while not released:
        intent = one.choose()
        assert intent.arm == arm
        assert policy_of(one).due(intent.trial, (arm + 1) % ARMS) is None
        turn = one.advance(UNIT // 2)
        turn.committed()
        released = list(turn.releases)
    assert released[0].release.arm == arm


def test_the_batch_of_a_duty_is_worth_some_times_what_first_batches_are() -> None:
    one, pulls = agent(), 0
    while not one.policy.ledger.releases():  # type: ignore[union-attr]
        one.choose()
        one.advance(0).committed()
        pulls += 1
    wanted = 4 * least_samples(ARMS, 1)  # it has heard nobody
    assert WORTH.samples(pulls - 1) < wanted <= WORTH.samples(pulls)
    assert [int(worth_of_duty(40, group)) for group in (1, 50, 51, 100, 200, 1000)] == [160, 160, 156, 80, 40, 40]


def test_how_much_others_claim_to_know_does_not_keep_anybody_at_its_duty() -> None:
    pulls = []
    for claimed in (0, 40):
        one, count = agent(), 0
        mine = duties()[0]
        if claimed:
            told = [record(origin, arm, claimed, 0.5, 50) for origin, arm in duties().items() if origin and arm == mine]
            hear(one, *told)
        while not one.policy.ledger.releases():  # type: ignore[union-attr]
            one.choose()
            one.advance(0).committed()
            count += 1
        pulls.append(count)
    assert pulls[0] == pulls[1]


def test_a_record_counts_once_its_origin_has_told_of_its_duty_in_whichever_order_they_come() -> None:
    duty = duties()[3]
    volunteered, on_duty = record(3, (duty + 1) % ARMS, 9, 0.8, 20), record(3, duty, 8, 0.2, 10)
    means = []
    for order in ([volunteered, on_duty], [on_duty, volunteered]):
        one = agent()
        for count, message in enumerate(order, start=1):
            hear(one, message)
            policy = policy_of(one)
            policy._beliefs.settle(count, policy._own, OTHERS + 1)
            if order[0] is volunteered and count == 1:
                assert policy.released_means() == [None] * ARMS
        means.append((policy._beliefs.means, policy._beliefs.weights))
    assert means[0] == means[1]


def lied_to(claims: float) -> Shielded:
    """Everybody says 0.3 of each arm, but origin 5 says something else of arm 0."""
    one = agent()
    for origin, duty in duties().items():
        for arm in (duty, *(a for a in range(ARMS) if a != duty)) if origin else ():
            mean = claims if (origin, arm) == (5, 0) else 0.3
            hear(one, record(origin, arm, 30, mean, 100 + arm + 3 * (arm == duty)))
    policy = policy_of(one)
    policy._beliefs.settle(1, policy._own, OTHERS + 1)
    return policy


def test_who_disagrees_is_trusted_less_and_the_claim_that_did_it_is_told_once() -> None:
    policy = lied_to(1.0)
    first = policy.trust_in_others()[0]
    assert (first.origin, first.arm) == (5, 0)
    assert first.trust < 500
    assert first.claimed == pytest.approx(1.0, abs=0.01)
    assert first.expected == pytest.approx(0.3, abs=0.05)
    assert [each.origin for each in policy.changes_of_trust()] == [5]
    assert policy.changes_of_trust() == []
    assert policy.distrusted() == [5]
    assert abs(policy.released_means()[0] - 0.3) < 0.05  # type: ignore[operator]


def test_nobody_is_excluded_for_ever() -> None:
    policy = lied_to(1.0)
    row = policy._beliefs._row[policy._beliefs._column[5]]
    policy.forget(np.array([row]), {})
    policy._beliefs.settle(2, policy._own, OTHERS + 1)
    assert all(each.trust == 1000 for each in policy.trust_in_others())
    assert [each.origin for each in policy.changes_of_trust()] in ([], [5])


def test_honest_neighbours_keep_their_trust() -> None:
    policy = lied_to(0.35)
    assert all(each.trust > 900 for each in policy.trust_in_others())
    assert policy.changes_of_trust() == []


def random_told(draw: np.random.Generator, rows: int, columns: int) -> tuple[Told, Own]:
    samples = np.where(draw.random((rows, columns)) < 0.7, draw.integers(1, 1 << 26, (rows, columns)), 0) * 1.0
    sums = samples * draw.normal(0.5, 0.4, (rows, columns))
    trust = believed(draw.exponential(1.0, (rows, columns)) * (draw.random((rows, columns)) < 0.2))
    group = np.full(rows, columns)
    own = np.where(draw.random(rows) < 0.5, draw.random(rows) * 20, 0.0)
    duty = (draw.random((rows, columns)) < draw.random()) * 1.0
    told = Told(*told_of(samples, sums), trust, duty, 1.0 - duty)
    return told, Own(own, draw.random(rows), group * 1.0, liars_among(group, float(draw.choice([0.0, 0.1, 0.3]))))


@pytest.mark.parametrize("seed", range(30))
def test_one_row_alone_comes_to_the_same_bits_as_among_others(seed: int) -> None:
    draw = np.random.Generator(np.random.Philox(seed))
    told, own = random_told(draw, 17, int(draw.integers(1, 70)))
    distrust = (1.0 - told.trust).sum(axis=1)
    together = settle(told, own, distrust)
    for row in range(17):
        some = slice(row, row + 1)
        alone = settle(Told(*(part[some] for part in told)), Own(*(part[some] for part in own)), distrust[some])
        for found, wanted in zip(alone, together, strict=True):
            assert np.array_equal(found[0], wanted[row])


@pytest.mark.parametrize("seed", range(20))
def test_the_centre_is_where_clipped_disagreement_cancels_and_weights_never_exceed_samples(seed: int) -> None:
    draw = np.random.Generator(np.random.Philox(seed + 100))
    told, own = random_told(draw, 9, 40)
    settled = settle(told, own, (1.0 - told.trust).sum(axis=1))
    assert np.isfinite(settled.centre).all()
    assert (settled.centre >= np.minimum(told.means.min(axis=1), own.mean) - 1e-6).all()
    assert (settled.centre <= np.maximum(told.means.max(axis=1), own.mean) + 1e-6).all()
    assert (settled.weight <= (told.samples * told.trust).sum(axis=1) * UNIT + 1).all()
    assert (settled.samples <= settled.weight + np.ceil(own.samples * UNIT) + 1).all()
    assert (settled.dissent[told.samples == 0.0] == 0.0).all()


def test_what_was_settled_bit_by_bit_is_what_a_fresh_look_comes_to() -> None:
    """Trust moves in between; once nothing moves any more, the way there leaves no trace in what is believed."""
    policy = lied_to(0.9)
    beliefs = policy._beliefs
    for trial in range(2, 40):
        beliefs._stale.update(range(ARMS))
        beliefs.settle(trial, policy._own, OTHERS + 1)
    again = Beliefs(ARMS, 0.3, policy._pool)
    again.agree(BEACON, range(OTHERS + 1))
    rows = {
        origin: int(beliefs._row[column]) for origin, column in beliefs._column.items() if beliefs._row[column] >= 0
    }
    again.changed((origin, row, arm) for origin, row in rows.items() for arm in range(ARMS))
    for trial in range(1, 40):
        again._stale.update(range(ARMS))
        again.settle(trial, policy._own, OTHERS + 1)
    assert (again.means, again.samples, again.weights) == (beliefs.means, beliefs.samples, beliefs.weights)
    assert np.array_equal(again._trust, beliefs._trust)


def test_enough_on_duty_let_others_follow_the_means() -> None:
    assert zeal(0) == zeal(1) == zeal(2) == 1.0
    assert zeal(10) == 0.5
    assert zeal(40) == 0.25

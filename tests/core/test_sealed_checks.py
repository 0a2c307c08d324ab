from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import drawn

from agentd.core.bodies import SEALED
from agentd.core.checks import Checks
from agentd.core.grid import UNIT
from agentd.core.message import Message, batch_of
from agentd.core.policy.records import NOTHING, Record
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.sealing import OpenBatch, Weighting
from agentd.core.terms import PolicyTerms, Terms

EPSILON = 1.0
WEIGHTING = Weighting.of(EPSILON)
ARMS = 3
MOST = 9 * UNIT * 9 // 17
"""What 9 pulls in one batch are worth at ε = 1: 81/17."""
LEAST = 9 * UNIT * 9 // 33
"""What they are worth in three batches of 3."""


def terms_of(epsilon: float | None) -> Terms:
    return Terms(ARMS, 1) if epsilon is None else Terms(ARMS, 1).assuming(epsilon, 1.1)


def judged(*body: int, trial: int = 50, epsilon: float | None = EPSILON) -> bool:
    checks = Checks(terms_of(epsilon))
    return len(checks.judge(batch_of(SEALED, [Message(1, trial, 1, body)]))) == 1


def records(batches: list[int], reward: int, seed: int, weighting: Weighting = WEIGHTING) -> list[Record]:
    """What an honest origin says after each of these batches of one arm."""
    noise, record, said = SeededLaplace(seed, 0), NOTHING, []
    for pulls in batches:
        batch = OpenBatch()
        for _ in range(pulls):
            batch.add(reward)
        record = record.after(
            batch.seal(Ledger(disjoint=True), drawn(Release(0, 1, pulls, weighting.scale), noise)), weighting
        )
        said.append(record)
    return said


class Line:
    """One origin's messages about its arms, as they come."""

    def __init__(self, epsilon: float | None = EPSILON) -> None:
        self._checks = Checks(terms_of(epsilon))

    def take(self, *told: tuple[int, tuple[int, ...]], incarnation: int = 0) -> list[int]:
        """Which trials are believed, of (trial, body)."""
        batch = batch_of(SEALED, [Message(4, trial, 1, body, 1, incarnation) for trial, body in told])
        batch = self._checks.judge(batch)
        news, _ = self._checks.continues(batch, np.zeros(len(batch), dtype=np.int64))
        assert len(news.batch) == len(news.rows)
        return news.batch.trial.tolist()


def test_a_hello_is_all_zeros() -> None:
    assert judged(0, 0, 0, 0, 0)
    assert not judged(1, 0, 0, 0, 0)
    assert not judged(0, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("body", "fine"),
    [
        ((0, 9, 1, MOST, 0), True),
        ((2, 9, 1, MOST, MOST), True),
        ((3, 9, 1, MOST, 0), False),  # no such arm
        ((-1, 9, 1, MOST, 0), False),
        ((0, 51, 1, 40 * UNIT, 0), False),  # more pulls than trials
        ((0, 9, 10, LEAST, 0), False),  # more batches than pulls
        ((0, 9, 0, MOST, 0), False),
        ((0, -9, -9, MOST, 0), False),
        ((0, 9, 1, MOST + 9, 0), False),  # worth more than one batch of all pulls
        ((0, 9, 3, LEAST, 0), True),
        ((0, 9, 3, LEAST - 9, 0), False),  # worth less than batches of equal size
        ((0, 9, 3, MOST, 0), True),
        ((0, 9, 1, 0, 0), False),
        ((0, 9, 1, -(2**63), 0), False),
        ((0, 9, 1, MOST, 16 * UNIT), True),  # the noise may have been large: 21.4·9/17 beyond 81/17
        ((0, 9, 1, MOST, 17 * UNIT), False),
        ((0, 9, 1, MOST, -11 * UNIT), True),
        ((0, 9, 1, MOST, -12 * UNIT), False),
        ((0, 9, 1, MOST, -(2**63)), False),
    ],
)
def test_a_record_must_add_up(body: tuple[int, ...], fine: bool) -> None:
    assert judged(*body) is fine


@pytest.mark.parametrize(
    ("pulls", "batches", "epsilon", "before", "after"),
    [
        (8, 1, 1.0, 12.3, 3.7),
        (100, 100, 1.0, 68.9, 2.1),
        (1500, 1500, 1.0, 68.9, 1.3),
        (1496, 187, 1.0, 12.3, 1.1),
        (1500, 1, 1.0, 1.6, 1.0),
        (1500, 1500, 10.0, 24.5, 1.0),
        (1500, 15, 0.1, 7.8, 1.3),
        (1500, 1500, 0.1, 641.4, 3.7),
    ],
)
def test_the_largest_mean_that_a_record_can_claim(
    pulls: int, batches: int, epsilon: float, before: float, after: float
) -> None:
    """In batches of equal size; 49aef1d took 64 scales of noise in each of them for possible."""
    samples = batches * Weighting.of(epsilon).samples(pulls // batches)
    assert 1 + 64 * (batches / 8 / (samples / UNIT)) ** 0.5 == pytest.approx(before, abs=0.1)
    for mean, fine in ((after - 0.1, True), (after + 0.1, False), (0.9 - after, False), (1.1 - after, True)):
        assert judged(0, pulls, batches, samples, int(mean * samples), trial=1500, epsilon=epsilon) is fine


def test_everybody_is_judged_by_the_epsilon_of_its_own_policy() -> None:
    policies = (
        PolicyTerms("sealed", 4, 1.0, None, ((1, 1),)),
        PolicyTerms("sealed", 4, 3.0, None, ((2, 2),)),
        PolicyTerms("coop-ucb", 2, None, None, ((3, 3),)),
    )
    checks = Checks(Terms(ARMS, 1, policies=policies))
    worth = {epsilon: Weighting.of(epsilon).samples(8) for epsilon in (1.0, 3.0)}
    told = [
        Message(origin, 50, 1, (0, 8, 1, worth[epsilon], 2 * total), 1)
        for origin in (1, 2, 3)
        for epsilon in worth
        for total in (0, worth[epsilon])
    ]
    believed = checks.judge_bodies(batch_of(SEALED, told)).messages()
    assert [(said.origin, said.body[3:]) for said in believed] == [
        *((1, (worth[1.0], total)) for total in (0, 2 * worth[1.0])),
        (2, (worth[3.0], 0)),  # twice as much as can be paid is too much where noise is small
    ]
    news, _ = checks.continues(batch_of(SEALED, believed[:1] + believed[-1:]), np.array([0, 1]))
    assert news.batch.origin.tolist() == [1, 2]


def test_without_a_known_epsilon_samples_need_only_be_fewer_than_pulls() -> None:
    assert judged(0, 9, 1, 9 * UNIT, 0, epsilon=None)
    assert judged(0, 9, 3, 1, 0, epsilon=None)
    assert not judged(0, 9, 1, 9 * UNIT + 9, 0, epsilon=None)
    assert not judged(0, 9, 1, 0, 0, epsilon=None)


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=12),
    st.sampled_from([0, 1, UNIT // 3, UNIT]),
    st.integers(0, 1 << 30),
    st.sampled_from([0.01, 0.1, 1.0, 3.0, 100.0]),
    st.permutations(range(12)),
)
@settings(deadline=None, max_examples=150)
def test_every_honest_record_is_believed_in_any_order(
    batches: list[int], reward: int, seed: int, epsilon: float, order: list[int]
) -> None:
    weighting = Weighting.of(epsilon)
    said = records(batches, reward, seed, weighting)
    told = [(record.pulls, (1, *record)) for record in said]
    line = Line(epsilon)
    shuffled = [told[place] for place in order if place < len(told)]
    half = len(shuffled) // 2
    first, second = shuffled[:half], shuffled[half:]
    assert (line.take(*first) if first else []) == [trial for trial, _ in first]
    assert line.take(*second) == [trial for trial, _ in second]


def test_what_was_released_is_never_taken_back() -> None:
    first, second = records([8, 8], UNIT, 1)
    line = Line()
    assert line.take((20, (0, *second))) == [20]
    assert line.take((21, (0, *first))) == []  # newer, and yet less
    assert line.take((10, (0, *first))) == [10]  # late, and so it may say less
    assert line.take((9, (0, 9, 1, MOST, 0))) == []  # late, but not on the way to what came later


def test_a_record_may_be_repeated_but_not_changed() -> None:
    (record,) = records([8], UNIT, 1)
    line = Line()
    assert line.take((10, (0, *record))) == [10]
    assert line.take((30, (0, *record))) == [30]
    assert line.take((31, (0, *record[:3], record.total + 1))) == []


def test_the_pulls_of_all_arms_together_are_no_more_than_the_trials() -> None:
    (eight,) = records([8], UNIT, 1)
    line = Line()
    assert line.take((10, (0, *eight))) == [10]
    assert line.take((12, (1, *eight))) == []
    assert line.take((16, (1, *eight))) == [16]
    assert line.take((9, (0, 0, 0, 0, 0))) == [9]


def test_several_records_of_one_origin_at_once_are_held_together_too() -> None:
    (eight,) = records([8], UNIT, 1)
    assert Line().take((10, (0, *eight)), (12, (1, *eight)), (24, (2, *eight))) == [10, 24]


def test_a_new_life_begins_from_nothing() -> None:
    first, second = records([8, 8], UNIT, 1)
    line = Line()
    assert line.take((40, (0, *second))) == [40]
    assert line.take((41, (0, *first)), incarnation=40) == [41]
    assert line.take((42, (0, 0, 0, 0, 0)), incarnation=40) == [42]


def test_more_samples_need_more_pulls() -> None:
    """A liar cannot sharpen what it claims without pulls: the difference of two records must add up as well."""
    (record,) = records([8], UNIT, 1)
    line = Line()
    assert line.take((10, (0, *record))) == [10]
    one_more = WEIGHTING.samples(1)
    assert line.take((40, (0, 9, 2, record.samples + one_more + 20, record.total))) == []
    assert line.take((41, (0, 9, 2, record.samples + one_more, record.total))) == [41]

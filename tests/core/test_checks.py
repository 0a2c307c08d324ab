"""Checks: what an honest origin can have sent, reason by reason."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import released, sample, samples, totals

from agentd.core.bodies import RELEASED, SAMPLE, TOTALS, Kind
from agentd.core.bodies.release_limits import LONGEST, MAX_GAP, limits_of
from agentd.core.checks import Checks
from agentd.core.grid import UNIT
from agentd.core.message import MAX_AGENT_ID, MAX_INCARNATION, MAX_LIFETIME, MAX_TRIAL, Batch, Message, batch_of
from agentd.core.policy.private_ucb import extrapolated
from agentd.core.privacy.series import ReleaseSeries, scale_steps
from agentd.core.terms import PolicyTerms, Terms

MOST = (1 << 63) - 1
LEAST = -(1 << 63)
TRIAL = 1000


def accepted(batch: Batch, arms: int = 2, latest_trial: int = MAX_TRIAL) -> tuple[int, dict[str, int]]:
    """How many rows pass, and what became of the rest."""
    checks = Checks(Terms(arms, None))
    passed = checks.judge(batch, latest_trial)
    return len(passed), dict(checks.dropped)


GOOD_HEADS = [
    {},
    {"origin": 0},
    {"origin": MAX_AGENT_ID},
    {"trial": 1},
    {"trial": MAX_TRIAL},
    {"life": 1, "lifetime": MAX_LIFETIME},
    {"life": MAX_LIFETIME, "lifetime": MAX_LIFETIME},
    {"incarnation": MAX_TRIAL - 1, "trial": MAX_TRIAL},
]
BAD_HEADS = [
    {"origin": -1},
    {"origin": MAX_AGENT_ID + 1},
    {"trial": 0},
    {"trial": MAX_TRIAL + 1},
    {"life": 0},
    {"life": -1},
    {"life": 3, "lifetime": 2},
    {"life": MAX_LIFETIME + 1, "lifetime": MAX_LIFETIME + 1},
    {"incarnation": -1},
    {"incarnation": MAX_INCARNATION + 1},
    {"origin": LEAST},
    {"trial": MOST},
    {"life": LEAST, "lifetime": MOST},
]


def with_head(**head: int) -> Batch:
    return samples(sample(**{"origin": 1, "trial": 1, "life": 1, "lifetime": 2, **head}))


@pytest.mark.parametrize("head", GOOD_HEADS, ids=str)
def test_a_head_within_its_ranges_passes(head: dict[str, int]) -> None:
    assert accepted(with_head(**head)) == (1, {})


@pytest.mark.parametrize("head", BAD_HEADS, ids=str)
def test_a_head_outside_its_ranges_is_dropped(head: dict[str, int]) -> None:
    assert accepted(with_head(**head)) == (0, {"head": 1})


def test_a_trial_that_has_not_happened_yet_is_dropped() -> None:
    assert accepted(samples(sample(1, 7), sample(1, 8)), latest_trial=7) == (1, {"future": 1})


@pytest.mark.parametrize("kind", [RELEASED, TOTALS])
def test_a_body_for_another_number_of_arms_is_dropped(kind: Kind) -> None:
    width = 3 if kind is RELEASED else 2
    batch = batch_of(kind, [Message(1, 1, 1, (0,) * width), Message(2, 1, 1, (0,) * width)])
    assert accepted(batch) == (0, {"shape": 2})


def test_a_sample_wider_than_a_sample_is_dropped() -> None:
    assert accepted(batch_of(SAMPLE, [Message(1, 1, 1, (0, 0, 0))])) == (0, {"shape": 1})


@pytest.mark.parametrize("body", [(0, 0), (1, UNIT)])
def test_samples_on_the_grid_of_known_arms_pass(body: tuple[int, int]) -> None:
    assert accepted(samples(Message(1, 1, 1, body))) == (1, {})


@pytest.mark.parametrize("body", [(-1, 0), (2, 0), (0, -1), (0, UNIT + 1), (MOST, 0), (0, LEAST)])
def test_other_samples_are_dropped(body: tuple[int, int]) -> None:
    assert accepted(samples(Message(1, 1, 1, body))) == (0, {"body": 1})


@pytest.mark.parametrize("body", [(0, 0, 0, 0), (3, 0, 4, 4 * UNIT), (TRIAL, TRIAL * UNIT, 0, 0), (1, 1, TRIAL - 1, 0)])
def test_totals_that_the_trials_can_have_brought_pass(body: tuple[int, ...]) -> None:
    assert accepted(totals(Message(1, TRIAL, 1, body))) == (1, {})


@pytest.mark.parametrize(
    "body",
    [
        (0, 1, 0, 0),
        (1, UNIT + 1, 0, 0),
        (1, -1, 0, 0),
        (-1, 0, 0, 0),
        (TRIAL, 0, 1, 0),
        (MOST, MOST, 0, 0),
        (LEAST, LEAST, 0, 0),
        (MOST, 0, MOST, 0),
        (1 << 44, 1 << 62, 0, 0),
    ],
    ids=str,
)
def test_other_totals_are_dropped(body: tuple[int, ...]) -> None:
    assert accepted(totals(Message(1, TRIAL, 1, body))) == (0, {"body": 1})


SLACK = -int(limits_of(None, None, 2).low[16])
"""Where nobody knows v, a release after 16 pulls has noise of scale 16^(3/4) = 8 at most."""


@pytest.mark.parametrize(
    "body",
    [
        (0, 0, 0, 0, 0, 0),
        (16, 16, -SLACK, 0, 0, 0),
        (16, 16, 16 * UNIT + SLACK, 0, 0, 0),
        (16 * MAX_GAP, 16, 0, 0, 0, 0),
        (500, 500, 0, 500, 400, 0),
    ],
    ids=str,
)
def test_releases_that_pulls_and_noise_can_have_brought_pass(body: tuple[int, ...]) -> None:
    assert accepted(released(Message(1, TRIAL, 1, body))) == (1, {})


@pytest.mark.parametrize(
    "body",
    [
        (0, 0, 1, 0, 0, 0),
        (0, 0, -1, 0, 0, 0),
        (16, 16, -SLACK - 1, 0, 0, 0),
        (16, 16, 16 * UNIT + SLACK + 1, 0, 0, 0),
        (16 * MAX_GAP + 1, 16, 0, 0, 0, 0),
        (1, 0, 0, 0, 0, 0),
        (15, 16, 0, 0, 0, 0),
        (-1, -1, 0, 0, 0, 0),
        (501, 501, 0, 500, 400, 0),
        (MOST, MOST, MOST, MOST, MOST, MOST),
        (LEAST, LEAST, LEAST, LEAST, LEAST, LEAST),
        (1 << 62, 1 << 62, 0, 1 << 62, 1 << 62, 0),
        (4, 1 << 62, 0, 0, 0, 0),
    ],
    ids=str,
)
def test_other_releases_are_dropped(body: tuple[int, ...]) -> None:
    assert accepted(released(Message(1, TRIAL, 1, body))) == (0, {"body": 1})


@pytest.mark.parametrize(("epsilon", "v"), [(1e-3, 1.499), (0.02, 1.1), (0.3, 1.01), (0.7, 1.499), (1.0, 1.3)])
def test_the_counts_of_an_honest_release_series_pass(epsilon: float, v: float) -> None:
    """Just before each release the newest one is as old as it gets."""
    for terms in (Terms(1, 1), Terms(1, 1).assuming(epsilon, v)):
        for before, after in itertools.pairwise(ReleaseSeries(epsilon, v).thresholds(4200)):
            noised = before * UNIT + 20 * scale_steps(before, v)
            assert believed(terms, after - 1, before, noised), (before, after)


def believed(terms: Terms, *body: int) -> bool:
    return len(Checks(terms).judge(released(Message(1, MAX_TRIAL, 1, body)))) == 1


def test_a_release_comes_when_the_series_has_one_and_not_later() -> None:
    """At ε = 0.3 and v = 1.1 releases come after 3, 6, 10, 14, 18 pulls, and so on."""
    terms = Terms(1, 1).assuming(0.3, 1.1)
    thresholds = ReleaseSeries(0.3, 1.1).thresholds(5000)
    for pulls in range(1, thresholds[-1]):
        assert believed(terms, pulls, pulls, 0) is (pulls in thresholds), pulls
    for before, after in itertools.pairwise(thresholds):
        assert not believed(terms, after, before, 0)
    assert not believed(terms, 0, 0, 1)


def test_at_epsilon_1_every_pull_is_released() -> None:
    terms = Terms(1, 1).assuming(1.0, 1.3)
    assert believed(terms, 700, 700, 0)
    assert not believed(terms, 700, 699, 0)


@pytest.mark.parametrize("v", [1.01, 1.1, 1.3, 1.49])
@pytest.mark.parametrize("pulls", [1, 10, 1000, LONGEST - 1, LONGEST, 1 << 25])
def test_noise_reaches_as_far_as_its_scale_says(v: float, pulls: int) -> None:
    """ln(2·10⁹) scales for two arms, at most a few steps more; far beyond the tables, too."""
    terms = Terms(2, 1).assuming(1.0, v)
    reach = int(math.log(2e9) * scale_steps(pulls, v))
    more = reach // 10**9 + 100
    for noised, fine in ((-reach, True), (-reach - more, False), (pulls * UNIT + reach, True)):
        assert believed(terms, pulls, pulls, noised, 0, 0, 0) is fine
    assert not believed(terms, pulls, pulls, pulls * UNIT + reach + more, 0, 0, 0)


def test_beyond_the_tables_no_two_releases_are_further_apart_than_the_series_allows() -> None:
    terms = Terms(1, 1).assuming(0.25, 1.1)
    assert believed(terms, LONGEST + 4, LONGEST, 0)
    assert not believed(terms, LONGEST + 5, LONGEST, 0)


@pytest.mark.parametrize(
    ("pulls", "epsilon", "v", "before", "after"),
    [
        (10, 1.0, 1.1, 37.0, 9.0),
        (300, 1.0, 1.1, 16.4, 2.8),
        (1500, 1.0, 1.1, 11.3, 1.9),
        (1500, 1.0, 1.01, 11.3, 1.6),
        (1500, 1.0, 1.49, 11.3, 4.5),
    ],
)
def test_the_largest_mean_that_a_release_can_claim(
    pulls: int, epsilon: float, v: float, before: float, after: float
) -> None:
    """Of five arms; 49aef1d took 64 scales of pulls^(3/4) for noise, whatever v was."""
    terms = Terms(5, 1).assuming(epsilon, v)
    assert 1 + 64 * pulls**-0.25 == pytest.approx(before, abs=0.1)
    assert believed(terms, pulls, pulls, int((after - 0.1) * pulls * UNIT), *(0,) * 12)
    assert not believed(terms, pulls, pulls, int((after + 0.1) * pulls * UNIT), *(0,) * 12)


@pytest.mark.parametrize(("epsilon", "v"), [(0.02, 1.1), (0.3, 1.49), (1.0, 1.01)])
def test_what_an_origin_counts_for_is_bounded_by_its_pulls(epsilon: float, v: float) -> None:
    """Also where the sum is scaled up to the pulls since the release: less than 3.7 times."""
    terms, limits = Terms(1, 1).assuming(epsilon, v), limits_of(epsilon, v, 1)
    limits.cover(3000)
    for before, after in itertools.pairwise(ReleaseSeries(epsilon, v).thresholds(3000)):
        most = before * UNIT - int(limits.low[before])
        assert believed(terms, after - 1, before, most)
        assert not believed(terms, after - 1, before, most + 1)
        counted = extrapolated(*(np.array([number]) for number in (after - 1, before, most)))
        assert after - 1 < 3.7 * before
        assert counted[0] <= (after - 1) * UNIT * (1 + 21 * before ** (v / 2 - 1))
    assert accepted(released(Message(1, after - 2, 1, (after - 1, before, 0))), arms=1) == (0, {"body": 1})


def test_everybody_is_judged_by_the_noise_of_its_own_policy() -> None:
    """Agent 1 releases every pull with little noise, 2 every fourth with much; 3 publishes bodies of another kind."""
    policies = (
        PolicyTerms("private-ucb", 1, 1.0, 1.01, ((1, 1),)),
        PolicyTerms("private-ucb", 1, 0.25, 1.49, ((2, 2),)),
        PolicyTerms("coop-ucb", 2, None, None, ((3, 3),)),
    )
    checks = Checks(Terms(1, 1, policies=policies))
    n = ReleaseSeries(0.25, 1.49).thresholds(100)[-1]
    much = int(15 * n**0.745 * UNIT)
    told = [(n, n, 0), (n + 1, n, 0), (n, n, -much)]
    batch = released(*(Message(origin, TRIAL, 1, body, 1) for origin in (1, 2) for body in told))
    assert checks.judge_bodies(batch).body.tolist() == [[n, n, 0], [n, n, 0], [n + 1, n, 0], [n, n, -much]]
    assert not len(checks.judge_bodies(released(Message(3, TRIAL, 1, told[0], 1), Message(4, TRIAL, 1, told[0], 1))))


def test_one_bad_row_takes_no_good_row_with_it() -> None:
    batch = samples(sample(1, 1), sample(1, 2, life=0), sample(2, 9), sample(3, 1, arm=7), sample(4, 1))
    checks = Checks(Terms(2, 1))
    assert checks.judge(batch, latest_trial=8).origin.tolist() == [1, 4]
    assert checks.dropped == {"head": 1, "future": 1, "body": 1}


def test_an_empty_batch_passes() -> None:
    assert accepted(batch_of(SAMPLE, [sample(1, 1)]).rows(np.zeros(1, dtype=np.bool_))) == (0, {})


class Line:
    """One origin's messages, held against each other."""

    def __init__(self, kind: Kind, arms: int = 1) -> None:
        self.kind = kind
        self.checks = Checks(Terms(arms, 1))
        self.newest: list[int] = []
        """The trials of what the policy would be given."""

    def continues(self, *told: tuple[int, tuple[int, ...]], incarnation: int = 0, row: int = 0) -> list[bool]:
        """Which of these (trial, body), told in one batch, are accepted."""
        batch = batch_of(self.kind, [Message(1, trial, 1, body, 1, incarnation) for trial, body in told])
        news, honest = self.checks.continues(batch, np.full(len(batch), row, dtype=np.int64))
        assert len(news.rows) == len(news.batch)
        self.newest = news.batch.trial.tolist()
        return [trial in honest.trial.tolist() for trial, _ in told]


@pytest.mark.parametrize(
    ("before", "after", "fine"),
    [
        ((3, 5), (3, 5), True),
        ((3, 5), (4, 5), True),
        ((3, 5), (4, 5 + UNIT), True),
        ((3, 5), (4, 6 + UNIT), False),
        ((3, 5), (4, 4), False),
        ((3, 5), (2, 5), False),
        ((3, 5), (3, 6), False),
    ],
    ids=str,
)
def test_totals_only_grow_and_by_no_more_than_the_pulls_pay(
    before: tuple[int, int], after: tuple[int, int], fine: bool
) -> None:
    line = Line(TOTALS)
    assert line.continues((10, before)) == [True]
    assert line.continues((11, after)) == [fine]
    assert line.checks.dropped == ({} if fine else {"history": 1})


@pytest.mark.parametrize(
    ("before", "after", "fine"),
    [
        ((9, 7, 50), (9, 7, 50), True),
        ((9, 7, 50), (10, 7, 50), True),
        ((9, 7, 50), (10, 10, -3), True),
        ((9, 7, 50), (10, 7, 51), False),
        ((9, 7, 50), (8, 7, 50), False),
        ((9, 7, 50), (9, 6, 50), False),
        ((0, 0, 0), (7, 7, 1), True),
        ((7, 7, 1), (0, 0, 0), False),
    ],
    ids=str,
)
def test_pulls_only_grow_and_a_release_keeps_its_value_until_it_is_renewed(
    before: tuple[int, ...], after: tuple[int, ...], fine: bool
) -> None:
    line = Line(RELEASED)
    assert line.continues((10, before)) == [True]
    assert line.continues((11, after)) == [fine]


def test_what_was_refused_is_not_what_later_ones_are_held_against() -> None:
    line = Line(TOTALS)
    line.continues((10, (3, 5)))
    assert line.continues((11, (1, 0))) == [False]
    assert line.continues((12, (2, 0))) == [False]
    assert line.continues((13, (3, 5))) == [True]


def test_late_messages_are_held_against_nothing_and_change_nothing() -> None:
    line = Line(TOTALS)
    line.continues((10, (3, 5)))
    assert line.continues((9, (9, 9))) == [True]
    assert line.newest == []
    assert line.continues((11, (3, 5))) == [True]


def test_of_several_new_messages_the_newest_is_remembered() -> None:
    line = Line(TOTALS)
    assert line.continues((12, (6, 0)), (11, (5, 0)), (10, (4, 0))) == [True, True, True]
    assert line.newest == [12]
    assert line.continues((13, (5, 0))) == [False]
    assert line.continues((14, (6, 0))) == [True]


def test_a_new_incarnation_owes_nothing_to_the_old_one() -> None:
    line = Line(TOTALS)
    line.continues((10, (9, 0)))
    line.checks.forget(np.array([0, 77]))
    assert line.continues((4, (1, 0)), incarnation=1) == [True]
    assert line.continues((5, (0, 0)), incarnation=1) == [False]
    assert line.continues((6, (2, 0)), incarnation=1) == [True]


def test_origins_are_held_apart_and_the_memory_grows_with_them() -> None:
    line = Line(TOTALS)
    for row in (0, 3, 40):
        assert line.continues((10, (3 + row, 0)), row=row) == [True]
    for row in (0, 3, 40):
        assert line.continues((11, (2 + row, 0)), row=row) == [False]
        assert line.continues((12, (3 + row, 0)), row=row) == [True]


def test_samples_have_no_history() -> None:
    line = Line(SAMPLE, arms=2)
    assert line.continues((10, (1, 0))) == [True]
    assert line.continues((11, (0, 0))) == [True]


def test_no_new_message_means_nothing_to_hold_against() -> None:
    assert Line(TOTALS).continues() == []


near = st.sampled_from([-1, 0, 1, 2, 3, 4, 5, 9, MAX_TRIAL - 1, MAX_TRIAL, MAX_TRIAL + 1, MOST, LEAST])
sums = st.sampled_from([LEAST, -22 * UNIT, -21 * UNIT, -1, 0, 1, 5, UNIT, 22 * UNIT, 23 * UNIT, 300 * UNIT, MOST])


terms_of_two_arms = st.sampled_from(
    [
        Terms(2, 1),
        Terms(2, 1).assuming(1.0, 1.1),
        Terms(2, 1).assuming(0.3, 1.4),
        Terms(
            2,
            1,
            policies=(
                PolicyTerms("private-ucb", 1, 1.0, 1.1, ((0, 0),)),
                PolicyTerms("", None, 0.4, 1.2, ((1, 3),)),
            ),
        ),
    ]
)


@given(
    terms_of_two_arms,
    st.sampled_from([RELEASED, TOTALS]),
    st.lists(st.tuples(st.lists(st.tuples(near, near, sums), min_size=2, max_size=2), near), min_size=1, max_size=3),
    st.integers(0, 3),
)
@settings(deadline=None, max_examples=600)
def test_what_is_fine_at_a_glance_is_what_passes_step_by_step(
    terms: Terms, kind: Kind, told: list[tuple[list[tuple[int, int, int]], int]], rounds_before: int
) -> None:
    """Some origins tell bodies near the limits; a glance must see all that judging and holding against them sees."""
    quick, slow = Checks(terms), Checks(terms)
    width = 3 if kind is RELEASED else 2
    told = [([(1, 1, 0), (1, 1, 0)], 4)] * rounds_before + told
    rows = np.array([0], dtype=np.int64)
    for place, (cells, trial) in enumerate(told):
        body = tuple(number for cell in cells for number in cell[:width])
        batch = batch_of(kind, [Message(1, max(1, min(trial, MAX_TRIAL)) + place, 1, body, 1)])
        fine = quick.accepts_all(batch, rows)
        judged = slow.judge_bodies(batch)
        news, honest = slow.continues(judged, rows[: len(judged)])
        assert fine == (len(news.batch) == len(batch) == len(honest))
        if not fine:
            break
        assert quick.continues(batch, rows).news.grown_by.tolist() == news.grown_by.tolist()

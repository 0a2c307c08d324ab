"""Who was away, as others see it, and what they do about it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small_runs import news, observe

from agentd.core.bodies import SEALED
from agentd.core.grid import UNIT
from agentd.core.message import Message, batch_of
from agentd.core.policy import PolicySettings
from agentd.core.policy.coins import KeyedCoins
from agentd.core.policy.remembered.returns import Returns
from agentd.core.policy.sealed import Sealed

REFRESH = 100


def noticed(some: Returns, *said: tuple[int, int], now: int = 0, row: int = 3) -> list[bool]:
    """Of each (trial, pulls) that an origin says, whether it shows that the origin is back."""
    return [
        some.noticed(batch_of(SEALED, [Message(row, trial, 1, (0, pulls, 1, 1, 1))]), np.array([row]), now)
        for trial, pulls in said
    ]


SAID = st.tuples(st.integers(1, 30), st.integers(0, 3))
"""How much later than before, and how many pulls."""


@given(st.lists(st.tuples(st.lists(SAID, min_size=60, max_size=60), st.integers(0, 30)), min_size=1, max_size=6))
def test_many_origins_are_seen_to_be_back_as_each_of_them_is(rounds: list[tuple[list[tuple[int, int]], int]]) -> None:
    together, singly = Returns(10), Returns(10)
    rows = np.arange(60)[::-1]
    trial, now = np.zeros(60, dtype=np.int64), 0
    for said, passed in rounds:
        now += passed
        trial += np.array([later - 10 for later, _ in said])
        np.maximum(trial, 1, out=trial)
        batch = batch_of(
            SEALED,
            [
                Message(row, at, 1, (0, pulls, 1, 1, 1))
                for row, at, (_, pulls) in zip(rows, trial.tolist(), said, strict=True)
            ],
        )
        seen = [singly.noticed(batch.rows(np.array([n])), rows[[n]], now) for n in range(60)]
        assert together.noticed(batch, rows, now) == any(seen)
        for one, other in zip(vars(together).values(), vars(singly).values(), strict=True):
            assert np.array_equal(np.atleast_1d(one)[:60], np.atleast_1d(other)[:60])


def test_who_goes_on_as_usual_was_not_away() -> None:
    assert noticed(Returns(REFRESH), (1, 0), (101, 0), (130, 8), (230, 8), (355, 8), (340, 8)) == [False] * 6


def test_a_hello_of_an_origin_that_has_said_more_before_shows_that_it_is_back() -> None:
    assert noticed(Returns(REFRESH), (1, 0), (40, 8), (55, 0)) == [False, False, True]


def test_so_does_a_hello_in_a_later_trial_of_an_origin_never_heard() -> None:
    assert noticed(Returns(REFRESH), (55, 0)) == [True]


def test_a_late_hello_shows_nothing() -> None:
    assert noticed(Returns(REFRESH), (40, 8), (1, 0)) == [False, False]


def test_whoever_is_heard_after_too_long_a_silence_was_away() -> None:
    assert noticed(Returns(REFRESH), (40, 8), (166, 8)) == [False, True]


def test_a_record_of_an_origin_never_heard_shows_nothing() -> None:
    """It is we who have just come back."""
    assert noticed(Returns(REFRESH), (540, 8)) == [False]


def test_an_origin_that_says_hello_all_the_time_is_noticed_once_within_a_refresh() -> None:
    some = Returns(REFRESH)
    noticed(some, (40, 8))
    found = [noticed(some, (trial, 0), now=trial)[0] for trial in range(41, 341)]
    assert [place for place, back in enumerate(found) if back] == [0, 100, 200]
    assert noticed(some, (341, 0), now=341, row=4) == [True]


def played(arms: int = 2) -> Sealed:
    """An agent that has released something of every arm, and always pulled the first one since."""
    policy = fresh(arms)
    for trial in range(1, 20 * arms + 1):
        observe(policy, trial, (trial - 1) // 20, UNIT, UNIT)
    for trial in range(20 * arms + 1, 20 * arms + 60):
        observe(policy, trial, 0, UNIT, UNIT)
    assert all(record.pulls for record in policy._own)
    return policy


def fresh(arms: int = 2) -> Sealed:
    return Sealed(PolicySettings(arms=arms), 1, KeyedCoins(1, 1))


def said_by(policy: Sealed, trials: range) -> list[tuple[int, ...] | None]:
    found: list[tuple[int, ...] | None] = []
    for trial in trials:
        observe(policy, trial, policy.choose(trial), UNIT, UNIT)
        body = policy.body()
        found.append(None if body is None else tuple(body[1][:2]))
    return found


def hello(policy: Sealed, origin: int, trial: int) -> None:
    policy.learn(news(batch_of(SEALED, [Message(origin, trial, 1, (0, 0, 0, 0, 0))]), origin))


def test_who_hears_that_somebody_is_back_tells_all_it_has_released_one_record_in_a_round() -> None:
    policy = played()
    much = 1000 * UNIT  # known already, so that no batch closes for long
    policy.learn(news(batch_of(SEALED, [Message(5, 80, 1, (arm, 1001, 1, much, much)) for arm in (0, 1)]), 5, 5))
    said_by(policy, range(100, 103))
    hello(policy, 0, 90)
    told = said_by(policy, range(103, 107))
    assert told == [(1, policy._own[1].pulls), (0, policy._own[0].pulls), None, None]


def test_whoever_comes_back_says_hello_first_and_then_all_it_has_released() -> None:
    before, policy = played(), fresh()
    policy.restore(before.snapshot())
    pulls = [record.pulls for record in policy._own]
    assert said_by(policy, range(100, 105)) == [(0, 0), (1, pulls[1]), (0, pulls[0]), None, None]


def test_whoever_comes_back_pulls_its_usual_arm_until_others_have_told_of_all_arms() -> None:
    before = fresh(3)
    for trial in range(1, 41):
        observe(before, trial, 2, 0, 0)
    policy = fresh(3)
    policy.restore(before.snapshot())
    assert [policy.choose(trial) for trial in (41, 42)] == [2, 2]
    worth = 90 * UNIT
    for arm in (0, 1):
        told = [Message(4, 40 + arm, 1, (arm, 100, 1, worth, arm * worth))]
        policy.learn(news(batch_of(SEALED, told), 4))
    assert policy.choose(43) == 1


def test_where_nobody_tells_the_unknown_arms_are_tried_after_a_refresh() -> None:
    before = fresh(3)
    for trial in range(1, 41):
        observe(before, trial, 2, 0, 0)
    policy = fresh(3)
    policy.restore(before.snapshot())
    assert {policy.choose(trial) for trial in range(41, 141)} == {2}
    assert policy.choose(141) == 1


def test_an_agent_that_had_released_nothing_begins_like_a_new_one() -> None:
    policy = fresh()
    policy.restore(fresh().snapshot())
    assert policy.choose(1) == fresh().choose(1)
    assert said_by(policy, range(1, 4)) == [(0, 0), None, None]

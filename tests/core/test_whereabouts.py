"""Where to go next: to where most of those that are heard are, and never to where only one claims to be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentd.core.rounds.neighbour import SLACK
from agentd.core.rounds.whereabouts import Whereabouts, lower_median

ROUNDS = st.integers(0, 1 << 30)


def whereabouts(run_round: int = 0, horizon: int = 0) -> Whereabouts:
    where = Whereabouts()
    where.told(run_round)
    where.horizon = horizon
    return where


def test_in_step_the_next_round_is_the_next_one() -> None:
    assert whereabouts().next_round(7, [7, 7, 6]) == 8
    assert whereabouts(run_round=7).next_round(7, [8, 8, 8]) == 8


def test_who_is_behind_goes_to_where_most_of_those_that_it_hears_are() -> None:
    assert whereabouts().next_round(7, [30, 31, 31]) == 31
    assert whereabouts().next_round(7, [30, 31]) == 30
    assert whereabouts().next_round(7, [30, 3, 4]) == 8


def test_who_hears_one_alone_ahead_goes_as_far_as_the_environment_confirms() -> None:
    """Groups a few rounds apart would stay so for ever: in each of them most neighbours are where oneself is."""
    assert whereabouts(run_round=47).next_round(7, [47, 7, 7]) == 47
    assert whereabouts(run_round=40).next_round(7, [47, 7, 7]) == 40
    assert whereabouts(run_round=47).next_round(7, [20, 7, 7]) == 20
    assert whereabouts(run_round=7).next_round(7, [47, 7, 7]) == 8


def test_its_word_is_a_little_old_where_rounds_are_fast() -> None:
    where = whereabouts(run_round=40)
    where.leeway = 5
    assert [where.next_round(7, [furthest, 7, 7]) for furthest in (43, 47)] == [43, 45]
    nothing_told = whereabouts()
    nothing_told.leeway = 5
    assert nothing_told.next_round(0, [5, 0, 0]) == 1


def test_the_environment_is_asked_where_somebody_seems_ahead_of_its_word() -> None:
    for run_round, furthest, asks in ((7, 47, True), (47, 47, False), (0, 8, False), (8, 9, True)):
        where = whereabouts(run_round=run_round)
        where.next_round(7, [furthest, 7, 7])
        assert where.ask is asks, (run_round, furthest)


def test_who_hears_nobody_goes_to_where_the_environment_says_the_run_is() -> None:
    assert whereabouts(run_round=50).next_round(7, []) == 50
    assert whereabouts(run_round=50).next_round(60, []) == 61


def test_who_is_far_behind_believes_the_environment_whatever_its_neighbours_say() -> None:
    assert whereabouts(run_round=7 + SLACK).next_round(7, [7, 7]) == 8
    assert whereabouts(run_round=8 + SLACK).next_round(7, [7, 7]) == 8 + SLACK


def test_nobody_is_believed_to_be_far_beyond_what_is_known() -> None:
    assert whereabouts().bound(7) == 7 + SLACK
    assert whereabouts(run_round=500).bound(7) == 500 + SLACK
    assert whereabouts(run_round=500, horizon=450).bound(7) == 450 + SLACK
    assert whereabouts().next_round(7, [1 << 29] * 9) == 7 + SLACK


def test_beyond_the_horizon_rounds_are_counted_one_by_one() -> None:
    assert whereabouts(horizon=100).next_round(90, [130, 130]) == 100
    assert whereabouts(horizon=100).next_round(100, [130, 130]) == 101


def test_nobody_runs_away_from_the_run_before_the_horizon() -> None:
    assert not whereabouts().runs_away(1 << 20, SLACK)
    assert not whereabouts(run_round=10).runs_away(9 + SLACK, SLACK)
    assert whereabouts(run_round=10).runs_away(10 + SLACK, SLACK)
    assert not whereabouts(run_round=10, horizon=50).runs_away(10 + SLACK, SLACK)


def test_the_environments_word_never_goes_back_and_news_are_counted() -> None:
    where = whereabouts(run_round=10)
    where.told(5)
    where.told(10)
    assert (where.run_round, where.news) == (10, 1)


@given(ROUNDS, ROUNDS, st.lists(ROUNDS, max_size=9), st.integers(0, 1 << 30))
def test_the_next_round_is_a_later_one_and_within_the_bound(
    own: int, run_round: int, heard: list[int], horizon: int
) -> None:
    where = whereabouts(run_round, horizon)
    next_round = where.next_round(own, heard)
    assert own < next_round <= max(own + 1, where.bound(own))
    assert not horizon or next_round <= max(own + 1, horizon)


@given(st.integers(1, 1000), st.lists(st.integers(-1, 1), min_size=2, max_size=9), ROUNDS)
def test_one_liar_moves_nobody_who_hears_two_others(own: int, others: list[int], claim: int) -> None:
    heard = [own + offset for offset in others]
    assert whereabouts(run_round=own).next_round(own, [*heard, claim]) == own + 1


@given(st.lists(ROUNDS, min_size=1))
def test_at_most_half_are_below_the_lower_median_and_half_are_not_above(values: list[int]) -> None:
    median = lower_median(values)
    assert 2 * sum(value < median for value in values) < len(values)
    assert 2 * sum(value <= median for value in values) >= len(values)

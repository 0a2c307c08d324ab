"""One neighbour can slow rounds to half their pace in the long run, however it spreads its delays, and no further."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import cycle, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.rounds import Do, Rounds, Standing
from agentd.core.rounds.lateness import LOOKS_AFTER_DELAY, REFILL, Lateness
from agentd.core.trust.blame import Why
from agentd.wire.frame import Frame

TIMEOUT_S = 5.0
SLICE_S = 0.2
WORK_S, LATENCY_S = 0.003, 0.002
NATURAL_S = WORK_S + LATENCY_S


class Waiting:
    """An agent with honest neighbours 2 and 3, which are always in time, and with 1, which does what a test says.

    Time passes as on a link: who does not look blocks for a slice, and sees only then who came.
    """

    def __init__(self) -> None:
        self.rounds: Rounds[Frame] = Rounds((1, 2, 3), now_s=0.0)
        self.now_s = 0.0
        self.down = 0
        """In how many rounds nobody waited for 1."""
        self.named: list[tuple[int, Why]] = []
        for neighbour in self.rounds.everybody:
            neighbour.standing = Standing.LIVE

    def play(self, delays_s: Iterable[float]) -> float:
        """One round for each delay of 1; how long it took."""
        began_s = self.now_s
        for delay_s in delays_s:
            self._round(self.rounds.next_round, delay_s)
        return self.now_s - began_s

    def _round(self, round_: int, delay_s: float) -> None:
        rounds = self.rounds
        self.now_s += WORK_S
        rounds.enter(round_)
        if not rounds.wait(self.now_s, TIMEOUT_S):
            if rounds[1].standing is Standing.DOWN:
                self.down += 1
                self._hear(1, round_ - 1)  # from then on it is in time again
                rounds.returned(rounds[1], self.now_s)
            rounds.settle(self.now_s)
        began_s, due_s = self.now_s, self.now_s + LATENCY_S
        self._hear(2, round_)
        self._hear(3, round_)
        if rounds[1].standing is not Standing.DOWN:
            arrives_s = began_s + max(delay_s, LATENCY_S)
            due_s = arrives_s if rounds.looks else min(arrives_s, began_s + SLICE_S)
            self._wait_for_one(round_, arrives_s, due_s)
        self.now_s = max(self.now_s, due_s if rounds[1].standing is not Standing.DOWN else began_s + LATENCY_S)
        rounds.tick(self.now_s)
        rounds.take(self.now_s)
        self._carry_out()

    def _wait_for_one(self, round_: int, arrives_s: float, due_s: float) -> None:
        rounds = self.rounds
        if not rounds.looks:
            self.now_s = due_s
            if arrives_s <= due_s:
                self._hear(1, round_)
                return
            rounds.look_closely(self.now_s)
        else:
            self.now_s += LATENCY_S
        rounds.tick(self.now_s)
        while rounds.waiting:
            if arrives_s <= rounds.next_s:
                self.now_s = max(self.now_s, arrives_s)
                self._hear(1, round_)
            else:
                self.now_s = rounds.next_s
            rounds.tick(self.now_s)

    def _hear(self, number: int, round_: int) -> None:
        neighbour = self.rounds[number]
        self.rounds.hear(neighbour, Frame(bytes(8), number, 0, neighbour.sequence + 1, round_, 0, (), 2), 100)

    def _carry_out(self) -> None:
        if any(order.do is Do.ACCUSE for order in self.rounds.take_orders()):
            self.named += [(one.neighbour, one.why) for one in self.rounds.take_accusations()]


def pace_under(delays_s: Iterable[float], rounds: int = 3000) -> float:
    """Rounds per second as a share of those without delays, after the first budget is spent."""
    waiting = Waiting()
    waiting.play([0.0] * 100)
    once_s = 1.5 * TIMEOUT_S + 2 * SLICE_S
    took_s = waiting.play(islice(cycle(delays_s), rounds)) - once_s
    return rounds * NATURAL_S / max(took_s, rounds * NATURAL_S)


def test_without_delays_nothing_is_charged_and_hardly_a_round_is_looked_at() -> None:
    waiting, looks = Waiting(), 0
    for _ in range(1000):
        waiting.play([0.0])
        looks += waiting.rounds.looks
    assert (waiting.down, waiting.named) == (0, [])
    assert looks < 40
    assert waiting.rounds._lateness.natural_s == pytest.approx(NATURAL_S, rel=0.01)


@pytest.mark.parametrize(
    "delays_s",
    [
        pytest.param([0.9 * TIMEOUT_S], id="drip"),
        pytest.param([0.9 * SLICE_S], id="below a slice"),
        pytest.param([2 * NATURAL_S], id="one natural round and a half too late"),
        pytest.param([*[0.0] * 3, 0.9 * TIMEOUT_S], id="every fourth round"),
        pytest.param([*[0.0] * 9, 0.9 * SLICE_S], id="every tenth, below a slice"),
        pytest.param([*[0.0] * LOOKS_AFTER_DELAY, 0.9 * SLICE_S], id="as soon as nobody looks"),
        pytest.param([*[0.0] * 300, 4.0], id="now and then, for long"),
        pytest.param([NATURAL_S * k / 4 for k in range(40)], id="ramp"),
    ],
)
def test_however_a_neighbour_spreads_its_delays_rounds_keep_about_half_their_pace(delays_s: list[float]) -> None:
    """A little less while the first budget lasts: what is free comes on top of it."""
    assert pace_under(delays_s) >= 0.48


@settings(max_examples=15, deadline=None)  # each twice as long as what is spent once
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.004, 0.007, 0.01, 0.02, 0.1, 0.19, 0.5, 4.5]), st.integers(1, 150)),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_it_does_rounds_keep_nearly_half_their_pace(spells: list[tuple[float, int]]) -> None:
    delays_s = [delay_s for delay_s, times in spells for _ in range(times)]
    assert pace_under(delays_s, 4000) >= 0.45  # half, but for what timely rounds give back: 1 / 2.2


def test_who_drips_is_named_once_and_who_was_late_once_is_not() -> None:
    waiting = Waiting()
    waiting.play([0.0] * 50 + [2.0] + [0.0] * 500)
    assert (waiting.named, waiting.down) == ([], 0)
    waiting.play([4.5] * 10_000)
    assert waiting.named == [(1, Why.SLOW)]
    (blame,) = waiting.rounds.blames
    assert (blame.neighbour, blame.why) == (1, Why.SLOW)


def test_an_honest_neighbour_that_is_held_up_for_a_whole_timeout_and_half_is_not_given_up_as_slow() -> None:
    waiting = Waiting()
    waiting.play([0.0] * 50)
    rounds = waiting.rounds
    rounds.enter(rounds.next_round)
    rounds.wait(waiting.now_s, TIMEOUT_S)
    rounds._lateness.look_closely()
    for number in (2, 3):
        waiting._hear(number, rounds.round)
    rounds._held_up.add(rounds[1])
    for share in (0.0, 0.5, 1.0, 1.4):
        assert rounds.tick(waiting.now_s + share * TIMEOUT_S) == [rounds[1]], share
    assert rounds.tick(waiting.now_s + 1.51 * TIMEOUT_S) == []


def test_time_in_which_we_did_not_run_is_nobodys_lateness() -> None:
    lateness = Lateness()
    for round_ in range(20):
        lateness.begin(0.01 * round_, TIMEOUT_S)
        lateness.end({1: lateness.began_s + 0.005}, lateness.began_s + 0.005, lateness.began_s + 0.005)
    lateness.begin(1.0, TIMEOUT_S)
    lateness.forgive(4.0)
    lateness.end({1: 5.004, 2: 1.001}, lateness.half_s([1.001], 2), 5.004)
    assert lateness.left_s(1) == 1.5 * TIMEOUT_S


@pytest.mark.parametrize(("apart_s", "down"), [(0.0, True), (0.1, False)])
def test_who_comes_as_late_as_others_of_a_process_keep_it_is_not_given_up(apart_s: float, down: bool) -> None:
    waiting = Waiting()
    waiting.rounds.allow_for(apart_s)
    waiting.play([0.08] * 400)
    assert bool(waiting.down) == down


def test_a_budget_refills_with_timely_rounds() -> None:
    waiting = Waiting()
    waiting.play([0.0] * 50 + [1.0])
    left_s = waiting.rounds._lateness.left_s
    assert left_s(1) == pytest.approx(1.5 * TIMEOUT_S - 1.0, abs=SLICE_S + 0.05)
    before_s = left_s(1)
    waiting.play([0.0] * 400)
    assert left_s(1) == pytest.approx(before_s + 400 * NATURAL_S * REFILL, rel=0.05)


def _half(came_s: list[float], expected: int) -> float | None:
    lateness = Lateness()
    lateness.began_s = 10.0
    return lateness.half_s(came_s, expected)


def test_half_are_there_whatever_one_of_three_does() -> None:
    cases: list[tuple[list[float], int, float | None]] = [
        ([], 0, 10.0),
        ([], 1, 10.0),
        ([], 2, None),
        ([11.0], 2, 11.0),
        ([11.0], 3, None),
        ([9.0, 11.0], 3, 11.0),
        ([11.0], 4, None),
        ([11.0, 12.0], 4, 12.0),
        ([9.0, 9.5], 4, 10.0),
    ]
    for came_s, expected, half_s in cases:
        assert _half(came_s, expected) == half_s, (came_s, expected)
    assert Lateness().gives_up_s(1, None) == math.inf

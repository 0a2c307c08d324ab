"""In which round a run is: what a quarter of those on their way have reached, whatever the others say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from env_clients import hello, pull, report
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.message import MAX_TRIAL
from agentd.core.terms import Clock
from agentd.environment.run_round import LOOK_EVERY_S, SEEN_WITHIN_S, RunRound, round_of
from agentd.environment.run_terms import RunTerms, declared
from agentd.environment.shared_bandit import SharedBandit
from agentd.runs.arms import Arms
from agentd.wire.environment_messages import Noted, Reward, Welcome

rounds = st.integers(0, 2000)


@dataclass
class Walker:
    """An agent as it is looked at."""

    reached: int
    seen_s: float | None = 0.0
    done: bool = False
    pause_s: float = 0.0


def told(*walkers: Walker, to: int = 0, last: int = MAX_TRIAL, now_s: float = 0.0) -> int:
    return RunRound(last).told_to(walkers[to], walkers, now_s)


@pytest.mark.parametrize(
    ("reached", "expected"),
    [
        ([], 0),
        ([7], 7),
        ([7, 3], 3),
        ([7, 3, 5], 5),
        ([9, 1, 2, 3, 4, 5, 6, 7], 7),
        (list(range(1, 10)), 7),
        (list(range(1, 101)), 76),
        ([0] * 5, 0),
    ],
)
def test_a_quarter_and_at_least_two_must_have_reached_it(reached: list[int], expected: int) -> None:
    assert round_of(reached) == expected


@given(reached=st.lists(rounds, min_size=1, max_size=60))
def test_it_is_the_largest_round_that_enough_have_reached(reached: list[int]) -> None:
    needed = min(len(reached), max(2, math.ceil(len(reached) / 4)))
    for round_ in range(max(reached) + 2):
        assert (sum(each >= round_ for each in reached) >= needed) == (round_ <= round_of(reached))


@given(honest=st.lists(rounds, min_size=1, max_size=60), lies=st.lists(st.integers(0, MAX_TRIAL), max_size=30))
def test_less_than_a_quarter_of_liars_never_push_it_beyond_an_honest_agent(honest: list[int], lies: list[int]) -> None:
    lies = lies[: math.ceil((len(honest) + len(lies)) / 4) - 1]
    while lies and 4 * len(lies) >= len(honest) + len(lies):
        lies.pop()
    assert round_of([*honest, *lies]) <= max(honest)


@given(honest=st.lists(rounds, min_size=4, max_size=60), lies=st.integers(1, 30))
def test_liars_who_say_that_they_are_behind_do_not_hold_a_larger_half_back(honest: list[int], lies: int) -> None:
    lies = min(lies, len(honest))
    assert round_of([*honest, *[0] * lies]) >= min(honest)


def test_who_is_silent_or_done_or_never_came_does_not_count() -> None:
    there = [Walker(30), Walker(31), Walker(32)]
    gone = [Walker(5000, seen_s=-SEEN_WITHIN_S - 1) for _ in range(9)]
    absent = [Walker(4000, seen_s=None) for _ in range(9)]
    done = [Walker(1000, done=True) for _ in range(9)]
    assert told(*there, *gone, *absent, *done) == 31


def test_who_reports_seldom_counts_for_longer() -> None:
    """Rounds of half a minute: two liars who ask all the time do not stand alone."""
    liars = [Walker(1000), Walker(1000)]
    honest = [Walker(20, seen_s=-80.0, pause_s=30.0) for _ in range(8)]
    assert told(*honest, *liars) == 20
    assert told(*(Walker(20, seen_s=-91.0, pause_s=30.0) for _ in range(8)), *liars, to=8) == 1000, "these are gone"
    assert told(*(Walker(20, seen_s=-400.0, pause_s=1e9) for _ in range(8)), *liars, to=8) == 1000, "and so are these"


def test_pauses_are_measured_between_reports() -> None:
    bandit = bandit_of(10)
    for agent in range(10):
        pull_up_to(bandit, agent, 2 if agent < 8 else 100)
        noted_round(bandit, agent, 0, 0, now_s=100.0)
        noted_round(bandit, agent, 0, 0, now_s=130.0)
    for liar in (8, 9):
        noted_round(bandit, liar, 0, 0, now_s=205.0)
    assert noted_round(bandit, 0, 0, 0, now_s=210.0) == 2


def test_who_is_alone_is_told_its_own_round_and_tells_nobody_else() -> None:
    liar, honest = Walker(900), Walker(5, seen_s=None)
    run_round = RunRound(MAX_TRIAL)
    assert run_round.told_to(liar, [liar, honest], 0.0) == 900
    honest.seen_s = 0.01
    assert run_round.told_to(honest, [liar, honest], 0.01) == 5


def test_it_is_never_beyond_the_horizon() -> None:
    assert told(Walker(2**30), Walker(2**30), last=1000) == 1000
    assert told(Walker(2**31), last=MAX_TRIAL) == MAX_TRIAL


def test_agents_are_looked_at_now_and_then() -> None:
    run_round, walkers = RunRound(MAX_TRIAL), [Walker(1), Walker(1)]
    looked = 0

    def everybody() -> object:
        nonlocal looked
        looked += 1
        return iter(walkers)

    class Seats:
        def __iter__(self) -> object:
            return everybody()

    for step in range(100):
        run_round.told_to(walkers[0], Seats(), step * LOOK_EVERY_S / 10)  # type: ignore[arg-type]
    assert looked == 10
    walkers[0].reached = walkers[1].reached = 2
    assert run_round.told_to(walkers[0], walkers, 60.0) == 2
    assert run_round.told_to(walkers[0], walkers, 0.0) == 2, "clocks that go back are looked at anew"


# --- as agents are told


def bandit_of(agents: int, horizon: int | None = 100, clock: Clock = Clock.OPEN) -> SharedBandit:
    agreed = declared(bytes(8), 2, agents, horizon)
    object.__setattr__(agreed, "clock", clock)
    bandit = SharedBandit(RunTerms(agreed=agreed, seed=1, arms=Arms.fixed((0.9, 0.5))))
    for agent in range(agents):
        bandit.answer(hello(agent), 0.0)
    return bandit


def pull_up_to(bandit: SharedBandit, agent: int, trial: int, now_s: float = 0.0) -> None:
    for each in range(bandit.seats[agent].next_trial, trial + 1):
        assert isinstance(bandit.answer(pull(agent, each, 0), now_s), Reward)


def noted_round(bandit: SharedBandit, agent: int, trial: int, round_: int, now_s: float, *, done: bool = False) -> int:
    noted = bandit.answer(report(agent, trial, 0, 0, (), 0, done, round_=round_), now_s)
    assert isinstance(noted, Noted)
    return noted.round


def welcome_round(bandit: SharedBandit, agent: int, now_s: float) -> int:
    welcome = bandit.answer(hello(agent), now_s)
    assert isinstance(welcome, Welcome)
    return welcome.round


def test_who_comes_back_is_told_where_the_others_are() -> None:
    bandit = bandit_of(4)
    for agent in (1, 2, 3):
        pull_up_to(bandit, agent, 50, now_s=20.0)
    pull_up_to(bandit, 0, 7)
    assert welcome_round(bandit, 0, 20.0) == 50


def test_rounds_that_were_missed_count_from_the_report_on() -> None:
    bandit = bandit_of(3)
    for agent in range(3):
        pull_up_to(bandit, agent, 10)
    told = [noted_round(bandit, agent, 10, 25, now_s=1.0 + agent) for agent in range(3)]
    assert told == [10, 25, 25], "the second one confirms the first"
    for agent in range(3):
        pull_up_to(bandit, agent, 12, now_s=5.0)
    assert welcome_round(bandit, 0, 6.0) == 27
    assert noted_round(bandit, 0, 12, 3, now_s=7.0) == 27, "nobody is behind its trials"


def test_a_liar_that_rushes_through_its_trials_pushes_nobody() -> None:
    bandit = bandit_of(5)
    pull_up_to(bandit, 4, 100)
    for agent in range(4):
        pull_up_to(bandit, agent, 3)
    assert noted_round(bandit, 4, 100, 2**30 - 1, now_s=1.0) == 3
    assert noted_round(bandit, 0, 3, 3, now_s=2.0) == 3
    assert noted_round(bandit, 4, 100, 100, now_s=3.0, done=True) == 3


def test_nobody_has_pulled_yet() -> None:
    assert welcome_round(bandit_of(3), 1, 1.0) == 0


def test_without_an_end_it_still_fits_the_wire() -> None:
    bandit = bandit_of(2, horizon=None)
    for agent in range(2):
        pull_up_to(bandit, agent, 2)
    told = [noted_round(bandit, agent, 0, 2**30 - 1, now_s=1.0 + agent) for agent in range(2)]
    assert told[-1] == MAX_TRIAL


def test_a_run_on_free_clocks_has_no_rounds() -> None:
    bandit = bandit_of(3, clock=Clock.FREE)
    for agent in range(3):
        pull_up_to(bandit, agent, 9)
        assert noted_round(bandit, agent, 9, 9, now_s=1.0) == 0
    assert welcome_round(bandit, 0, 2.0) == 0


def test_whoever_gets_a_released_seat_missed_nothing_yet() -> None:
    bandit = bandit_of(3)
    noted_round(bandit, 1, 0, 99, now_s=0.0)
    assert bandit.seats[1].reached == 99
    bandit.free(1)
    assert bandit.seats[1].reached == 0

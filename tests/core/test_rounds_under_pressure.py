"""What neighbours claim, send too much of, and come back with: what the machine of rounds makes of it."""

from __future__ import annotations

import pytest

from agentd.core.rounds import SLACK, Do, Rounds, Standing
from agentd.core.rounds.contacts import GREET_AT_ONCE, RECONNECT_EVERY_S
from agentd.core.rounds.leads import AT_ONCE, FORGOTTEN_TURNS
from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.core.trust.blame import Why
from agentd.core.trust.quota import Quota
from agentd.wire.frame import GREETING, Frame

TERMS = Terms(2, 2, horizon=1000, clock=Clock.LOCKSTEP, policies=(PolicyTerms("coop-ucb", 2, None, None, ((0, 9),)),))


def rounds_at(round_: int, *numbers: int, run_round: int = 0) -> Rounds[Frame]:
    made: Rounds[Frame] = Rounds(numbers or (1, 2, 3), now_s=0.0)
    for neighbour in made.everybody:
        neighbour.standing = Standing.LIVE
    made.agree(Quota.under(TERMS), TERMS.horizon)
    made.where.told(run_round)
    made.enter(round_)
    made.take_orders()
    return made


def say(
    rounds: Rounds[Frame], number: int, round_: int, *, size: int = 100, flags: int = 0, newest: bool = False
) -> None:
    neighbour = rounds[number]
    frame = Frame(bytes(8), number, 0, neighbour.sequence + 1, round_, flags, (), 2)
    rounds.hear(neighbour, frame, size, newest=newest)


def step(rounds: Rounds[Frame], now_s: float, *spoken: tuple[int, int]) -> None:
    """One round of ours in which some neighbours that are down say frames of some rounds."""
    rounds.enter(rounds.round + 1)
    rounds.wait(now_s, 1.0)
    for number, round_ in spoken:
        say(rounds, number, round_)
        rounds.returned(rounds[number], now_s)
    rounds.settle(now_s)
    rounds.waiting = ()
    rounds.take(now_s)


@pytest.mark.parametrize("flags", [0, GREETING])
def test_a_claim_beyond_the_bound_is_dropped_and_neither_held_nor_noted(flags: int) -> None:
    rounds = rounds_at(10)
    say(rounds, 1, 10 + SLACK + 1, flags=flags)
    assert (rounds[1].round, rounds[1].held, rounds.latest) == (0, None, 10)
    assert rounds.dropped == {"ahead": 1}
    assert rounds.where.ask


def test_who_claims_to_be_far_ahead_is_not_waited_for() -> None:
    rounds = rounds_at(10)
    rounds.wait(0.0, 1.0)
    say(rounds, 1, 900)
    assert [neighbour.id for neighbour in rounds.tick(0.0)] == [2, 3]


def test_a_claim_is_held_against_nobody_before_the_environment_has_told_twice() -> None:
    """It may be us who were away."""
    rounds = rounds_at(10)
    for told in (0, 30):
        rounds.where.told(told)
        say(rounds, 1, 500)
    assert rounds.blames == ()
    rounds.where.told(40)
    say(rounds, 1, 500)
    say(rounds, 1, 11)  # a good frame in between takes nothing back
    say(rounds, 1, 500, flags=GREETING)
    assert [(blame.neighbour, blame.why, blame.times) for blame in rounds.blames] == [(1, Why.AHEAD, 2)]
    assert [accused.neighbour for accused in rounds.take_accusations()] == [1], "named once"


def test_who_was_right_to_be_ahead_is_believed_when_the_environment_has_told() -> None:
    rounds = rounds_at(10)
    say(rounds, 1, 500)
    rounds.where.told(498)
    assert rounds.next_round == 498
    rounds.enter(498)
    say(rounds, 1, 501)
    assert rounds[1].round == 501
    assert rounds.blames == ()


def led_on(rounds: Rounds[Frame], until: int) -> tuple[list[int], list[int]]:
    """One neighbour always claims to be fifty rounds ahead; in which rounds we looked around, and asked."""
    looked, asked = list[int](), list[int]()
    while rounds.round < until:
        own = rounds.round
        for number, claimed in ((1, own + 50), (2, own), (3, own)):
            say(rounds, number, claimed, newest=True)
        behind = rounds.may_be_behind
        rounds.enter(rounds.looked_around() if behind else rounds.next_round)
        looked += [own] if behind else []
        asked += [own] if rounds.where.ask else []
        rounds.where.ask = False
    return looked, asked


def test_who_always_claims_to_be_a_little_ahead_makes_others_look_and_ask_now_and_then_only() -> None:
    rounds = rounds_at(10, run_round=10)
    looked, asked = led_on(rounds, 410)
    assert len(looked) == len(asked) == AT_ONCE + 400 // FORGOTTEN_TURNS
    assert rounds.blames == (), "it may have been led on itself"


def test_who_led_others_on_is_believed_where_the_environment_or_the_others_confirm_it() -> None:
    rounds = rounds_at(10, run_round=10)
    led_on(rounds, 100)
    for number in (1, 2, 3):
        say(rounds, number, 130, newest=True)
    assert rounds.looked_around() == 130
    rounds.enter(131)
    led_on(rounds, 140)
    rounds.where.told(140 + 2 * SLACK)
    assert rounds.may_be_behind
    assert rounds.looked_around() == 140 + 2 * SLACK


def test_after_the_horizon_nobody_is_blamed_for_rounds_of_its_own() -> None:
    rounds = rounds_at(990)
    say(rounds, 1, 1500)
    assert len(rounds.take(0.0)) == 1, "what it says counts"
    assert (rounds.dropped, rounds.blames, rounds[1].held) == ({}, (), None)


def test_who_may_be_behind_takes_all_that_lies_ready_and_goes_to_the_newest_that_most_have_said() -> None:
    rounds = rounds_at(10)
    rounds.were_away()
    assert rounds.may_be_behind
    for number, last in ((1, 40), (2, 41), (3, 41)):
        for round_ in range(11, last + 1):
            say(rounds, number, round_, newest=True)
    assert rounds.next_round == 41
    rounds.enter(41)
    rounds.wait(0.0, 1.0)
    rounds.settle(0.0)
    assert [neighbour.id for neighbour in rounds.waiting] == [1]
    assert len(rounds.take(0.0)) == 30 + 31 + 31
    assert rounds.dropped == {}


def test_three_timely_frames_in_a_row_revive_and_greetings_do_not() -> None:
    rounds = rounds_at(10, 1)
    rounds.begin_without([rounds[1]])
    for now in range(1, 9):
        say(rounds, 1, rounds.round, flags=GREETING)
        step(rounds, now)
    assert rounds[1].standing is Standing.DOWN
    step(rounds, 9.0, (1, 18))
    step(rounds, 10.0, (1, 19))
    step(rounds, 11.0, (1, 15))  # too far behind: it begins anew
    for now in (12, 13):
        step(rounds, now, (1, rounds.round))
        assert rounds[1].standing is Standing.DOWN
    step(rounds, 14.0, (1, rounds.round))
    assert rounds[1].standing is Standing.LIVE
    assert (Do.WELCOME, 1) in rounds.take_orders()


def greet(rounds: Rounds[Frame], now_s: float) -> None:
    """One round of ours in which the first neighbour, which is down, says nothing but that it is held up."""
    rounds.enter(rounds.round + 1)
    rounds.wait(now_s, 1.0)
    say(rounds, 1, rounds.round, flags=GREETING)
    rounds.settle(now_s)
    rounds.waiting = ()
    rounds.take(now_s)


def test_who_says_nothing_but_that_it_is_held_up_is_named_as_slow_and_who_is_gone_is_not() -> None:
    rounds = rounds_at(10)
    rounds.begin_without([rounds[1]])
    step(rounds, 1.0)
    for turn in range(40):
        greet(rounds, 100.0 + turn / 10)  # it was gone for long, and begins to come back
    assert rounds.blames == ()
    greet(rounds, 104.5)
    assert [(blame.neighbour, blame.why) for blame in rounds.blames] == [(1, Why.SLOW)]


def held_until_the_others_went_on() -> Rounds[Frame]:
    """The first neighbour is late, so that we are; then we go to where the run is, far ahead of it."""
    rounds = rounds_at(10)
    for number in (1, 2, 3):
        say(rounds, number, 10)
    rounds.where.told(500)
    rounds.enter(rounds.next_round)
    assert (rounds.round, rounds[1].standing) == (500, Standing.DOWN)
    return rounds


def test_who_held_us_up_until_the_others_went_on_is_named_as_slow_if_it_goes_on_like_that() -> None:
    rounds = held_until_the_others_went_on()
    for turn in range(1, 25):
        step(rounds, turn / 10, (1, 11 + turn), *((number, rounds.round) for number in (2, 3)))
    assert [(blame.neighbour, blame.why) for blame in rounds.blames] == [(1, Why.SLOW)]
    assert (Do.ACCUSE, 1) in rounds.take_orders()


def test_who_was_left_behind_with_us_and_comes_by_itself_is_not_named() -> None:
    rounds = held_until_the_others_went_on()
    for turn in range(1, 25):
        step(rounds, turn / 10, *((number, rounds.round) for number in (1, 2, 3)))
    assert (rounds.blames, rounds[1].standing) == ((), Standing.LIVE)


def test_greetings_that_waited_while_we_slept_are_held_against_nobody() -> None:
    rounds = rounds_at(10)
    rounds.begin_without([rounds[1]])
    greet(rounds, 1.0)
    for _ in range(3):
        greet(rounds, 100.0)
    assert rounds.blames == ()


def test_who_comes_back_soon_after_its_greeting_is_not_named() -> None:
    rounds = rounds_at(10)
    rounds.begin_without([rounds[1]])
    greet(rounds, 100.0)
    for now_s in (100.1, 100.2, 100.3):
        step(rounds, now_s, (1, rounds.round + 1))
    assert rounds[1].standing is Standing.LIVE
    for now_s in range(101, 110):
        step(rounds, now_s)
    assert rounds.blames == ()


def test_who_sends_too_much_is_read_no_more_and_shunned_for_longer_each_time() -> None:
    rounds = rounds_at(10)
    for _ in range(5):
        assert rounds.refuses_unread(rounds[1], 4 << 20)
    assert rounds.is_muted(rounds[1])
    rounds.tick(100.0)
    assert rounds.take_orders().count((Do.SHUN, 1)) == 1
    assert rounds[1].standing is Standing.DOWN
    assert rounds[1].shunned_until_s == 110.0
    rounds.enter(11)
    for _ in range(5):
        rounds.refuses_unread(rounds[1], 4 << 20)
    rounds.tick(200.0)
    assert rounds[1].shunned_until_s == 220.0
    assert [(blame.neighbour, blame.why) for blame in rounds.blames] == [(1, Why.FLOOD)]


def test_what_a_cut_has_stored_is_read_and_held_against_nobody() -> None:
    """Two thousand rounds of frames lie in the buffers of a connection when it goes on."""
    rounds = rounds_at(10)
    rounds.agree(Quota.under(TERMS), 9_000)
    for number in (1, 2, 3):
        say(rounds, number, 10)
    rounds[1].standing = Standing.DOWN
    for _ in range(2000):
        step(rounds, rounds.round / 100)
    said = 10
    while said < rounds.round:
        stored = range(said + 1, min(said + 16, rounds.round + 1) + 1)  # as many as are read in a round
        said = stored[-1]
        step(rounds, rounds.round / 100, *((1, round_) for round_ in stored))
    for _ in range(3):
        step(rounds, rounds.round / 100, (1, rounds.round + 1))
    assert rounds.dropped == {}
    assert rounds.blames == ()
    assert rounds[1].standing is Standing.LIVE


def test_who_says_one_frame_that_no_honest_neighbour_could_say_is_shunned_at_once() -> None:
    rounds, longest = rounds_at(10), Quota.under(TERMS).longest_frame
    assert rounds.refuses_unread(rounds[1], longest + 1)
    rounds.tick(100.0)
    assert (Do.SHUN, 1) in rounds.take_orders()


def test_who_says_messages_of_several_parts_again_and_again_is_shunned() -> None:
    rounds = rounds_at(10)
    for turn in range(4):
        rounds.tick(100.0 + turn)
        assert rounds[1].standing is Standing.LIVE
        rounds.enter(11 + turn)
        rounds.babbles(rounds[1])
    rounds.tick(104.0)
    assert (Do.SHUN, 1) in rounds.take_orders()
    assert [(blame.neighbour, blame.why) for blame in rounds.blames] == [(1, Why.WRONG)]


def test_what_cannot_be_read_is_counted_and_held_against_its_sender() -> None:
    rounds = rounds_at(10)
    for _ in range(3):
        rounds.wrong(rounds[2], "version", 50)
    assert rounds.dropped == {"version": 3}
    assert [(blame.neighbour, blame.why, blame.times) for blame in rounds.blames] == [(2, Why.WRONG, 3)]
    assert [accused.why for accused in rounds.take_accusations()] == [Why.WRONG]


def test_a_jump_in_the_sequence_is_one_and_does_not_outlive_the_next_round() -> None:
    rounds = rounds_at(10, 1)
    rounds[1].incarnation, rounds[1].sequence, rounds[1].round = 0, 10, 10
    rounds.hear(rounds[1], Frame(bytes(8), 1, 0, 1 << 52, 11, 0, (), 2), 100)
    assert rounds.dropped == {"sequence": 1}
    assert [(blame.neighbour, blame.why) for blame in rounds.blames] == [(1, Why.WRONG)], "one frame in a round"
    assert (Do.ACCUSE, 1) in rounds.take_orders()
    rounds.hear(rounds[1], Frame(bytes(8), 1, 0, 12, 12, 0, (), 2), 100)
    assert rounds[1].sequence == 12


def test_a_gap_that_we_slept_through_is_held_against_nobody() -> None:
    rounds = rounds_at(10, 1)
    rounds.where.told(1000)
    rounds[1].incarnation, rounds[1].sequence, rounds[1].round = 0, 10, 10
    rounds.hear(rounds[1], Frame(bytes(8), 1, 0, 1000, 1000, 0, (), 2), 100)
    assert (rounds.dropped, rounds.blames) == ({"sequence": 1}, ())


def test_subscriptions_in_a_neighbours_name_are_answered_with_measure_and_cut_nothing_that_is_heard() -> None:
    rounds = rounds_at(10)
    for tick in range(1000):
        rounds.subscription(1, joined=True, now_s=50.0 + tick / 1000)
    greetings = rounds.take_orders()
    assert {order.do for order in greetings} == {Do.GREET}
    assert GREET_AT_ONCE <= len(greetings) <= GREET_AT_ONCE + 10
    rounds[1].standing = Standing.DOWN
    rounds[1].says(10, rounds._turn)
    rounds.subscription(1, joined=True, now_s=60.0)
    assert (Do.RECONNECT_UNLESS_HEARD, 1) not in rounds.take_orders(), "frames come over it"


def test_who_is_down_and_silent_is_looked_for_when_it_subscribes_but_not_without_end() -> None:
    rounds = rounds_at(10)
    rounds[1].standing = Standing.DOWN
    for tick in range(101):
        rounds.subscription(1, joined=True, now_s=60.0 + tick * RECONNECT_EVERY_S / 50)
    assert rounds.take_orders().count((Do.RECONNECT_UNLESS_HEARD, 1)) == 3


def test_one_who_has_nobody_left_keeps_to_the_environments_word() -> None:
    rounds = rounds_at(100, 1, 2, run_round=100)
    assert not rounds.runs_away
    rounds[1].standing = Standing.DOWN
    assert not rounds.runs_away, "somebody keeps us in step"
    rounds[2].standing = Standing.DOWN
    rounds.enter(101)
    assert rounds.runs_away
    rounds.where.told(101)
    assert not rounds.runs_away
    for neighbour in rounds.everybody:
        neighbour.standing = Standing.LEFT
    rounds.enter(500)
    assert not rounds.runs_away, "there is nobody to be in step with"

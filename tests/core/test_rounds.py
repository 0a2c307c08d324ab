"""What is known of a neighbour follows from its frames and subscriptions alone; see also scenarios/rounds."""

from __future__ import annotations

from agentd.core.rounds import Do, Neighbour, Rounds, Standing
from agentd.core.rounds.intake import MOST_LATE_BYTES
from agentd.wire.frame import GOODBYE, GREETING, MAX_FRAME_BYTES, Frame

RUN = bytes(8)


def frame(sequence: int, *, round_: int = 1, incarnation: int = 0, flags: int = 0) -> Frame:
    return Frame(RUN, 2, incarnation, sequence, round_, flags, (), 2)


def a_neighbour() -> Neighbour[Frame]:
    return Neighbour(2, 0.0)


def note(neighbour: Neighbour[Frame], *frames: Frame) -> int:
    """How many frames were lost in between."""
    return sum(neighbour.note(each) for each in frames)


def rounds_with(*numbers: int, standing: Standing = Standing.LIVE) -> Rounds[Frame]:
    made: Rounds[Frame] = Rounds(numbers, now_s=0.0)
    for neighbour in made.everybody:
        neighbour.standing = standing
    return made


def test_gaps_in_the_sequence_are_lost_frames() -> None:
    neighbour = a_neighbour()
    assert note(neighbour, frame(5), frame(6), frame(10), frame(11)) == 3
    assert neighbour.sequence == 11


def test_what_was_published_before_we_listened_is_not_lost() -> None:
    assert note(a_neighbour(), frame(1000), frame(1001)) == 0


def test_a_repeated_or_older_frame_is_no_gap() -> None:
    assert note(a_neighbour(), frame(5), frame(5), frame(3), frame(6)) == 0


def test_a_new_incarnation_begins_a_new_sequence() -> None:
    neighbour = a_neighbour()
    assert note(neighbour, frame(500), frame(1, incarnation=7), frame(2, incarnation=7)) == 0
    assert note(neighbour, frame(4, incarnation=7)) == 1
    assert (neighbour.incarnation, neighbour.sequence) == (7, 4)


def test_a_greeting_tells_the_round_but_is_no_frame_of_the_sequence() -> None:
    neighbour = a_neighbour()
    assert note(neighbour, frame(9, round_=9, flags=GREETING), frame(10, round_=10), frame(11, round_=11)) == 0
    assert neighbour.standing is Standing.SPEAKING
    assert neighbour.round == 11


def test_the_round_never_goes_back() -> None:
    neighbour = a_neighbour()
    note(neighbour, frame(1, round_=9), frame(2, round_=4))
    assert neighbour.round == 9


def test_goodbye_holds_until_the_next_frame_but_not_against_a_greeting() -> None:
    neighbour = a_neighbour()
    note(neighbour, frame(1, flags=GOODBYE), frame(1, flags=GREETING))
    assert neighbour.standing is Standing.LEFT
    note(neighbour, frame(2))
    assert neighbour.standing is Standing.DOWN


def test_a_link_is_there_when_both_directions_were_seen_in_either_order() -> None:
    for said_first in (True, False):
        rounds = rounds_with(2, standing=Standing.UNKNOWN)
        for speaks in (said_first, not said_first):
            assert rounds.missing == [rounds[2]]
            if speaks:
                rounds[2].note(frame(0, flags=GREETING))
            else:
                rounds.subscription(2, joined=True, now_s=0.5)
        assert rounds.missing == []
        assert rounds[2].standing is Standing.LIVE


def test_a_subscription_that_ends_takes_its_direction_back() -> None:
    rounds = rounds_with(2)
    rounds.subscription(2, joined=False, now_s=0.0)
    assert rounds.missing == [rounds[2]]
    assert rounds[2].is_waited_for  # rounds judge by frames only


def test_who_subscribes_is_greeted_and_looked_for_once_where_it_came_late() -> None:
    rounds = rounds_with(2, 3, standing=Standing.UNKNOWN)
    rounds.subscription(2, joined=True, now_s=0.9)
    rounds.subscription(3, joined=True, now_s=1.0)
    rounds.subscription(3, joined=True, now_s=1.5)
    assert rounds.take_orders() == [
        (Do.GREET, 2),
        (Do.GREET, 3),
        (Do.RECONNECT_UNLESS_HEARD, 3),
        (Do.GREET, 3),
    ]
    assert rounds.take_orders() == []


def test_a_stranger_is_counted_when_it_comes_and_not_when_it_goes() -> None:
    rounds = rounds_with(2)
    rounds.subscription(9, joined=True, now_s=0.0)
    rounds.subscription(9, joined=False, now_s=0.0)
    assert rounds.dropped == {"stranger": 1}
    assert rounds.take_orders() == []


def test_one_neighbour_may_say_as_much_of_earlier_rounds_as_a_frame_holds() -> None:
    assert MOST_LATE_BYTES == MAX_FRAME_BYTES


def test_how_far_the_run_can_be_is_what_more_than_half_of_the_neighbours_say_or_we_do() -> None:
    cases = {(): 5, (9,): 9, (9, 9): 9, (9, 1 << 29): 9, (3, 1 << 29): 5, (6, 7, 1 << 29): 7, (6, 7, 8, 1 << 29): 7}
    for claimed, latest in cases.items():
        rounds = rounds_with(*range(len(claimed)))
        rounds.enter(5)
        for neighbour, round_ in zip(rounds.everybody, claimed, strict=True):
            note(neighbour, frame(0, round_=round_, flags=GREETING))
        assert rounds.latest == latest, claimed


def test_a_later_round_waits_for_ours_whoever_tells_of_it() -> None:
    for standing, flags in ((Standing.LIVE, 0), (Standing.DOWN, 0), (Standing.LIVE, GOODBYE)):
        rounds = rounds_with(2, standing=standing)
        rounds.enter(3)
        early = frame(1, round_=4, flags=flags)
        rounds.hear(rounds[2], early, 100)
        rounds.wait(0.0, 1.0)
        rounds.settle(0.0)
        assert rounds.take(0.0) == []
        rounds.enter(4)
        rounds.wait(0.0, 1.0)
        rounds.settle(0.0)
        assert rounds.take(0.0) == [early]


def in_step(round_: int) -> Rounds[Frame]:
    """Rounds with two neighbours that just went on as expected."""
    rounds = rounds_with(2, 3)
    rounds.round = round_ - 1
    rounds.enter(round_)
    rounds.wait(0.0, 1.0)
    rounds.all_go_on(0.1)
    return rounds


def test_when_all_go_on_nothing_is_to_be_found_out_of_where_to_go() -> None:
    rounds = in_step(7)
    assert (rounds.latest, rounds.next_round, rounds.may_be_behind, rounds.runs_away) == (7, 8, False, False)


def test_that_ends_with_the_next_claim_word_or_cut() -> None:
    claimed = in_step(7)
    for neighbour in claimed.everybody:
        claimed.greeted(neighbour, frame(0, round_=20, flags=GREETING))
    assert (claimed.latest, claimed.may_be_behind) == (20, True)
    told = in_step(7)
    told.where.told(200)
    assert (told.may_be_behind, told.next_round) == (True, 200)
    cut = in_step(200)
    cut.where.told(7)
    cut.cut(2, 0.2)
    assert cut.runs_away


def test_a_neighbour_that_said_to_be_ahead_stays_ahead_though_all_go_on() -> None:
    rounds = rounds_with(2, 3)
    for neighbour in rounds.everybody:
        neighbour.round = 9
    rounds.round = 6
    rounds.enter(7)
    rounds.wait(0.0, 1.0)
    rounds.all_go_on(0.1)
    assert (rounds.latest, rounds.may_be_behind, rounds.next_round) == (9, True, 9)

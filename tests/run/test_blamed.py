"""Who is blamed by whom: it is told who says so, and nobody fills the screen."""

from __future__ import annotations

from agentd.core.trust.blame import Blame, Why
from agentd.runs.blamed import MOST_NAMED, MOST_SHOWN, blamed_by, blamed_lines

SLOW, FLOOD = Why.SLOW, Why.FLOOD


def test_what_is_said_is_turned_round() -> None:
    said = [
        (1, [Blame(5, SLOW, 9)]),
        (2, [Blame(5, FLOOD, 1), Blame(5, SLOW, 3), Blame(0, Why.WRONG, 2)]),
        (0, [Blame(2, Why.AHEAD, 4)]),
    ]
    blamed = blamed_by(said, range(6))
    assert blamed == {0: {"wrong": [2]}, 2: {"ahead": [0]}, 5: {"flood": [2], "slow": [1, 2]}}
    assert list(blamed) == [0, 2, 5]


def test_nobody_is_blamed_for_nothing_by_itself_or_without_taking_part() -> None:
    assert blamed_by([(1, [Blame(2, SLOW, 0), Blame(1, SLOW, 3), Blame(65535, FLOOD, 7)])], {1, 2}) == {}


def test_people_are_told_who_says_so() -> None:
    assert blamed_lines({5: {"flood": [2], "slow": [1, 2]}, 7: {"wrong": [3]}}) == [
        "agent 5: slow (say 1, 2), flood (says 2)",
        "agent 7: wrong (says 3)",
    ]
    assert blamed_lines({}) == []


def test_where_neighbours_are_known_it_is_told_how_many_they_are_and_others_are_not_heard() -> None:
    neighbours = {5: (1, 2, 3), 7: (5,), 8: (1, 2)}
    blamed = {5: {"slow": [1, 2, 9], "flood": [9]}, 7: {"wrong": [5]}, 8: {"slow": [9]}, 99: {"slow": [1]}}
    assert blamed_lines(blamed, neighbours) == [
        "agent 5: slow (say 1, 2: 2 of its 3 neighbours)",
        "agent 7: wrong (says 5: 1 of its 1 neighbour)",
    ]


def test_one_liar_does_not_hide_what_others_say() -> None:
    liar = (0, [Blame(agent, SLOW, 2**53 - 1) for agent in range(1, 17)])
    honest = [(agent, [Blame(30, FLOOD, 1)]) for agent in (20, 21)]
    lines = blamed_lines(blamed_by([liar, *honest], range(40)))
    assert lines[0] == "agent 30: flood (say 20, 21)"
    assert lines[1] == "agent 1: slow (says 0)"
    assert len(lines) == MOST_SHOWN + 1
    assert lines[-1] == f"and {17 - MOST_SHOWN} more, of whom no more is said"


def test_of_many_who_say_the_same_some_are_named() -> None:
    (line,) = blamed_lines({5: {"slow": list(range(100, 400))}})
    assert line == f"agent 5: slow (say 100, 101, 102, 103, 104, 105 and {300 - MOST_NAMED} more)"
    everybody = {agent: {"slow": list(range(1000))} for agent in range(1000)}
    assert sum(map(len, blamed_lines(everybody))) < 1000

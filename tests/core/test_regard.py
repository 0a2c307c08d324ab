"""How an agent regards its neighbours: within the limits of the wire, the most telling first."""

from __future__ import annotations

from agentd.core.trust.regard import FULL_TRUST, UNTOLD, Regard, most_telling, regards_of


def test_a_neighbour_is_behind_by_what_was_heard_of_it() -> None:
    told = regards_of([(3, 7, 9), (4, 12, 2)], 10, {3: 250}, (1000, 1000))
    assert told == [Regard(3, 3, 9, 250), Regard(4, 0, 2, UNTOLD)]


def test_nothing_goes_past_the_limits_of_the_wire() -> None:
    told = regards_of([(3, 0, 10**20)], 10**12, {3: 10**6}, (1000, 2000))
    assert told == [Regard(3, 1000, 2000, UNTOLD)]
    assert regards_of([(3, 0, 0)], 0, {3: -5}, (1, 1)) == [Regard(3, 0, 0, 0)]


def test_of_many_those_trusted_least_and_then_furthest_behind_are_told() -> None:
    trusted, late, doubted = Regard(1, 0, 5, FULL_TRUST), Regard(2, 9, 5, FULL_TRUST), Regard(3, 0, 5, 10)
    assert most_telling([trusted, late, doubted], 2) == (doubted, late)

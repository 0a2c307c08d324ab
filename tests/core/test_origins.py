"""Rows of origins: dense, stable, bounded."""

from __future__ import annotations

import numpy as np
import pytest

from agentd.core.message import MAX_AGENT_ID
from agentd.core.origins import ABSENT, MAX_ORIGINS, OWN, Origins, grown
from agentd.core.terms import PolicyTerms, Terms


def ids(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, dtype=np.int64)


def test_origins_get_dense_rows_and_keep_them() -> None:
    origins = Origins(own=0)
    assert origins.rows(ids(9, 5, 9)).tolist() == [1, 0, 1]
    assert origins.rows(ids(5, 7, 9)).tolist() == [0, 2, 1]
    assert len(origins) == 3


@pytest.mark.parametrize("own", [4, 64, MAX_AGENT_ID])
def test_the_agent_itself_gets_no_row(own: int) -> None:
    origins = Origins(own)
    assert origins.rows(ids(own, 5)).tolist() == [OWN, 0]
    assert origins.rows(ids(5, own, MAX_AGENT_ID - 1)).tolist() == [0, OWN, 1]
    assert len(origins) == 2


def test_nobody_asked_for_means_no_rows() -> None:
    assert Origins(own=0).rows(ids()).tolist() == []


def test_the_largest_ids_fit() -> None:
    origins = Origins(own=0)
    assert origins.rows(ids(64)).tolist() == [0]
    assert origins.rows(ids(MAX_AGENT_ID, 40_000)).tolist() == [2, 1]
    assert origins.rows(ids(64, MAX_AGENT_ID)).tolist() == [0, 2]


def test_origins_beyond_the_limit_get_no_row_and_the_known_ones_keep_theirs() -> None:
    origins = Origins(own=0, limit=2)
    assert origins.rows(ids(1, 2, 3)).tolist() == [0, 1, ABSENT]
    assert origins.rows(ids(3, 2)).tolist() == [ABSENT, 1]
    assert len(origins) == 2


def test_memory_is_bounded_whatever_ids_are_heard() -> None:
    origins = Origins(own=0)
    origins.rows(np.arange(MAX_AGENT_ID + 1))
    assert len(origins) == MAX_ORIGINS
    assert origins.room == MAX_ORIGINS


def test_room_grows_in_steps_and_is_never_too_small_nor_a_quarter_too_large() -> None:
    origins = Origins(own=0)
    rooms = []
    for origin in range(1, 300):
        rooms.append(origins.room)
        origins.rows(ids(origin))
        assert len(origins) <= origins.room <= max(len(origins) + 8, len(origins) * 5 / 4)
    assert sorted(set(rooms)) == [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]


def test_an_array_that_is_long_enough_is_not_copied() -> None:
    array = np.arange(4)
    assert grown(array, 4) is array
    assert grown(array, 3) is array


def test_a_longer_copy_is_padded_and_keeps_its_shape() -> None:
    array = np.ones((2, 3), dtype=np.int64)
    longer = grown(array, 4, -1)
    assert longer.tolist() == [[1, 1, 1], [1, 1, 1], [-1, -1, -1], [-1, -1, -1]]
    assert array.shape == (2, 3)


def test_invented_names_do_not_take_the_places_of_neighbours() -> None:
    origins = Origins(own=0, limit=5, neighbours=[0, 900, 3])
    assert origins.rows(ids(*range(10, 20))).tolist() == [0, 1, 2, *[ABSENT] * 7]
    assert origins.rows(ids(20, 900)).tolist() == [ABSENT, 3]
    assert origins.rows(ids(1, 3, 900, 10)).tolist() == [ABSENT, 4, 3, 0]
    assert len(origins) == 5


def test_neighbours_that_were_heard_leave_their_room_to_nobody_else() -> None:
    origins = Origins(own=0, limit=3, neighbours=[7])
    assert origins.rows(ids(7, 8, 9, 10)).tolist() == [0, 1, 2, ABSENT]


def test_there_is_a_place_for_every_neighbour_however_many() -> None:
    origins = Origins(own=0, limit=2, neighbours=range(1, 6))
    assert origins.rows(ids(9)).tolist() == [ABSENT]
    assert origins.rows(ids(1, 2, 3, 4, 5)).tolist() == [0, 1, 2, 3, 4]


def test_a_closed_run_has_a_place_for_everybody_who_takes_part() -> None:
    terms = Terms(2, 1, policies=(PolicyTerms("", None, None, None, ((0, MAX_AGENT_ID),)),))
    everybody = np.arange(MAX_AGENT_ID + 1)
    rows = Origins.under(terms, 5).rows(everybody)
    assert sorted(rows.tolist()) == [OWN, *range(MAX_AGENT_ID)]
    assert len(Origins.under(terms, 5)) == 0


def test_an_open_run_keeps_the_places_of_neighbours() -> None:
    origins = Origins.under(Terms(2, 1), 5, [65_000])
    origins.rows(np.arange(2 * MAX_ORIGINS))
    assert len(origins) == MAX_ORIGINS - 1
    assert origins.rows(ids(65_000)).tolist() == [MAX_ORIGINS - 1]


def test_who_is_heard_among_ten_thousand_takes_little_room() -> None:
    """The table goes by ids, so what it takes grows with the run and not with what an agent hears."""
    terms = Terms(2, 2, policies=(PolicyTerms("sealed", None, 1.0, None, ((0, 9_999),)),))
    origins = Origins.under(terms, own=3)
    assert origins.rows(ids(9_999, 17)).tolist() == [1, 0]
    assert origins._row_of.nbytes < 25_000


def test_rows_beyond_the_shortest_numbers_are_right() -> None:
    origins = Origins(0, 1 << 16)
    everybody = np.arange(1, 1 << 16)
    assert origins.rows(everybody).tolist() == list(range((1 << 16) - 1))
    assert origins.known_rows(ids(40_001, 0)).tolist() == [40_000, OWN]

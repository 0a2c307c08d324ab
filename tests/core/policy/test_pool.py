"""The pool: the newest body of each origin counts, once."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import totals

from agentd.core.message import Message
from agentd.core.policy.pool import Pool


def replace(pool: Pool, *told: tuple[int, int, int, int]) -> None:
    """Take in (row, trial, pulls, sum) of a pool with one arm, of each row the newest."""
    newest = {row: (row, trial, pulls, total) for row, trial, pulls, total in sorted(told)}.values()
    batch = totals(*(Message(row + 1, trial, 1, (pulls, total)) for row, trial, pulls, total in newest))
    pool.replace(batch.origin - 1, batch.body[:, 0::2], batch.body[:, 1::2])


def test_bodies_of_different_origins_add_up() -> None:
    pool = Pool(1)
    replace(pool, (0, 1, 2, 20), (5, 1, 3, 30))
    assert (pool.counts, pool.sums) == ([5], [50])


def test_a_newer_body_takes_the_place_of_an_older_one() -> None:
    pool = Pool(1)
    replace(pool, (0, 1, 2, 20))
    replace(pool, (0, 2, 3, -7))
    assert (pool.counts, pool.sums) == ([3], [-7])


def test_a_forgotten_origin_counts_no_more_and_may_begin_anew() -> None:
    pool = Pool(1)
    replace(pool, (0, 9, 2, 20), (1, 9, 3, 30))
    pool.forget(np.array([0]))
    assert (pool.counts, pool.sums) == ([3], [30])
    replace(pool, (0, 1, 1, 1))
    assert (pool.counts, pool.sums) == ([4], [31])


def test_forgetting_who_was_never_heard_changes_nothing() -> None:
    pool = Pool(1)
    pool.forget(np.array([7]))
    pool.forget(np.array([], dtype=np.int64))
    assert (pool.counts, pool.sums) == ([0], [0])


def test_arms_are_kept_apart() -> None:
    pool = Pool(2)
    batch = totals(Message(1, 1, 1, (2, 20, 3, 30)))
    pool.replace(np.array([0]), batch.body[:, 0::2], batch.body[:, 1::2])
    assert (pool.counts, pool.sums) == ([2, 3], [20, 30])


def test_sums_of_thousands_of_origins_leave_64_bits_without_a_trace() -> None:
    """1.5·2^50 is the most that checks let through; twice that 4096 times is beyond 64 bits, and no chunk is."""
    pool, largest = Pool(1), 3 << 49
    replace(pool, *((row, 1, 1, largest) for row in range(4096)))
    assert pool.sums == [4096 * largest]
    replace(pool, *((row, 2, 1, -largest) for row in range(4096)))
    assert pool.sums == [-4096 * largest]


told_lists = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(0, 99), st.integers(-(1 << 50), 1 << 50)), max_size=30
)


@given(told_lists, st.lists(st.integers(1, 6), max_size=30))
@settings(deadline=None, max_examples=100)
def test_it_equals_a_dictionary_of_newest_bodies(told: list[tuple[int, int, int, int]], sizes: list[int]) -> None:
    """Each origin is told about in order, as checks ensure; batches of any size."""
    ordered = sorted({(row, trial): (row, trial, pulls, total) for row, trial, pulls, total in told}.values())
    unique = sorted(ordered, key=lambda one: one[1])
    pool, newest, place = Pool(1), dict[int, tuple[int, int, int]](), 0
    for size in [*sizes, len(unique) or 1]:
        if place >= len(unique):
            break
        replace(pool, *unique[place : place + size])
        for row, trial, pulls, total in unique[place : place + size]:
            newest[row] = max(newest.get(row, (0, 0, 0)), (trial, pulls, total))
        place += size
        assert pool.counts == [sum(pulls for _, pulls, _ in newest.values())]
        assert pool.sums == [sum(total for _, _, total in newest.values())]

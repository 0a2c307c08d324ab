"""The pool: what is new of each origin is counted, and what it takes the place of is not."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.message import Cells
from agentd.core.policy.pool import Pool


def cells(pulls: list[list[int]], sums: list[list[int]]) -> Cells:
    """Pulls and sums of some origins, one row per arm."""
    return np.array([pulls, sums], dtype=np.int64)


def test_what_different_origins_say_adds_up() -> None:
    pool = Pool(1)
    pool.grow(cells([[2, 3]], [[20, 30]]))
    assert (pool.counts, pool.sums) == ([5], [50])


def test_what_is_taken_back_counts_no_more() -> None:
    pool = Pool(1)
    pool.grow(cells([[2, 3]], [[20, 30]]))
    pool.grow(-cells([[2]], [[20]]))
    assert (pool.counts, pool.sums) == ([3], [30])


def test_nothing_changes_nothing() -> None:
    pool = Pool(2)
    pool.grow(cells([[], []], [[], []]))
    assert (pool.counts, pool.sums) == ([0, 0], [0, 0])


def test_arms_are_kept_apart() -> None:
    pool = Pool(2)
    pool.grow(cells([[2], [3]], [[20], [30]]))
    assert (pool.counts, pool.sums) == ([2, 3], [20, 30])


def test_sums_of_thousands_of_origins_leave_64_bits_without_a_trace() -> None:
    """1.5·2^50 is the most that checks let through; twice that 4096 times is beyond 64 bits, and no chunk is."""
    pool, largest = Pool(1), 3 << 49
    pool.grow(cells([[1] * 4096], [[largest] * 4096]))
    assert pool.sums == [4096 * largest]
    pool.grow(cells([[0] * 4096], [[-2 * largest] * 4096]))
    assert pool.sums == [-4096 * largest]


changes = st.lists(st.tuples(st.integers(0, 99), st.integers(-(1 << 50), 1 << 50)), max_size=30)


@given(st.lists(changes, max_size=8))
@settings(deadline=None, max_examples=100)
def test_it_equals_plain_sums(rounds: list[list[tuple[int, int]]]) -> None:
    pool = Pool(1)
    for told in rounds:
        pool.grow(cells([[pulls for pulls, _ in told]], [[total for _, total in told]]))
    assert pool.counts == [sum(pulls for told in rounds for pulls, _ in told)]
    assert pool.sums == [sum(total for told in rounds for _, total in told)]

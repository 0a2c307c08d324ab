"""What others' sealed records count for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.bodies import SEALED
from agentd.core.grid import UNIT
from agentd.core.message import Message, batch_of
from agentd.core.policy.records import RecordPool, counted_sum

ROWS = np.array([0])


def told(pool: RecordPool, *record: int, trial: int) -> None:
    pool.replace(batch_of(SEALED, [Message(7, trial, 2, (0, *record), 2)]), ROWS)


SAMPLES = 64 * UNIT
DEVIATION = 4 * UNIT
"""√(64/4)."""


@pytest.mark.parametrize(
    ("total", "counts"),
    [
        (-40 * UNIT, -DEVIATION),
        (-DEVIATION - 1, -DEVIATION),
        (-DEVIATION, -DEVIATION),
        (30 * UNIT, 30 * UNIT),
        (SAMPLES + DEVIATION, SAMPLES + DEVIATION),
        (SAMPLES + DEVIATION + 1, SAMPLES + DEVIATION),
        (900 * UNIT, SAMPLES + DEVIATION),
    ],
)
def test_a_record_counts_for_what_its_samples_can_have_been_paid_and_one_deviation(total: int, counts: int) -> None:
    pool = RecordPool(1)
    told(pool, 80, 1, SAMPLES, total, trial=80)
    assert (pool.samples, pool.sums) == ([SAMPLES], [counts])


def test_what_a_record_counts_for_is_taken_back_when_a_larger_one_comes_or_its_origin_is_forgotten() -> None:
    pool = RecordPool(1)
    told(pool, 80, 1, SAMPLES, -40 * UNIT, trial=80)
    told(pool, 160, 2, 2 * SAMPLES, 30 * UNIT, trial=160)
    assert (pool.samples, pool.sums) == ([2 * SAMPLES], [30 * UNIT])
    pool.forget(ROWS)
    assert (pool.samples, pool.sums) == ([0], [0])


@given(st.integers(1, 1 << 50), st.integers(-(1 << 60), 1 << 60))
def test_what_counts_lies_between_nothing_and_all_paid_but_for_one_deviation(samples: int, total: int) -> None:
    beyond = math.isqrt(samples * UNIT // 4) + 1
    counts = counted_sum(samples, total)
    assert -beyond <= counts <= samples + beyond
    if 0 <= total <= samples:
        assert counts == total


RECORDS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(0, 2),
        st.integers(0, 40),
        st.integers(0, 40) | st.integers(0, 1 << 50),
        st.integers(-(1 << 60), 1 << 60) | st.integers(-50, 90),
    ),
    max_size=60,
)
"""Row of the origin, arm, pulls, samples and sum."""


@given(st.lists(RECORDS, max_size=4))
def test_many_records_at_once_count_for_what_they_count_for_one_after_the_other(
    rounds: list[list[tuple[int, int, int, int, int]]],
) -> None:
    together, one_by_one = RecordPool(3), RecordPool(3)
    for trial, records in enumerate(rounds, 1):
        rows = np.array([row for row, *_ in records], dtype=np.int64)
        batch = batch_of(
            SEALED, [Message(row, trial, 2, (arm, pulls, 1, *rest), 2) for row, arm, pulls, *rest in records]
        )
        if not len(batch):
            continue
        news = together.replace(batch, rows)
        singly = [one_by_one.replace(batch.rows(np.array([at])), rows[[at]]) for at in range(len(rows))]
        assert news == [each for some in singly for each in some]
        assert (together.samples, together.sums, together.origins) == (
            one_by_one.samples,
            one_by_one.sums,
            one_by_one.origins,
        )
        assert {row: together.held[row].tolist() for row in rows.tolist()} == {
            row: one_by_one.held[row].tolist() for row in rows.tolist()
        }

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

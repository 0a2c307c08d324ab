"""Dealing in blocks, dealing one by one and any block boundaries give the same rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from agentd.core.grid import UNIT
from agentd.core.rewards import DISTRIBUTIONS
from agentd.runs.arms import Arms, uniforms

units = st.floats(0.0, 1.0, exclude_max=True)


@st.composite
def any_arms(draw: st.DrawFn) -> Arms:
    kind = draw(st.sampled_from(list(DISTRIBUTIONS)))
    means = draw(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4))
    spread = None if kind == "bernoulli" else draw(st.floats(1e-9, 2.0))
    return Arms.fixed(means, kind, spread=spread)


@settings(max_examples=150, deadline=None)
@given(any_arms(), hnp.arrays(np.float64, st.integers(0, 40), elements=units), st.data())
def test_a_block_deals_what_single_pulls_deal_and_stays_on_the_grid(
    arms: Arms, u: np.ndarray[Any, np.dtype[np.float64]], data: st.DataObject
) -> None:
    number = data.draw(hnp.arrays(np.uint16, len(u), elements=st.integers(0, arms.count - 1)))
    dealt = arms.deal(number, u)
    assert dealt.dtype == np.int64
    assert dealt.tolist() == [arms.deal_one(int(k), float(x)) for k, x in zip(number, u, strict=True)]
    assert all(0 <= reward <= UNIT for reward in dealt.tolist())


@settings(max_examples=100, deadline=None)
@given(any_arms())
def test_more_luck_never_means_less_reward(arms: Arms) -> None:
    """A quantile function rises; a coin compares with u < mean and so falls."""
    u = np.linspace(0.0, 1.0, 500, endpoint=False)
    steps = np.diff(arms.deal(np.zeros(500, dtype=np.int64), u))
    assert (steps <= 0).all() if arms.kind == "bernoulli" else (steps >= 0).all()


@settings(max_examples=60, deadline=None)
@given(any_arms())
def test_declared_means_are_means_and_near_what_was_asked(arms: Arms) -> None:
    for mean, asked in zip(arms.means, arms.requested, strict=True):
        assert 0.0 <= mean <= 1.0
        assert abs(mean - asked) < 1e-3


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 300), st.lists(st.integers(0, 9), max_size=12))
def test_uniforms_do_not_depend_on_where_blocks_begin(seed: int, agent: int, sizes: list[int]) -> None:
    pieces, trial = [], 1
    for size in sizes:
        pieces += uniforms(seed, agent, trial, size).tolist()
        trial += size
    assert pieces == uniforms(seed, agent, 1, sum(sizes)).tolist()

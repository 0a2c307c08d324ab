"""The public grid: what a reward becomes, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agentd.core.grid import UNIT, quantise, quantise_all, renormalise, to_reward


@pytest.mark.parametrize(
    ("reward", "steps"),
    [
        (0.0, 0),
        (1.0, UNIT),
        (0.5, UNIT // 2),
        (0.4 / UNIT, 0),
        (0.5 / UNIT, 1),
        (1.5 / UNIT, 2),
        (2.5 / UNIT, 3),
        (-0.0, 0),
    ],
)
def test_a_reward_goes_to_the_nearest_step_and_halves_go_up(reward: float, steps: int) -> None:
    assert quantise(reward) == steps
    assert quantise_all(np.array([reward])).tolist() == [steps]


@pytest.mark.parametrize("reward", [-1e-300, math.nextafter(1.0, 2.0), math.inf, -math.inf, math.nan])
def test_a_reward_outside_the_unit_interval_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        quantise(reward)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        quantise_all(np.array([0.5, reward]))


def test_an_empty_array_stays_empty() -> None:
    assert quantise_all(np.array([])).shape == (0,)


def test_an_array_keeps_its_shape() -> None:
    assert quantise_all(np.full((2, 3), 0.25)).tolist() == [[UNIT // 4] * 3] * 2


def test_declared_bounds_map_onto_the_unit_interval() -> None:
    assert renormalise(-2.0, -2.0, 6.0) == 0.0
    assert renormalise(6.0, -2.0, 6.0) == 1.0
    assert renormalise(0.0, -2.0, 6.0) == 0.25


@pytest.mark.parametrize("value", [-2.1, 6.1, math.nan, math.inf])
def test_a_value_outside_the_declared_bounds_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="declared bounds"):
        renormalise(value, -2.0, 6.0)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (-math.inf, 1.0), (-1e308, 1e308), (0.0, math.nan)])
def test_bounds_that_span_no_finite_interval_are_refused(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="bounds must span"):
        renormalise(1.0, low, high)


def test_steps_read_back_as_rewards() -> None:
    assert to_reward(UNIT // 4) == 0.25
    assert to_reward(-3 * UNIT) == -3.0
    assert to_reward(UNIT / 2) == 0.5

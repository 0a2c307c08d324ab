"""The public grid: what a reward becomes, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agentd.core.grid import UNIT, quantise, quantise_all


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

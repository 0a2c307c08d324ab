"""The tight ε: exact for one release, never above what is known to hold, and what dp-accounting says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agentd.cli.ledger import dp_accounting_epsilon
from agentd.core.grid import UNIT
from agentd.core.privacy.composition import tight_epsilon
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.series import ReleaseSeries, scale_steps

DELTA = 1e-5


def series(epsilon: float, pulls: int) -> list[int]:
    """The noise scales of private-ucb over so many pulls of an arm."""
    return [scale_steps(n) for n in ReleaseSeries(epsilon).thresholds(pulls)]


def ledger_of(scales: list[int]) -> Ledger:
    ledger = Ledger()
    for trial, scale in enumerate(scales, start=1):
        ledger.record(Release(0, trial, trial, scale))
    return ledger


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_one_release_has_the_epsilon_of_the_laplace_mechanism(epsilon: float, delta: float) -> None:
    """δ(e) = 1 − exp((e − ε)/2), solved for e."""
    exact = UNIT / round(UNIT / epsilon) + 2 * math.log1p(-delta)
    assert exact <= tight_epsilon([round(UNIT / epsilon)], delta) <= exact + 1e-4 * epsilon


def test_two_releases_have_the_epsilon_of_their_convolution() -> None:
    """The discrete noise itself, on a coarse grid of 32 steps a reward: every pair of outputs, no approximation."""
    steps, reach = 32, 32 * 14
    x = np.arange(-reach, reach + 1)
    scale = float(steps)  # ε = 1
    likely = np.exp(-np.abs(x) / scale) / np.exp(-np.abs(x) / scale).sum()
    loss = (np.abs(x - steps) - np.abs(x)) / scale
    both, mass = np.add.outer(loss, loss).ravel(), np.multiply.outer(likely, likely).ravel()
    found = tight_epsilon([UNIT, UNIT], 0.05)
    there = float((mass * np.maximum(0.0, -np.expm1(found - both))).sum())
    assert there == pytest.approx(0.05, rel=0.02)  # the coarse grid is that far from ours


@pytest.mark.parametrize(("epsilon", "pulls"), [(1.0, 60), (0.1, 500)])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_it_is_never_above_what_is_known_to_hold(epsilon: float, pulls: int, delta: float) -> None:
    scales = series(epsilon, pulls)
    ledger, tight = ledger_of(scales), tight_epsilon(scales, delta)
    assert tight <= ledger.advanced_epsilon(delta) * (1 + 1e-9)
    assert tight >= tight_epsilon(scales[:-1], delta) - 1e-9
    assert tight >= tight_epsilon(scales, 10 * delta)


def test_more_sizes_than_are_convolved_one_by_one_cost_little() -> None:
    scales = series(1.0, 700)
    assert len(set(scales)) > 512
    ladder, exact = tight_epsilon(scales, DELTA), tight_epsilon(scales[:512], DELTA)
    assert exact < ladder < ledger_of(scales).advanced_epsilon(DELTA)
    assert tight_epsilon(series(1.0, 513), DELTA) == pytest.approx(exact, rel=2e-3)


def test_nothing_released_costs_nothing() -> None:
    assert tight_epsilon([], DELTA) == 0.0


@pytest.mark.parametrize("delta", [0.0, 1.0, 1e-13])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta must lie in"):
        tight_epsilon([UNIT], delta)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "pulls"), [(1.0, 20), (0.1, 300), (0.02, 1000)])
def test_it_is_within_one_percent_of_dp_accounting(epsilon: float, pulls: int) -> None:
    scales = series(epsilon, pulls)
    assert tight_epsilon(scales, DELTA) == pytest.approx(dp_accounting_epsilon(scales, DELTA), rel=0.01)

"""The bounds are the paper's formulas, with the corrections that the module names."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agentd.experiment import theory
from agentd.experiment.theory import (
    Bound,
    bernoulli_kl,
    byzantine_bound,
    gaps_of,
    lower_bound,
    private_bound,
    solo_bound,
)

TWO = (0.9, 0.5)  # one gap, of 0.4
LN = math.log(1000)


def test_zeta_of_three_halves_is_the_sum_of_its_series() -> None:
    """The tail after N is the integral from N + ½ on, up to N^−2.5 / 8."""
    terms = math.fsum(n**-1.5 for n in range(1, 100_001))
    assert abs(terms + 2 / math.sqrt(100_000.5) - theory.ZETA_THREE_HALVES) < 1e-12


def test_the_private_bound_is_the_theorem_in_numbers() -> None:
    expected = 3 * 8 * LN / 0.4 + 0.4 * (3 * (20 * 2 + 2) + 20 * (1 / 0.5 + 2.612375348685488))
    assert private_bound(TWO, 1000, agents=20, gamma=2, clique_cover=3, epsilon=0.5) == pytest.approx(expected)


def test_the_byzantine_bound_is_the_theorem_in_numbers() -> None:
    bias = 2 * 0.5 * math.sqrt(0.01)
    expected = 3 * 4 * 0.25 / (0.4 - bias) ** 2 * LN + (3 * 20 + 2 * 3 * 19) * 0.4
    assert byzantine_bound(
        TWO, 1000, agents=20, gamma=2, clique_cover=3, contamination=0.01, sigma=0.5
    ) == pytest.approx(expected)


def test_the_solo_bound_is_that_of_auer_and_others_for_each_agent() -> None:
    expected = 20 * (8 * LN / 0.4 + (1 + math.pi**2 / 3) * 0.4)
    assert solo_bound(TWO, 1000, agents=20) == pytest.approx(expected)


def test_the_lower_bound_diverges_from_the_arm_to_the_best() -> None:
    kl = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert lower_bound(TWO, 1000) == pytest.approx(0.4 / kl * LN)
    other_way = 0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)
    assert kl != pytest.approx(other_way, rel=0.1)


def test_bounds_add_up_over_arms() -> None:
    three = (0.9, 0.5, 0.2)
    assert lower_bound(three, 50) == pytest.approx(lower_bound(TWO, 50) + lower_bound((0.9, 0.2), 50))
    assert private_bound(three, 50, agents=4, gamma=1, clique_cover=2, epsilon=1.0) == pytest.approx(
        private_bound(TWO, 50, agents=4, gamma=1, clique_cover=2, epsilon=1.0)
        + private_bound((0.9, 0.2), 50, agents=4, gamma=1, clique_cover=2, epsilon=1.0)
    )


def test_the_contamination_condition_is_two_sigma_root_epsilon_below_the_smallest_gap() -> None:
    """With σ = ½ and Δ = 0.4 the limit is ε = 0.16; the form ε < Δ/2σ would allow up to 0.4."""
    assert math.isfinite(byzantine_bound(TWO, 1000, agents=20, gamma=2, clique_cover=3, contamination=0.1599))
    assert byzantine_bound(TWO, 1000, agents=20, gamma=2, clique_cover=3, contamination=0.1601) == math.inf
    assert byzantine_bound(TWO, 1000, agents=20, gamma=2, clique_cover=3, contamination=0.3) == math.inf
    assert byzantine_bound((0.9, 0.5, 0.85), 1000, agents=20, gamma=2, clique_cover=3, contamination=0.1) == math.inf


def test_an_infinite_bound_is_infinite_from_the_first_round() -> None:
    bound = theory.byzantine(TWO, agents=3, gamma=1, clique_cover=1, contamination=0.5)
    assert bound.curve(np.arange(1, 4)).tolist() == [math.inf] * 3


def test_a_curve_is_the_bound_round_by_round() -> None:
    bound = theory.private(TWO, agents=20, gamma=2, clique_cover=3, epsilon=0.5)
    curve = bound.curve(np.arange(1, 101))
    assert curve[0] == pytest.approx(bound.constant)
    assert curve.tolist() == [bound.at(t) for t in range(1, 101)]
    assert (np.diff(curve) > 0).all()


def test_rounds_before_the_first_have_no_bound() -> None:
    with pytest.raises(ValueError, match="from round 1 on"):
        Bound(1.0, 0.0).curve(np.array([3, 0]))


@pytest.mark.parametrize("means", [(0.5,), (0.7, 0.7, 0.7)])
def test_without_gaps_there_is_no_regret_to_bound(means: tuple[float, ...]) -> None:
    assert gaps_of(means) == ()
    assert lower_bound(means, 1000) == 0.0
    assert solo_bound(means, 1000, agents=20) == 0.0
    assert private_bound(means, 1000, agents=20, gamma=2, clique_cover=3, epsilon=1.0) == 0.0
    assert byzantine_bound(means, 1000, agents=20, gamma=2, clique_cover=3, contamination=0.9) == 0.0


def test_the_lower_bound_takes_means_of_zero_and_one() -> None:
    assert lower_bound((1.0, 0.5, 0.0), 1000) == 0.0
    assert lower_bound((0.5, 0.0), 1000) == pytest.approx(0.5 / math.log(2) * LN)


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [(0.3, 0.3, 0.0), (0.0, 0.5, math.log(2)), (1.0, 0.5, math.log(2)), (0.5, 1.0, math.inf), (0.5, 0.0, math.inf)],
)
def test_the_divergence_of_coins_takes_its_edges(p: float, q: float, expected: float) -> None:
    assert bernoulli_kl(p, q) == pytest.approx(expected)


@pytest.mark.parametrize("means", [TWO, (0.9, 0.85, 0.3), (0.99, 0.98), (0.02, 0.01, 0.0)])
@pytest.mark.parametrize("cover", [1, 5, 20])
def test_lower_bounds_lie_below_upper_bounds_and_cooperation_helps_in_the_long_run(
    means: tuple[float, ...], cover: int
) -> None:
    """Pinsker's inequality gives 8/Δ at least four times Δ/KL, so this holds for every T."""
    low, alone = theory.lower(means), theory.solo(means, agents=20)
    together = theory.private(means, agents=20, gamma=2, clique_cover=cover, epsilon=1.0)
    assert low.slope < together.slope <= alone.slope
    assert low.at(10_000) < together.at(10_000)


@pytest.mark.parametrize(("agents", "gamma", "cover"), [(0, 1, 1), (5, -1, 1), (5, 1, 0), (5, 1, 6)])
def test_graphs_that_cannot_be_are_refused(agents: int, gamma: int, cover: int) -> None:
    with pytest.raises(ValueError, match="clique cover"):
        private_bound(TWO, 10, agents=agents, gamma=gamma, clique_cover=cover, epsilon=1.0)
    with pytest.raises(ValueError, match="clique cover"):
        byzantine_bound(TWO, 10, agents=agents, gamma=gamma, clique_cover=cover, contamination=0.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_a_private_bound_needs_a_positive_epsilon(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be positive"):
        private_bound(TWO, 10, agents=5, gamma=1, clique_cover=1, epsilon=epsilon)


@pytest.mark.parametrize(("contamination", "sigma"), [(-0.1, 0.5), (1.1, 0.5), (math.nan, 0.5), (0.1, 0.0)])
def test_a_byzantine_bound_needs_a_fraction_and_a_deviation(contamination: float, sigma: float) -> None:
    with pytest.raises(ValueError, match="contamination in"):
        byzantine_bound(TWO, 10, agents=5, gamma=1, clique_cover=1, contamination=contamination, sigma=sigma)

"""The bounds are the paper's formulas, with the corrections that the module names."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agentd.experiment import theory
from agentd.experiment.theory import Bound, bernoulli_kl, gaps_of, lower, private

TWO = (0.9, 0.5)  # one gap, of 0.4
LN = math.log(1000)


def test_zeta_of_three_halves_is_the_sum_of_its_series() -> None:
    """The tail after N is the integral from N + ½ on, up to N^−2.5 / 8."""
    terms = math.fsum(n**-1.5 for n in range(1, 100_001))
    assert abs(terms + 2 / math.sqrt(100_000.5) - theory.ZETA_THREE_HALVES) < 1e-12


def test_the_private_bound_is_the_theorem_in_numbers() -> None:
    expected = 3 * 8 * LN / 0.4 + 0.4 * (3 * (20 * 2 + 2) + 20 * (1 / 0.5 + 2.612375348685488))
    assert private(TWO, agents=20, gamma=2, clique_cover=3, epsilon=0.5).at(1000) == pytest.approx(expected)


def test_the_lower_bound_diverges_from_the_arm_to_the_best() -> None:
    kl = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert lower(TWO).at(1000) == pytest.approx(0.4 / kl * LN)
    other_way = 0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)
    assert kl != pytest.approx(other_way, rel=0.1)


def test_bounds_add_up_over_arms() -> None:
    three = (0.9, 0.5, 0.2)
    assert lower(three).at(50) == pytest.approx(lower(TWO).at(50) + lower((0.9, 0.2)).at(50))
    assert private(three, agents=4, gamma=1, clique_cover=2, epsilon=1.0).at(50) == pytest.approx(
        private(TWO, agents=4, gamma=1, clique_cover=2, epsilon=1.0).at(50)
        + private((0.9, 0.2), agents=4, gamma=1, clique_cover=2, epsilon=1.0).at(50)
    )


def test_an_infinite_bound_is_infinite_from_the_first_round() -> None:
    assert Bound(math.inf, 1.0).curve(np.arange(1, 4)).tolist() == [math.inf] * 3


def test_a_curve_is_the_bound_round_by_round() -> None:
    bound = private(TWO, agents=20, gamma=2, clique_cover=3, epsilon=0.5)
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
    assert lower(means).at(1000) == 0.0
    assert private(means, agents=20, gamma=2, clique_cover=3, epsilon=1.0).at(1000) == 0.0


def test_the_lower_bound_takes_means_of_zero_and_one() -> None:
    assert lower((1.0, 0.5, 0.0)).at(1000) == 0.0
    assert lower((0.5, 0.0)).at(1000) == pytest.approx(0.5 / math.log(2) * LN)


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [(0.3, 0.3, 0.0), (0.0, 0.5, math.log(2)), (1.0, 0.5, math.log(2)), (0.5, 1.0, math.inf), (0.5, 0.0, math.inf)],
)
def test_the_divergence_of_coins_takes_its_edges(p: float, q: float, expected: float) -> None:
    assert bernoulli_kl(p, q) == pytest.approx(expected)


@pytest.mark.parametrize("means", [TWO, (0.9, 0.85, 0.3), (0.99, 0.98), (0.02, 0.01, 0.0)])
@pytest.mark.parametrize("cover", [1, 5, 20])
def test_the_lower_bound_lies_below_the_upper_one_and_cooperation_helps_in_the_long_run(
    means: tuple[float, ...], cover: int
) -> None:
    """Pinsker's inequality gives 8/Δ at least four times Δ/KL, so this holds for every T."""
    low, alone = lower(means), 20 * math.fsum(8.0 / gap for gap in gaps_of(means))  # UCB1 (Auer et al. 2002)
    together = private(means, agents=20, gamma=2, clique_cover=cover, epsilon=1.0)
    assert low.slope < together.slope <= alone
    assert low.at(10_000) < together.at(10_000)


@pytest.mark.parametrize(("agents", "gamma", "cover"), [(0, 1, 1), (5, -1, 1), (5, 1, 0), (5, 1, 6)])
def test_graphs_that_cannot_be_are_refused(agents: int, gamma: int, cover: int) -> None:
    with pytest.raises(ValueError, match="clique cover"):
        private(TWO, agents=agents, gamma=gamma, clique_cover=cover, epsilon=1.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_a_private_bound_needs_a_positive_epsilon(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be positive"):
        private(TWO, agents=5, gamma=1, clique_cover=1, epsilon=epsilon)

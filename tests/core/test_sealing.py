from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import drawn

from agentd.core.grid import UNIT
from agentd.core.message import Batch
from agentd.core.privacy.laplace import Noise, SeededLaplace
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.sealing import OpenBatch, SealedBatch, Weighting, nearest, share_of


class Shift:
    """Noise that is known."""

    def __init__(self, by: int) -> None:
        self.by = by
        self.drawn: list[tuple[int, int]] = []

    def draw(self, arm: int, scale: int) -> int:
        self.drawn.append((arm, scale))
        return self.by


def sealed(batch: OpenBatch, noise: Noise, arm: int, scale: int) -> SealedBatch:
    return batch.seal(Ledger(disjoint=True), drawn(Release(arm, 1, max(batch.pulls, 1), scale), noise))


def test_sealing_adds_noise_once_and_leaves_an_empty_batch() -> None:
    batch, noise = OpenBatch(), Shift(7)
    batch.add(UNIT)
    batch.add(3)
    assert sealed(batch, noise, 2, 50) == SealedBatch(2, UNIT + 10)
    assert noise.drawn == [(2, 50)]
    batch.add(5)
    assert sealed(batch, noise, 2, 50) == SealedBatch(1, 12)


def test_an_empty_batch_is_never_released() -> None:
    with pytest.raises(ValueError, match="nothing to release"):
        sealed(OpenBatch(), Shift(0), 0, 1)


def test_rewards_are_clamped_before_they_are_added() -> None:
    batch = OpenBatch()
    for reward in (-5, UNIT + 9, 4):
        batch.add(reward)
    assert sealed(batch, Shift(0), 0, 1) == SealedBatch(3, UNIT + 4)


def test_an_open_batch_shows_its_sum_nowhere() -> None:
    batch = OpenBatch()
    batch.add(123_457)
    shown = [name for name in dir(batch) if not name.startswith("_")]
    assert shown == ["add", "pulls", "seal"]
    assert "123457" not in repr(batch) + str(batch) + format(batch)
    assert not hasattr(batch, "__dict__")


def test_raw_and_released_are_types_of_their_own() -> None:
    assert not issubclass(OpenBatch, SealedBatch)
    assert not issubclass(SealedBatch, OpenBatch)
    assert not issubclass(OpenBatch, Batch)
    assert [field.name for field in fields(SealedBatch)] == ["pulls", "noised"]


@pytest.mark.parametrize(("epsilon", "scale", "handicap"), [(1.0, UNIT, 8), (2.0, UNIT // 2, 2), (0.5, 2 * UNIT, 32)])
def test_scale_and_handicap_follow_from_epsilon(epsilon: float, scale: int, handicap: int) -> None:
    assert Weighting.of(epsilon) == Weighting(scale, handicap * UNIT)


@given(st.floats(1e-6, 1e3))
def test_a_release_never_costs_more_than_epsilon(epsilon: float) -> None:
    cost = Fraction(UNIT, Weighting.of(epsilon).scale)
    assert cost <= Fraction(epsilon)
    assert float(cost) == pytest.approx(epsilon, rel=max(1e-5, 2 * epsilon / UNIT))


@given(st.floats(1e-3, 1e3), st.integers(1, 1000))
def test_the_rewards_of_a_person_cost_no_more_than_epsilon_together(epsilon: float, rewards: int) -> None:
    share = share_of(epsilon, rewards)
    assert rewards * Fraction(UNIT, Weighting.of(share).scale) <= Fraction(epsilon)
    assert share == pytest.approx(epsilon / rewards, rel=1e-12)


@given(st.integers(1, 10**6), st.integers(-(10**12), 10**12), st.sampled_from([0.1, 0.3, 1.0, 3.0]))
def test_worth_and_weighed_sum_are_the_formulas_to_half_a_step(pulls: int, noised: int, epsilon: float) -> None:
    weighting = Weighting.of(epsilon)
    weight = Fraction(pulls, 1) / (pulls + Fraction(weighting.handicap, UNIT))
    assert abs(weighting.samples(pulls) - weight * pulls * UNIT) <= Fraction(1, 2)
    assert abs(weighting.weighed(pulls, noised) - weight * noised) <= Fraction(1, 2)


@pytest.mark.parametrize(
    ("over", "under", "result"), [(1, 2, 1), (-1, 2, 0), (3, 2, 2), (-3, 2, -1), (5, 3, 2), (0, 7, 0)]
)
def test_halves_go_up(over: int, under: int, result: int) -> None:
    assert nearest(over, under) == result


def test_the_weighted_sum_has_the_promised_mean_and_at_most_the_promised_variance() -> None:
    """5,000 batches of 3 fair coins at ε = 1; the standard error of the mean is below 0.01 of a reward."""
    weighting, noise = Weighting.of(1.0), SeededLaplace(3, 0)
    coins = SeededLaplace(4, 0)
    sums = []
    for _ in range(5_000):
        batch = OpenBatch()
        for _ in range(3):
            batch.add(UNIT if coins.draw(0, UNIT) > 0 else 0)
        sums.append(weighting.weighed(3, sealed(batch, noise, 0, weighting.scale).noised) / UNIT)
    samples = weighting.samples(3) / UNIT
    mean = sum(sums) / len(sums)
    variance = sum((value - mean) ** 2 for value in sums) / len(sums)
    assert mean == pytest.approx(samples / 2, abs=0.03)
    assert variance == pytest.approx(samples / 4, rel=0.08)

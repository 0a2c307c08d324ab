"""Reward distributions deal what they declare, one by one or in blocks."""

from __future__ import annotations

import json
import math
from copy import deepcopy
from statistics import NormalDist

import numpy as np
import pytest

from agentd.core.chance import Purpose, stream
from agentd.core.grid import UNIT
from agentd.core.rewards import DISTRIBUTIONS
from agentd.runs.arms import ARMS_LIMIT, TABLE_ARMS_LIMIT, Arms, uniforms

MEANS = (0.0, 1e-7, 1e-4, 0.02, 0.3, 0.5, 0.77, 0.99, 1.0)
DRAWS = 100_000


def draws(arms: Arms, arm: int, seed: int = 11) -> np.ndarray:
    return arms.deal(np.full(DRAWS, arm, dtype=np.uint16), uniforms(seed, arm, 1, DRAWS))


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_the_empirical_mean_agrees_with_the_declared_one_within_five_standard_errors(kind: str) -> None:
    arms = Arms.fixed(MEANS, kind)
    for number, mean in enumerate(arms.means):
        dealt = draws(arms, number) / UNIT
        # The floor of one grid step in 10^4 pulls covers arms whose sample happens to be constant.
        assert abs(dealt.mean() - mean) <= 5 * max(dealt.std() / math.sqrt(DRAWS), 1e-7)


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_the_dealt_mean_is_near_the_requested_one(kind: str) -> None:
    requested = np.linspace(0.0, 1.0, 101)
    arms = Arms.fixed(requested, kind)
    assert np.abs(np.array(arms.means) - requested).max() < 1e-5


@pytest.mark.parametrize("kind", ["beta", "normal", "uniform"])
@pytest.mark.parametrize("spread", [1e-12, 1e-4, 0.05, 0.3, 100.0])
def test_any_spread_keeps_the_mean_and_the_range(kind: str, spread: float) -> None:
    arms = Arms.fixed(MEANS, kind, spread=spread)
    assert np.abs(np.array(arms.means) - np.array(MEANS)).max() < 1e-3
    for number in range(arms.count):
        dealt = draws(arms, number)
        assert dealt.min() >= 0
        assert dealt.max() <= UNIT


def test_the_declared_mean_is_the_exact_average_over_all_uniforms() -> None:
    """A table of few steps is averaged by brute force: every uniform of a fine lattice, centred in its cell."""
    for kind in ("beta", "normal", "uniform"):
        arms = Arms.fixed([0.5 + 1e-6, 3e-5], kind, spread=2e-5)
        lattice = (np.arange(1 << 20) + 0.5) / (1 << 20)
        for number in range(2):
            dealt = arms.deal(np.full(len(lattice), number), lattice)
            assert dealt.mean() / UNIT == pytest.approx(arms.means[number], abs=1e-10)


def test_a_coin_deals_nothing_or_one_whole_reward() -> None:
    arms = Arms.fixed([0.3])
    u = np.array([0.0, np.nextafter(0.3, 0.0), 0.3, 0.9])
    assert arms.deal(np.zeros(4, dtype=np.uint16), u).tolist() == [UNIT, UNIT, 0, 0]
    assert arms.means == (0.3,)


def test_certain_coins_never_surprise() -> None:
    arms = Arms.fixed([0.0, 1.0])
    assert draws(arms, 0).max() == 0
    assert draws(arms, 1).min() == UNIT


def test_uniform_rewards_take_the_largest_width_that_fits() -> None:
    arms = Arms.fixed([0.1, 0.5, 1.0], "uniform", spread=0.25)
    low_arm, middle_arm, sure_arm = (draws(arms, number) / UNIT for number in range(3))
    assert (low_arm.min(), low_arm.max()) == (pytest.approx(0.0, abs=1e-4), pytest.approx(0.2, abs=1e-4))
    assert (middle_arm.min(), middle_arm.max()) == (
        pytest.approx(0.25, abs=1e-4),
        pytest.approx(0.75, abs=1e-4),
    )
    assert sure_arm.min() == sure_arm.max() == 1.0


def test_normal_rewards_have_normal_quantiles() -> None:
    arms = Arms.fixed([0.5], "normal", spread=0.05)
    for u in (0.001, 0.02, 0.25, 0.5, 0.9, 0.999):
        expected = NormalDist(0.5, 0.05).inv_cdf(u)
        assert arms.deal_one(0, u) / UNIT == pytest.approx(expected, abs=1e-4)


def test_beta_rewards_have_the_spread_asked_for_and_beta_quantiles() -> None:
    """Beta(2, 1) has F(x) = x², mean 2/3 and variance 1/18."""
    arms = Arms.fixed([2 / 3], "beta", spread=math.sqrt(1 / 18))
    for u in (0.01, 0.3, 0.5, 0.99):
        assert arms.deal_one(0, u) / UNIT == pytest.approx(math.sqrt(u), abs=1e-4)
    assert (draws(arms, 0) / UNIT).std() == pytest.approx(math.sqrt(1 / 18), rel=0.01)


def test_a_beta_too_wide_for_one_peak_is_narrowed_until_it_has_one() -> None:
    """The widest single-peaked beta with mean 1/2 is flat."""
    arms = Arms.fixed([0.5], "beta", spread=0.49)
    for u in (0.01, 0.25, 0.9):
        assert arms.deal_one(0, u) / UNIT == pytest.approx(u, abs=1e-4)


def test_arms_stored_as_uint16_do_not_overflow_the_table() -> None:
    arms = Arms.fixed(np.linspace(0.1, 0.9, 100), "normal", spread=0.01)
    number = np.arange(100, dtype=np.uint16)
    dealt = arms.deal(number, np.full(100, 0.5)) / UNIT
    assert np.abs(dealt - np.linspace(0.1, 0.9, 100)).max() < 1e-4


def test_random_arms_come_from_their_own_stream_and_range() -> None:
    first = Arms.random(50, stream(3, Purpose.ARMS), low=0.3, high=0.7)
    again = Arms.random(50, stream(3, Purpose.ARMS), low=0.3, high=0.7)
    other = Arms.random(50, stream(4, Purpose.ARMS), low=0.3, high=0.7)
    assert first == again
    assert first != other
    assert 0.3 <= min(first.means) < 0.4
    assert 0.6 < max(first.means) <= 0.7


def test_random_arms_may_all_be_equal() -> None:
    assert Arms.random(3, stream(1, Purpose.ARMS), low=0.4, high=0.4).means == (0.4, 0.4, 0.4)


@pytest.mark.parametrize("first", [1, 2, 3, 4, 5, 8, 997])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 10])
def test_blocks_of_uniforms_are_windows_of_one_sequence(first: int, count: int) -> None:
    whole = stream(7, Purpose.REWARD, 3).random(1100)
    assert uniforms(7, 3, first, count).tolist() == whole[first - 1 : first - 1 + count].tolist()


def test_agents_and_seeds_have_their_own_uniforms() -> None:
    assert uniforms(7, 3, 1, 4).tolist() != uniforms(7, 4, 1, 4).tolist()
    assert uniforms(7, 3, 1, 4).tolist() != uniforms(8, 3, 1, 4).tolist()


@pytest.mark.parametrize(("agent", "first", "count"), [(0, 0, 1), (0, 1, -1), (-1, 1, 1)])
def test_uniforms_of_trials_that_cannot_be_are_refused(agent: int, first: int, count: int) -> None:
    with pytest.raises(ValueError, match="no such trials"):
        uniforms(7, agent, first, count)


def test_declared_bounds_only_change_how_rewards_are_read() -> None:
    arms = Arms.fixed([0.5], bounds=(-10.0, 30.0))
    assert arms.deal_one(0, 0.1) == UNIT


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_arms_survive_json_and_the_way_to_another_process(kind: str) -> None:
    arms = Arms.fixed([0.2, 0.8], kind, spread=None if kind == "bernoulli" else 0.07, bounds=(0.0, 5.0))
    for twin in (Arms.from_json(json.loads(json.dumps(arms.to_json()))), deepcopy(arms)):
        assert twin == arms
        assert twin.means == arms.means
        assert draws(twin, 1).tolist() == draws(arms, 1).tolist()


def test_the_default_spread_is_written_down() -> None:
    assert Arms.fixed([0.5], "normal").to_json()["spread"] == 0.1
    assert Arms.fixed([0.5]).to_json()["spread"] is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"means": []}, "number of bernoulli arms must be in 1…65535, got 0"),
        ({"means": [0.5, 1.5]}, r"mean of arm 1 must lie in \[0, 1\], got 1.5"),
        ({"means": [-0.1]}, "mean of arm 0"),
        ({"means": [math.nan]}, "got nan"),
        ({"means": [0.5] * (ARMS_LIMIT + 1)}, "got 65536"),
        ({"means": [0.5] * (TABLE_ARMS_LIMIT + 1), "kind": "beta"}, "number of beta arms must be in 1…4096"),
        ({"kind": "cauchy"}, "unknown reward distribution 'cauchy'; choose one of bernoulli, beta, "),
        ({"bounds": (1.0, 0.0)}, "low < high"),
        ({"bounds": (1.0, 1.0)}, "low < high"),
        ({"bounds": (0.0, math.inf)}, "both finite"),
        ({"spread": 0.1}, "bernoulli rewards take no spread"),
        ({"kind": "normal", "spread": 0.0}, "spread of rewards must be positive"),
        ({"kind": "normal", "spread": math.nan}, "spread of rewards must be positive"),
    ],
)
def test_what_cannot_be_dealt_is_refused_in_one_line(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refusal:
        Arms.fixed(**({"means": [0.5]} | change))  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("count", "low", "high"), [(0, 0, 1), (65_536, 0, 1), (2, 0.7, 0.3), (2, -1, 1), (2, 0, 2)])
def test_random_arms_of_an_impossible_range_are_refused(count: int, low: float, high: float) -> None:
    with pytest.raises(ValueError, match=r"number of arms|within \[0, 1\]"):
        Arms.random(count, stream(1, Purpose.ARMS), low, high)


@pytest.mark.parametrize(("arm", "u"), [(-1, 0.5), (2, 0.5), (0, 1.0), (0, -0.1), (0, math.nan)])
def test_pulls_of_no_arm_or_without_a_uniform_are_refused(arm: int, u: float) -> None:
    with pytest.raises(ValueError, match=r"arms, numbered from 0|must lie in"):
        Arms.fixed([0.2, 0.8]).deal_one(arm, u)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"requested": None}, "malformed"), ({"low": []}, "malformed"), ({"kind": "x"}, "unknown reward")],
)
def test_a_malformed_description_is_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Arms.from_json(Arms.fixed([0.5]).to_json() | change)


def test_an_incomplete_description_names_what_is_missing() -> None:
    with pytest.raises(ValueError, match="lacks 'requested'"):
        Arms.from_json({"kind": "bernoulli"})

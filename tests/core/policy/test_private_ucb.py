"""private-ucb: when it releases, what it tells, what it makes of what it hears."""

from __future__ import annotations

import math

import numpy as np
import pytest
import small_runs
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import news, released, sample, samples

from agentd.core.bodies import RELEASED
from agentd.core.bodies.release_limits import MAX_GAP, limits_of
from agentd.core.grid import UNIT
from agentd.core.message import MAX_ARMS, MAX_TRIAL, Message
from agentd.core.policy import PolicySettings
from agentd.core.policy.private_ucb import PrivateUcb, extrapolated
from agentd.core.privacy.series import ReleaseSeries, scale_steps

ROW = np.array([0])
NOISE = 5


class Fixed:
    """Noise that is always the same, and notes what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def draw(self, arm: int, scale: int) -> int:
        self.asked.append((arm, scale))
        return NOISE


class Sourced(PrivateUcb):
    """The policy, with the noise that is drawn for it at hand."""

    noise: Fixed


def private(arms: int = 1, **knobs: float) -> tuple[Sourced, Fixed]:
    policy = Sourced(PolicySettings(arms=arms, **knobs))  # type: ignore[arg-type]
    policy.noise = Fixed()
    return policy, policy.noise


def observe(policy: Sourced, trial: int, arm: int, reward: int, told: int) -> None:
    small_runs.observe(policy, trial, arm, reward, told, noise=policy.noise)


def test_until_the_first_release_nothing_at_all_is_told() -> None:
    """Not even the pulls: ε = 0.1 releases at 7, 16, 26, …"""
    policy, _ = private(epsilon=0.1)
    for trial in range(1, 7):
        observe(policy, trial, 0, UNIT, UNIT)
        assert policy.body() == (RELEASED, [0, 0, 0])
    observe(policy, 7, 0, UNIT, UNIT)
    assert policy.body() == (RELEASED, [7, 7, 7 * UNIT + NOISE])


def test_between_releases_only_the_number_of_pulls_moves() -> None:
    policy, _ = private(epsilon=0.1)
    for trial in range(1, 16):
        observe(policy, trial, 0, UNIT, UNIT)
    assert policy.body() == (RELEASED, [15, 7, 7 * UNIT + NOISE])
    observe(policy, 16, 0, 0, 0)
    assert policy.body() == (RELEASED, [16, 16, 15 * UNIT + NOISE])


@pytest.mark.parametrize(("epsilon", "v"), [(0.1, 1.1), (0.5, 1.3), (1.0, 1.1), (3.0, 1.05)])
def test_releases_follow_the_series_each_with_the_noise_of_its_pulls(epsilon: float, v: float) -> None:
    policy, noise = private(epsilon=epsilon, v=v)
    for trial in range(1, 101):
        observe(policy, trial, 0, 0, 0)
    thresholds = ReleaseSeries(epsilon, v).thresholds(100)
    assert noise.asked == [(0, scale_steps(pulls, v)) for pulls in thresholds]
    assert policy.ledger.releases() == len(thresholds)
    assert policy.ledger.pure_epsilon() == pytest.approx(math.fsum(n ** (-v / 2) for n in thresholds), rel=1e-6)


def test_arms_are_released_each_at_its_own_pulls() -> None:
    policy, noise = private(arms=2, epsilon=0.1)
    for trial in range(1, 8):
        observe(policy, trial, 1, 0, 0)
    assert noise.asked == [(1, scale_steps(7))]
    assert policy.body() == (RELEASED, [0, 0, 0, 7, 7, NOISE])


@pytest.mark.parametrize("restarted_after", [3, 7, 12, 16])
def test_a_restored_policy_releases_where_the_old_one_would_have(restarted_after: int) -> None:
    policy, noise = private(arms=2, epsilon=0.1)
    for trial in range(1, restarted_after + 1):
        observe(policy, trial, 1, 0, 0)
    again, later = private(arms=2, epsilon=0.1)
    again.restore(policy.snapshot())
    for trial in range(restarted_after + 1, 40):
        observe(again, trial, 1, 0, 0)
    assert noise.asked + later.asked == [(1, scale_steps(pulls)) for pulls in (7, 16, 26, 36)]


def test_what_is_released_is_what_is_told_and_not_what_was_seen() -> None:
    policy, _ = private()
    observe(policy, 1, 0, UNIT, 0)
    assert policy.body() == (RELEASED, [1, 1, NOISE])


@pytest.mark.parametrize(("epsilon", "rounds"), [(1.0, 2), (0.5, 4), (0.3, 8), (2.0, 2)])
def test_it_pulls_in_turn_for_as_long_as_the_paper_says(epsilon: float, rounds: int) -> None:
    policy, _ = private(arms=2, epsilon=epsilon)
    policy.learn(news(released(Message(1, 99, 1, (40, 40, 40 * UNIT, 40, 40, 0)))))
    for trial in range(1, rounds + 1):
        assert policy.choose(trial) == (trial - 1) % 2
        observe(policy, trial, (trial - 1) % 2, 0, 0)
    assert policy.choose(rounds + 1) == 0


def test_it_decides_on_own_raw_rewards_and_the_others_releases() -> None:
    """Own noise never enters own decisions: 5 steps of it would break this tie."""
    policy, _ = private(arms=2)
    observe(policy, 1, 0, UNIT, UNIT)
    observe(policy, 2, 1, UNIT, UNIT)
    assert policy.choose(3) == 0
    told = released(Message(1, 9, 1, (4, 4, 0, 4, 4, 1)))
    policy.learn(news(told))
    assert policy.choose(3) == 1
    policy.forget(ROW, {RELEASED: told.cells})
    assert policy.choose(3) == 0


def test_bodies_of_another_kind_are_ignored() -> None:
    policy, _ = private(arms=2)
    observe(policy, 1, 0, 0, 0)
    observe(policy, 2, 1, 0, 0)
    policy.learn(news(samples(sample(1, 1, arm=1, reward=UNIT))))
    assert policy.choose(3) == 0


def columns(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, dtype=np.int64)


def test_nothing_released_contributes_nothing() -> None:
    assert extrapolated(columns(0), columns(0), columns(0)).tolist() == [0]


@given(st.integers(1, MAX_TRIAL), st.floats(1, MAX_GAP), st.floats(-1, 1))
@settings(deadline=None)
def test_the_extrapolation_is_exact_for_every_release_the_checks_let_through(
    at_release: int, gap: float, place: float
) -> None:
    now = min(MAX_TRIAL, int(at_release * gap))
    scales = limits_of(None, None, MAX_ARMS).scales
    reach = at_release * UNIT + int(scales * UNIT * at_release**0.75)
    noised = int(place * reach)
    assert extrapolated(columns(now), columns(at_release), columns(noised)).tolist() == [now * noised // at_release]


bodies = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 30), st.integers(-(1 << 30), 1 << 30)), max_size=12)


@given(bodies, st.integers(0, 12))
@settings(deadline=None)
def test_what_the_group_says_is_the_sum_of_the_newest_releases(told: list[tuple[int, int, int]], literal: int) -> None:
    """One origin's releases, the first few of them of the moment, the others extrapolated; then it is forgotten."""
    policy, _ = private(arms=1)
    before, pulls = released(Message(1, 1, 1, (0, 0, 0))), 0
    for place, (more, behind, noised) in enumerate(told):
        pulls += more
        at_release = pulls if place < literal else max(1, pulls - behind)
        after = released(Message(1, 2 + place, 1, (pulls, at_release, noised)))
        policy.learn(news(after, before=before))
        assert policy._pool.counts == [pulls]
        assert policy._pool.sums == [pulls * noised // at_release]
        before = after
    policy.forget(ROW, {RELEASED: before.cells})
    assert (policy._pool.counts, policy._pool.sums) == ([0], [0])

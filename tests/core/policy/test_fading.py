"""What was released fades from when it was first heard; records stay cumulative, and nobody gains by repeating them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.assembly import assemble
from agentd.core.chance import Purpose, stream
from agentd.core.grid import UNIT, quantise
from agentd.core.policy import PolicySettings
from agentd.core.policy.coins import KeyedCoins
from agentd.core.policy.remembered.fading import OWN, Fading
from agentd.core.privacy.laplace import ExactLaplace
from agentd.core.terms import Terms
from agentd.errors import SettingsError
from agentd.runs.arms import Arms
from agentd.runs.spec import Network, RunSpec
from agentd.simulation.engine import has_twin, refuse_what_needs_agents

HALF_LIFE = 10
BEFORE, AFTER = (0.9, 0.7, 0.5, 0.3), (0.2, 0.7, 0.5, 0.3)


def rows(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, dtype=np.int64)


def test_what_was_heard_counts_half_after_a_half_life() -> None:
    fading = Fading(2, HALF_LIFE)
    fading.pass_to(5)
    fading.tell(1, 0, 8, 4 * UNIT, 2 * UNIT)
    fading.pass_to(5 + HALF_LIFE)
    assert (fading.samples, fading.sums) == ([2 * UNIT, 0], [UNIT, 0])


def test_each_increment_is_dated_by_itself() -> None:
    fading = Fading(1, HALF_LIFE)
    fading.pass_to(1)
    fading.tell(1, 0, 8, 4 * UNIT, 4 * UNIT)
    fading.pass_to(1 + HALF_LIFE)
    fading.tell(1, 0, 16, 8 * UNIT, 5 * UNIT)
    assert (fading.samples, fading.sums) == ([6 * UNIT], [3 * UNIT])


@given(st.integers(1, 20), st.integers(1, 50))
def test_what_is_said_again_counts_once(times: int, later: int) -> None:
    fading, once = Fading(1, HALF_LIFE), Fading(1, HALF_LIFE)
    for each, repeats in ((fading, times), (once, 1)):
        each.pass_to(1)
        for _ in range(repeats):
            each.tell(1, 0, 8, 4 * UNIT, UNIT)
        each.pass_to(1 + later)
    fading.renew(rows(1))  # a restart with the state that it had
    fading.tell(1, 0, 8, 4 * UNIT, UNIT)
    assert (fading.samples, fading.sums) == (once.samples, once.sums)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 100), st.booleans()), max_size=30))
def test_nobody_weighs_more_than_all_it_has_ever_told_at_once(said: list[tuple[int, int, bool]]) -> None:
    """However often an origin comes back under a new incarnation."""
    fading, trial = Fading(1, HALF_LIFE), 1
    fading.pass_to(trial)
    for wait, pulls, renewed in said:
        trial += wait
        fading.pass_to(trial)
        if renewed:
            fading.renew(rows(1))
        fading.tell(1, 0, pulls, pulls * UNIT, pulls * UNIT)
    assert fading.samples[0] <= max((pulls for _, pulls, _ in said), default=0) * UNIT


def test_one_that_lost_its_state_counts_as_new() -> None:
    fading = Fading(1, HALF_LIFE)
    fading.pass_to(1)
    fading.tell(1, 0, 80, 40 * UNIT, 40 * UNIT)
    fading.renew(rows(1))
    fading.tell(1, 0, 8, 4 * UNIT, UNIT)
    assert (fading.samples, fading.sums) == ([4 * UNIT], [UNIT])


def test_own_releases_fade_like_others() -> None:
    fading = Fading(1, HALF_LIFE)
    fading.pass_to(1)
    fading.tell(OWN, 0, 8, 4 * UNIT, UNIT)
    fading.pass_to(1 + 2 * HALF_LIFE)
    assert fading.samples == [UNIT]


def group(half_life: int | None, seed: int, rounds: int, change: int) -> list[list[int]]:
    """The arms that three agents pulled in lockstep; after `change` rounds the best arm is the worst."""
    chance = stream(seed, Purpose.REWARD, 0)
    noise = stream(seed, Purpose.NOISE, 0)
    settings = PolicySettings(arms=4, half_life=half_life)
    agents = [
        assemble(
            own,
            "sealed",
            settings,
            Terms(4, 1),
            noise=ExactLaplace(noise.bytes),
            coins=KeyedCoins(seed, own),
            neighbours=[peer for peer in range(3) if peer != own],
        )
        for own in range(3)
    ]
    pulled: list[list[int]] = [[], [], []]
    for trial in range(1, rounds + 1):
        said = []
        for own, agent in enumerate(agents):
            arm = agent.choose().arm
            pulled[own].append(arm)
            mean = (BEFORE if trial <= change else AFTER)[arm]
            turn = agent.advance(quantise(min(1.0, max(0.0, mean + 0.05 * chance.standard_normal()))))
            turn.committed()
            said.append(turn.outbox())
        for own, agent in enumerate(agents):
            agent.receive([batch for peer, batches in enumerate(said) if peer != own for batch in batches])
    return pulled


def share(pulls: list[list[int]], arm: int) -> float:
    return sum(each.count(arm) for each in pulls) / sum(map(len, pulls))


@pytest.mark.parametrize("seed", range(4))
def test_a_group_follows_when_the_best_arm_becomes_the_worst(seed: int) -> None:
    """Within 200 rounds, with a half-life of 60; the page on real arms has figures of more repetitions."""
    pulls = group(60, seed, 760, 500)
    assert share([each[400:500] for each in pulls], 0) > 0.6
    assert all(each[700:].count(1) > 30 for each in pulls)


def test_without_a_half_life_it_does_not_follow_so_soon() -> None:
    assert sum(share([each[700:] for each in group(None, seed, 760, 500)], 1) < 0.5 for seed in range(4)) >= 2


def test_the_vectorised_engine_says_that_it_has_no_twin() -> None:
    assert has_twin("sealed")
    assert not has_twin("sealed", 60)
    assert has_twin("ucb1", 60)
    spec = RunSpec(
        Network(((1,), (0,))),
        Arms.fixed((0.5, 0.25)),
        "sealed",
        5,
        1,
        PolicySettings(arms=2, half_life=60),
        7,
    )
    with pytest.raises(SettingsError, match="as --half-life asks; use --engine agents"):
        refuse_what_needs_agents([spec])

"""The vectorised engine takes the decisions that the agents take: the paper's setting, smaller, for every algorithm.

`test_engine.py` has the corner cases at a few dozen rounds. Here the runs are long enough for release series, robust
means and streams of noise to leave their first blocks, and there are many of them.
"""

from __future__ import annotations

import pytest
from small_runs import assert_engines_agree, ring, spec

from agentd.core.policy import ALGORITHMS, RULES
from agentd.runs.scenario import make_scenario
from agentd.runs.spec import RunSpec
from agentd.settings import TestbedSettings

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 10))]
FEW = [0, pytest.param(1, marks=pytest.mark.long)]


def scenario(algorithm: str, seed: int, **changed: object) -> RunSpec:
    """20 agents, edge probability 0.3, 300 rounds, γ = 2."""
    small = {"agents": 20, "edge_probability": 0.3, "rounds": 300, "gamma": "2", "algorithm": algorithm, "seed": seed}
    return make_scenario(TestbedSettings(**(small | changed))).spec  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_engines_agree(algorithm: str, seed: int) -> None:
    assert_engines_agree(scenario(algorithm, seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", FEW)
@pytest.mark.parametrize("reward", ["beta", "uniform", "normal"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_they_agree_on_every_kind_of_reward(algorithm: str, reward: str, seed: int) -> None:
    assert_engines_agree(scenario(algorithm, seed, reward=reward, agents=11, rounds=200))


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["worst", "uniform", "bernoulli:0.7", "point:0.2"])
@pytest.mark.parametrize("algorithm", ["coop-ucb", "private-ucb", "byzantine-ucb", "sealed"])
def test_they_agree_on_liars(algorithm: str, attack: str) -> None:
    assert_engines_agree(scenario(algorithm, 3, byzantine=6, contamination=0.3, attack=attack, agents=13, rounds=200))


@pytest.mark.slow
@pytest.mark.parametrize("gamma", ["0", "1", "full"])
@pytest.mark.parametrize("algorithm", ["coop-ucb", "private-ucb", "byzantine-ucb", "sealed"])
def test_they_agree_on_every_lifetime(algorithm: str, gamma: str) -> None:
    assert_engines_agree(scenario(algorithm, 4, gamma=gamma, rounds=200))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.02, 0.3, 3.0])
@pytest.mark.parametrize("algorithm", ["dp-ucb-int", "private-ucb", "sealed"])
def test_they_agree_on_every_privacy_rate(algorithm: str, epsilon: float) -> None:
    assert_engines_agree(scenario(algorithm, 5, epsilon=epsilon, agents=15))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["winsorised", "clipped"])
@pytest.mark.parametrize("reward", ["bernoulli", "beta"])
def test_they_agree_on_every_estimator(estimator: str, reward: str) -> None:
    assert_engines_agree(scenario("byzantine-ucb", 6, estimator=estimator, reward=reward, agents=11, rounds=200))


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", ["1", "2", "full"])
def test_they_agree_on_every_rule_of_sealed(rule: str, gamma: str) -> None:
    assert_engines_agree(scenario("sealed", 8, rule=rule, gamma=gamma, refresh=7, random_arms=3, agents=11, rounds=200))


@pytest.mark.slow
@pytest.mark.parametrize("arms", [1, 2, 12])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_they_agree_on_any_number_of_arms(algorithm: str, arms: int) -> None:
    assert_engines_agree(scenario(algorithm, 7, random_arms=arms, agents=9, rounds=150))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_runs_side_by_side_do_not_touch(algorithm: str) -> None:
    """Four graphs, four lifetimes, four sets of arms and liars in one call."""
    assert_engines_agree(
        *(
            scenario(algorithm, seed, gamma=gamma, byzantine=seed, contamination=0.2, agents=11, rounds=150)
            for seed, gamma in enumerate(("0", "1", "3", "full"))
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["dp-ucb-int", "private-ucb"])
def test_they_agree_when_noise_outlives_its_first_block(algorithm: str) -> None:
    """600 releases of one arm: 1200 exponentials, more than two blocks of 512."""
    assert_engines_agree(spec(ring(3), algorithm, rounds=600, means=(0.5,)))

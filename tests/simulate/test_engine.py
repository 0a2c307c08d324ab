"""The vectorised engine: what it refuses, what it reports, and small runs against the agents on every path."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from small_runs import assert_engines_agree, complete, line, network, ring, sparse, spec

from agentd.core.policy import ALGORITHMS
from agentd.core.privacy.series import ReleaseSeries
from agentd.errors import SettingsError
from agentd.runs.spec import NOT_PULLED, Network, RunSpec
from agentd.simulation import vector_policies
from agentd.simulation.engine import refuse_what_needs_agents, run_vector
from agentd.simulation.network import run_agents


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("graph", "gamma"),
    [(ring(5), 2), (ring(6), 0), (line(4), 1), (complete(5), 9), (network(1, []), 2), (network(2, [(0, 1)]), 1)],
    ids=["odd ring", "no lifetime", "one hop", "beyond the diameter", "alone", "a pair"],
)
def test_small_runs_agree(algorithm: str, graph: Network, gamma: int) -> None:
    assert_engines_agree(spec(graph, algorithm, rounds=50, gamma=gamma, means=(0.3, 0.8, 0.6)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("means", [(0.4,), (0.4, 0.5), (0.5,) * 7], ids=len)
def test_any_number_of_arms_agrees(algorithm: str, means: tuple[float, ...]) -> None:
    assert_engines_agree(spec(sparse(6, 0.2, 1), algorithm, rounds=50, means=means))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("reward", ["bernoulli", "beta", "uniform", "normal"])
def test_every_kind_of_reward_agrees(algorithm: str, reward: str) -> None:
    assert_engines_agree(spec(sparse(6, 0.2, 1), algorithm, rounds=50, reward=reward))


@pytest.mark.parametrize("algorithm", ["dp-ucb-int", "private-ucb"])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.99, 3.0])
@pytest.mark.parametrize("v", [1.01, 1.49])
def test_every_privacy_rate_agrees(algorithm: str, epsilon: float, v: float) -> None:
    assert_engines_agree(spec(sparse(6, 0.2, 1), algorithm, rounds=60, epsilon=epsilon, v=v))


@pytest.mark.parametrize("algorithm", ["coop-ucb", "private-ucb", "byzantine-ucb"])
@pytest.mark.parametrize("attack", ["worst", "uniform", "bernoulli:0.3", "point:0.9"])
def test_liars_agree(algorithm: str, attack: str) -> None:
    run = spec(sparse(7, 0.2, 1), algorithm, rounds=50, liars=[1, 4], attack=attack, contamination=0.4)
    assert_engines_agree(run)
    assert not np.array_equal(run_vector([run])[0].arm, run_vector([replace(run, liars=frozenset())])[0].arm)


@pytest.mark.parametrize("estimator", ["trimmed", "winsorised", "clipped"])
@pytest.mark.parametrize("reward", ["bernoulli", "beta"])
def test_every_estimator_agrees_past_its_fallback(estimator: str, reward: str) -> None:
    run = spec(complete(7), "byzantine-ucb", rounds=150, means=(0.3, 0.5), reward=reward, estimator=estimator)
    assert_engines_agree(run)
    outcome = run_vector([run])[0]
    assert outcome.fallbacks < outcome.estimates


@pytest.mark.parametrize("algorithm", ["private-ucb", "coop-ucb"])
def test_where_two_integers_do_not_fit_one_float_they_travel_apart(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_policies, "LARGEST_NOISE", 1 << 40)
    monkeypatch.setattr(vector_policies.Together, "largest_changes", lambda _self: (1 << 48, 1))
    # ε = 0.5 releases first at the second pull, and over five hops the round robin ends before all of it is heard.
    run = spec(line(6), algorithm, rounds=50, gamma=5, epsilon=0.5)
    policy = {"private-ucb": vector_policies.TogetherPrivate, "coop-ucb": vector_policies.Together}[algorithm]
    assert not policy(vector_policies.Layout([run]))._packing.fits
    assert_engines_agree(run, replace(run, seed=8, gamma=1))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_runs_side_by_side_are_the_runs_alone(algorithm: str) -> None:
    """They differ in graph, seed, γ, arms and who lies."""
    one = spec(sparse(7, 0.3, 1), algorithm, rounds=50, gamma=1, liars=[2], contamination=0.5)
    two = spec(line(7), algorithm, rounds=50, gamma=4, seed=9, means=(0.2, 0.6), contamination=0.5)
    three = spec(ring(7), algorithm, rounds=50, gamma=0, seed=3, liars=[0, 6], contamination=0.5)
    assert_engines_agree(one, two, three)


def test_progress_is_told_after_every_round() -> None:
    seen: list[int] = []
    run_vector([spec(line(3), rounds=4)], seen.append)
    assert seen == [1, 2, 3, 4]


def test_a_run_too_short_for_a_release_costs_nothing() -> None:
    run = spec(line(3), "private-ucb", rounds=3, epsilon=0.01)
    assert not ReleaseSeries(0.01).thresholds(3)
    assert_engines_agree(run)
    outcome = run_vector([run])[0]
    assert outcome.releases == 0
    assert outcome.epsilon is not None
    assert outcome.epsilon.tolist() == [0.0] * 3


def test_the_cost_grows_with_the_pulls_and_is_the_largest_over_the_arms() -> None:
    outcome = run_vector([spec(network(1, []), "dp-ucb-int", rounds=9, means=(0.5,), epsilon=0.5)])[0]
    assert outcome.releases == 4
    assert outcome.epsilon is not None
    assert outcome.epsilon[0] == pytest.approx(math.fsum(n**-0.55 for n in (2, 4, 6, 8)), rel=1e-6)


@pytest.mark.parametrize(
    "other",
    [
        spec(line(4)),
        spec(line(3), means=(0.1, 0.2, 0.3)),
        spec(line(3), rounds=21),
        spec(line(3), "ucb1"),
        spec(line(3), epsilon=0.5),
        spec(line(3), reward="beta"),
        spec(line(3), attack="uniform"),
    ],
    ids=["agents", "arms", "rounds", "algorithm", "settings", "rewards", "attack"],
)
def test_runs_of_different_shapes_do_not_go_side_by_side(other: RunSpec) -> None:
    with pytest.raises(ValueError, match="side by side must agree"):
        run_vector([spec(line(3)), other])


def test_policies_of_single_agents_need_agents() -> None:
    with pytest.raises(SettingsError, match="without --policy overrides; use --engine agents"):
        run_vector([spec(line(3)), spec(line(3), overrides={1: "ucb1"})])


def test_lying_relays_need_agents() -> None:
    honest = spec(line(3), attack="relay-worst")
    with pytest.raises(SettingsError, match="cannot corrupt messages on their way; use --engine agents"):
        run_vector([honest, replace(honest, liars=frozenset({1}))])
    refuse_what_needs_agents([honest])  # nobody lies, so nobody corrupts anything


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_who_is_asked_to_stop_leaves_the_run_as_far_as_it_came(algorithm: str) -> None:
    run = spec(ring(5), algorithm, rounds=40, gamma=2)
    rounds = iter(range(100))
    stopped = run_vector([run], stop=lambda: next(rounds) == 24)[0]
    rounds = iter(range(100))
    with_agents = run_agents(run, stop=lambda: next(rounds) == 25)  # which is asked before a round, not after it
    short = run_vector([replace(run, rounds=25)])[0]
    for one in (stopped, with_agents):
        assert one.arm.shape == (5, 40)
        np.testing.assert_array_equal(one.arm[:, :25], short.arm)
        assert (one.arm[:, 25:] == NOT_PULLED).all()
        assert (one.reward[:, 25:] == -1).all()
        assert (one.messages, one.releases) == (short.messages, short.releases)
    if short.epsilon is not None:
        np.testing.assert_array_equal(stopped.epsilon, short.epsilon)

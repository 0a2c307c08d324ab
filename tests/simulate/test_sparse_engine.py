"""Adjacency lists in place of matrices: the same sums, the same pulls, and runs that matrices have no room for."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import assert_engines_agree, complete, line, network, ring, sparse, spec

from agentd.errors import SettingsError
from agentd.runs.regret import rounds_made
from agentd.runs.scenario import make_scenario
from agentd.runs.spec import Network, RunSpec
from agentd.settings import TestbedSettings
from agentd.simulation import spread as spreading
from agentd.simulation.engine import refuse_what_needs_agents, run_vector
from agentd.simulation.network import run_agents
from agentd.simulation.sparse_spread import SparseSpread
from agentd.simulation.spread import Spread, spread_of
from agentd.simulation.traffic import count_bytes, count_messages, messages_per_frame

TELLING = ["coop-ucb", "coop-thompson", "private-ucb", "byzantine-ucb", "sealed"]


@pytest.fixture
def no_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreading, "MOST_BY_MATRICES", 0)


@pytest.mark.parametrize("halves", [1, 2])
@pytest.mark.parametrize("share", [0.1, 1.0], ids=["few speak", "all speak"])
@pytest.mark.parametrize(
    "graphs",
    [[line(5)], [ring(6), line(6)], [sparse(7, 0.2, 1), complete(7), line(7)], [network(1, [])]],
    ids=["odd line", "two of even size", "three of odd size", "alone"],
)
def test_lists_and_matrices_come_to_the_same_sums(graphs: list[Network], share: float, halves: int) -> None:
    specs = [spec(graph, gamma=gamma) for graph, gamma in zip(graphs, (2, 4, 0), strict=False)]
    agents, rows = graphs[0].agents, 3
    by_lists, by_matrices = SparseSpread(specs, halves), Spread(specs, rows, halves)
    chance = np.random.Generator(np.random.Philox(4))
    for trial in range(1, 12):
        values = chance.integers(-50, 50, size=(rows, len(specs), agents)).astype(np.float64)
        values *= chance.random(values.shape) < share
        active = [np.flatnonzero(values[:, run].any(axis=1)).tolist() for run in range(len(specs))]
        arrived = np.zeros((2, halves, rows, len(specs), agents))
        for one, into in zip((by_lists, by_matrices), arrived, strict=True):
            one.say(trial, values, active)
            one.arrive(trial + 1, into)
        assert np.array_equal(arrived[0], arrived[1]), trial


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("gamma", [0, 1, 3])
@pytest.mark.parametrize("algorithm", TELLING)
def test_by_lists_the_pulls_are_those_of_the_agents(algorithm: str, gamma: int) -> None:
    assert isinstance(spread_of([spec(ring(5))], 1), SparseSpread)
    graph = sparse(14, 0.05, gamma)
    assert_engines_agree(spec(graph, algorithm, rounds=60, gamma=gamma, means=(0.9, 0.5, 0.3), seed=gamma))


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("algorithm", ["byzantine-ucb", "sealed"])
def test_by_lists_several_runs_and_liars_stay_apart(algorithm: str) -> None:
    runs = [
        spec(sparse(11, 0.1, seed), algorithm, rounds=50, gamma=seed, seed=seed, liars=range(seed), attack="both")
        for seed in (1, 2, 3)
    ]
    assert_engines_agree(*runs)


def test_large_runs_are_by_lists_and_small_ones_by_matrices() -> None:
    assert isinstance(spread_of([spec(ring(200))], 1), Spread)
    assert isinstance(spread_of([spec(ring(5000))], 1), SparseSpread)


def many(algorithm: str, agents: int, rounds: int) -> RunSpec:
    drawn = {"agents": agents, "edge_probability": 16 / agents, "rounds": rounds, "gamma": "2", "seed": 3}
    return make_scenario(TestbedSettings(algorithm=algorithm, **drawn)).spec  # type: ignore[arg-type]


def test_twenty_thousand_agents_fit() -> None:
    """Tables of all pairs would take 3 GB for each hop; here it is a second or two."""
    run = many("sealed", 20_000, 12)
    outcome = run_vector([run])[0]
    assert rounds_made(outcome.arm) == 12
    assert outcome.releases is not None
    assert outcome.releases > 20_000
    assert outcome.sent is not None
    assert outcome.messages == count_messages(run, outcome.sent)
    assert "distances" not in run.network.__dict__


def test_frames_are_counted_the_same_in_stretches() -> None:
    run = spec(sparse(9, 0.2, 3), "sealed", rounds=20, gamma=3)
    sent = run_vector([run])[0].sent
    whole = messages_per_frame(run, sent)
    parts = [messages_per_frame(run, sent, range(first, first + 5)) for first in range(0, 20, 5)]
    assert np.array_equal(whole, np.concatenate(parts, axis=1))


def test_beyond_the_ids_of_the_wire_bytes_are_nobodys_to_count() -> None:
    crowd = Network(tuple(((agent + 1) % 65_537, (agent - 1) % 65_537) for agent in range(65_537)))
    run = spec(crowd, "ucb1", rounds=2, gamma=0)
    assert count_bytes(run) is None
    with pytest.raises(SettingsError, match="65537 agents are more than the 65536 ids"):
        run_agents(run)
    assert rounds_made(run_vector([run])[0].arm) == 2


def test_shielded_says_up_to_how_many_agents_it_is_vectorised() -> None:
    with pytest.raises(SettingsError, match="up to 4096 agents; use --engine agents"):
        refuse_what_needs_agents([spec(ring(4097), "shielded")])


def test_half_or_all_of_an_unknown_diameter_is_refused_with_what_is_known() -> None:
    settings = TestbedSettings(agents=5_000, edge_probability=0.003, gamma="full", seed=1)
    with pytest.raises(SettingsError, match=r"5000 agents is not computed, only that it is \d to \d+; .*--gamma 3"):
        make_scenario(settings)

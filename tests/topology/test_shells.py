"""Shells around nodes against the table of all distances, kept and searched for; and sparse draws of large graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.generate import FAMILIES, erdos_renyi, generate, topology_stream
from topology.graph import Graph
from topology.measure import diameter, diameter_bounds, distances
from topology.random_edges import PAIRWISE_NODES, bernoulli_pairs
from topology.shells import Adjacency, Shells

EVERYTHING = 1 << 20


def neighbours(graph: Graph) -> list[tuple[int, ...]]:
    return [graph.neighbours(node) for node in range(graph.nodes)]


def drawn(family: str, nodes: int, seed: int) -> Graph:
    return generate(family, nodes, topology_stream(seed))


@given(st.sampled_from(sorted(FAMILIES)), st.integers(3, 40), st.integers(0, 5), st.integers(0, 50))
@settings(deadline=None)
@pytest.mark.parametrize("room", [0, EVERYTHING], ids=["searched", "kept"])
def test_shells_are_who_is_that_many_hops_away(room: int, family: str, nodes: int, reach: int, seed: int) -> None:
    graph = drawn(family, nodes, seed)
    hops = distances(graph)
    shells = Shells(Adjacency.of(neighbours(graph)), reach, room)
    assert shells.reach == min(reach, int(hops.max()))
    assert shells.stored is (bool(room) or not shells.reach)
    origins = np.random.Generator(np.random.Philox(seed)).permutation(nodes)[: nodes // 2 + 1]
    values = np.arange(1.0, nodes + 1)
    for hop in range(1, shells.reach + 1):
        assert shells.sizes[hop - 1].tolist() == np.count_nonzero(hops == hop, axis=1).tolist()
        members, sizes = shells.of(hop, origins)
        for origin, part in zip(origins, np.split(members, np.cumsum(sizes)[:-1]), strict=True):
            assert sorted(part.tolist()) == np.flatnonzero(hops[origin] == hop).tolist()
        assert shells.sums(hop, values).tolist() == ((hops == hop) @ values).tolist()


def test_what_does_not_fit_is_searched_for_again_and_comes_to_the_same() -> None:
    """Also where the search takes several turns, and the room ends in the midst of it."""
    graph = erdos_renyi(3000, 0.005, topology_stream(3))
    around = Adjacency.of(neighbours(graph))
    kept, searched = Shells(around, 3), Shells(around, 3, stored_bytes=100_000)
    assert kept.stored
    assert not searched.stored
    assert np.array_equal(kept.sizes, searched.sizes)
    some = np.arange(0, 3000, 7)
    for hop in (1, 2, 3):
        assert np.array_equal(np.sort(kept.of(hop, some).nodes), np.sort(searched.of(hop, some).nodes))
        parts = [slice(*part.indices(3000)) for part in kept.pieces(hop, np.arange(3000))]
        assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
        assert parts[-1].stop == 3000


def test_the_shells_of_nobody_and_of_one_are_empty() -> None:
    assert Shells(Adjacency.of([]), 3).reach == 0
    assert Shells(Adjacency.of([()]), 3).reach == 0


@given(st.sampled_from(sorted(FAMILIES)), st.integers(3, 60), st.integers(0, 50))
@settings(deadline=None)
def test_the_diameter_lies_within_its_bounds(family: str, nodes: int, seed: int) -> None:
    graph = drawn(family, nodes, seed)
    least, most = diameter_bounds(neighbours(graph))
    assert least <= diameter(graph) <= most
    if family in {"line", "star"}:  # a line of an even number of nodes has no node in its middle
        assert most - least <= (family == "line" and nodes % 2 == 0)


@pytest.mark.parametrize("probability", [0.0, 1e-6, 0.0004, 0.01])
def test_a_large_graph_has_about_as_many_edges_as_its_probability_says(probability: float) -> None:
    nodes = PAIRWISE_NODES + 904
    pairs = nodes * (nodes - 1) // 2
    lower, higher = bernoulli_pairs(nodes, probability, topology_stream(1))
    expected = pairs * probability
    assert abs(len(lower) - expected) <= 5 * np.sqrt(expected)
    assert (lower < higher).all()
    assert (higher < nodes).all()
    keys = lower * nodes + higher
    assert (np.diff(keys) > 0).all()


def test_gaps_between_edges_are_geometric_beyond_the_table_too() -> None:
    """P(gap ≥ k) = (1 − p)^k, at the mean, at the end of the table of four means, and past it."""
    nodes, probability = 5000, 0.02
    lower, higher = bernoulli_pairs(nodes, probability, topology_stream(2))
    at = lower * (2 * nodes - lower - 1) // 2 + higher - lower - 1
    gaps = np.diff(at) - 1
    for passed in (1, 50, 199, 201, 400):
        share, chance = float((gaps >= passed).mean()), (1 - probability) ** passed
        assert abs(share - chance) <= 5 * np.sqrt(chance * (1 - chance) / len(gaps))


def test_a_large_sparse_graph_is_drawn_by_its_edges_and_not_by_its_pairs() -> None:
    """30,000 nodes are 450 million pairs; the same seed draws the same graph."""
    graph = erdos_renyi(30_000, 0.0005, topology_stream(5))
    assert graph == erdos_renyi(30_000, 0.0005, topology_stream(5))
    assert abs(len(graph.edges) - 225_000) < 2_500

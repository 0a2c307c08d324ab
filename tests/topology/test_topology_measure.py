from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
from evidence import cpu_s_of

from topology import generate as families
from topology import measure as measure_module
from topology.generate import topology_stream
from topology.graph import Graph, TopologyError
from topology.measure import (
    ball_sizes,
    balls,
    clique_cover,
    diameter,
    distances,
    mean_distance,
    measure,
    power_graph,
    radius,
)


def as_networkx(graph: Graph) -> nx.Graph:
    oracle = nx.Graph()
    oracle.add_nodes_from(range(graph.nodes))
    oracle.add_edges_from(graph.edges)
    return oracle


def oracle_distances(graph: Graph) -> np.ndarray:
    hops = np.full((graph.nodes, graph.nodes), -1)
    for source, reached in nx.all_pairs_shortest_path_length(as_networkx(graph)):
        for target, length in reached.items():
            hops[source, target] = length
    return hops


GRAPHS = {
    "one": families.line(1),
    "two": families.line(2),
    "line": families.line(130),
    "ring": families.ring(65),
    "star": families.star(64),
    "complete": families.complete(9),
    "grid": families.grid(7, 9),
    "erdos-renyi": families.erdos_renyi(150, 0.04, topology_stream(1)),
    "random-regular": families.random_regular(60, 3, topology_stream(2)),
    "watts-strogatz": families.watts_strogatz(80, 4, 0.1, topology_stream(3)),
    "barabasi-albert": families.barabasi_albert(90, 2, topology_stream(4)),
}

each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())


@each_graph
def test_distances_are_those_of_networkx(graph: Graph) -> None:
    hops = distances(graph)
    assert hops.dtype == np.int32
    assert np.array_equal(hops, oracle_distances(graph))


@each_graph
def test_diameter_radius_and_mean_distance_are_those_of_networkx(graph: Graph) -> None:
    oracle = as_networkx(graph)
    assert diameter(graph) == nx.diameter(oracle)
    assert radius(graph) == nx.radius(oracle)
    assert mean_distance(graph) == pytest.approx(nx.average_shortest_path_length(oracle))
    hops = distances(graph)
    assert (diameter(hops), radius(hops), mean_distance(hops)) == (diameter(graph), radius(graph), mean_distance(graph))


@pytest.mark.parametrize("gamma", [1, 2, 3])
@each_graph
def test_power_graphs_are_those_of_networkx(graph: Graph, gamma: int) -> None:
    expected = nx.to_numpy_array(nx.power(as_networkx(graph), gamma), nodelist=range(graph.nodes)).astype(bool)
    power = power_graph(distances(graph), gamma)
    assert power.dtype == np.bool_
    assert np.array_equal(power, expected)


def test_unreachable_nodes_are_marked_and_belong_to_no_ball() -> None:
    graph = Graph.of(5, [(0, 1), (2, 3)])
    hops = distances(graph)
    assert np.array_equal(hops, oracle_distances(graph))
    assert hops[0, 4] == -1
    assert ball_sizes(hops, 4).tolist() == [2, 2, 2, 2, 1]
    assert not power_graph(hops, 4)[0, 2]


def test_the_search_gives_the_same_in_small_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPHS["erdos-renyi"]
    whole = distances(graph)
    for words in (1, 7, 100):
        monkeypatch.setattr(measure_module, "_GATHERED_WORDS", words)
        assert np.array_equal(distances(graph), whole)


def test_balls_hold_their_centre_and_grow_with_gamma() -> None:
    hops = distances(families.ring(10))
    for gamma, size in ((0, 1), (1, 3), (2, 5), (5, 10), (9, 10)):
        assert ball_sizes(hops, gamma).tolist() == [size] * 10
        assert balls(hops, gamma).diagonal().all()
        assert not power_graph(hops, gamma).diagonal().any()


@pytest.mark.parametrize("gamma", [-1, 1.5, True])
def test_impossible_lifetimes_are_refused(gamma: int) -> None:
    with pytest.raises(TopologyError, match="gamma must be an integer of at least 0"):
        balls(distances(families.ring(4)), gamma)
    with pytest.raises(TopologyError, match="gamma must be an integer of at least 0"):
        measure(families.ring(4), gamma)


@pytest.mark.parametrize("gamma", [0, 1, 2, 3])
@each_graph
def test_clique_covers_are_partitions_into_cliques(graph: Graph, gamma: int) -> None:
    power = power_graph(distances(graph), gamma)
    cover = clique_cover(power)
    assert sorted(node for clique in cover for node in clique) == list(range(graph.nodes))
    for clique in cover:
        inside = power[np.ix_(clique, clique)]
        assert (inside | np.eye(len(clique), dtype=bool)).all()
    assert cover == clique_cover(power)


@pytest.mark.parametrize(
    ("graph", "gamma", "cliques"),
    [
        (families.complete(9), 1, 1),
        (families.star(9), 1, 8),
        (families.star(9), 2, 1),
        (families.line(12), 1, 6),
        (families.line(12), 3, 3),
        (families.ring(12), 2, 4),
        (families.grid(6, 6), 1, 18),
        (families.line(5), 0, 5),
    ],
)
def test_clique_covers_of_plain_graphs_are_the_smallest_there_are(graph: Graph, gamma: int, cliques: int) -> None:
    assert len(clique_cover(power_graph(distances(graph), gamma))) == cliques


def test_clique_covers_are_no_worse_than_those_of_networkx() -> None:
    power = power_graph(distances(GRAPHS["erdos-renyi"]), 2)
    complement = nx.complement(nx.from_numpy_array(power))
    colours = nx.greedy_color(complement, strategy="largest_first")
    assert len(clique_cover(power)) <= max(colours.values()) + 1


def test_nothing_is_covered_by_no_clique() -> None:
    assert clique_cover(np.zeros((0, 0), dtype=np.bool_)) == []


def test_a_disconnected_graph_has_no_diameter() -> None:
    graph = Graph.of(3, [(0, 1)])
    for quantity in (diameter, radius, mean_distance):
        with pytest.raises(TopologyError, match=r"2 components \(0 1; 2\)"):
            quantity(graph)
        with pytest.raises(TopologyError, match="not connected"):
            quantity(distances(graph))


def test_measures_of_a_line() -> None:
    measures = measure(families.line(4))
    assert measures.as_json() == {
        "nodes": 4,
        "edges": 3,
        "min_degree": 1,
        "mean_degree": 1.5,
        "max_degree": 2,
        "connected": True,
        "diameter": 3,
        "radius": 2,
        "mean_distance": pytest.approx(20 / 12),
        "powers": [
            {"gamma": 1, "mean_ball_size": 2.5, "clique_cover": 2},
            {"gamma": 2, "mean_ball_size": 3.5, "clique_cover": 2},
            {"gamma": 3, "mean_ball_size": 4.0, "clique_cover": 1},
        ],
    }
    assert json.loads(json.dumps(measures.as_json()))["diameter"] == 3


def test_one_lifetime_is_measured_when_it_is_given() -> None:
    (power,) = measure(families.line(4), gamma=2).powers
    assert (power.gamma, power.clique_cover) == (2, 2)
    (power,) = measure(families.line(4), gamma=99).powers
    assert (power.mean_ball_size, power.clique_cover) == (4.0, 1)


def test_a_single_node_has_measures_too() -> None:
    measures = measure(families.line(1))
    assert (measures.diameter, measures.radius, measures.mean_distance, measures.powers) == (0, 0, 0.0, ())


def test_a_disconnected_graph_is_measured_as_far_as_it_goes() -> None:
    measures = measure(Graph.of(5, [(0, 1), (1, 2), (3, 4)]))
    assert not measures.connected
    assert (measures.diameter, measures.radius, measures.mean_distance) == (None, None, None)
    assert [power.clique_cover for power in measures.powers] == [3, 2]


def test_graphs_too_large_to_measure_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_module, "MAX_MEASURED_NODES", 5)
    assert diameter(families.line(5)) == 4
    with pytest.raises(TopologyError, match="6 nodes are too many to measure"):
        distances(families.line(6))


def test_a_thousand_nodes_are_measured_in_seconds_of_a_busy_machine() -> None:
    # Takes 0.2 s on an idle core; the wide margin only catches a loop in Python over all pairs.
    graph = families.erdos_renyi(1000, 0.02, topology_stream(5))
    assert cpu_s_of(lambda: distances(graph)) < 3.0
    hops = distances(graph)
    oracle = nx.single_source_shortest_path_length(as_networkx(graph), 17)
    assert hops[17].tolist() == [oracle[node] for node in range(1000)]

from __future__ import annotations

import itertools
import math
from collections import Counter

import networkx as nx
import numpy as np
import pytest

from agentd.core import chance
from topology import generate as generate_module
from topology import random_edges
from topology.generate import (
    FAMILIES,
    barabasi_albert,
    complete,
    erdos_renyi,
    generate,
    grid,
    line,
    random_regular,
    ring,
    star,
    topology_stream,
    watts_strogatz,
)
from topology.graph import Graph, TopologyError

RANDOM_FAMILIES = ("erdos-renyi", "random-regular", "watts-strogatz", "barabasi-albert")


def edges_of(oracle: nx.Graph) -> set[tuple[int, int]]:
    return {(min(edge), max(edge)) for edge in oracle.edges}


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_the_stream_is_the_one_that_simulations_use(seed: int) -> None:
    ours = topology_stream(seed).random(100)
    theirs = chance.stream(seed, chance.Purpose.TOPOLOGY).random(100)
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5])
def test_impossible_seeds_are_refused(seed: int) -> None:
    with pytest.raises(TopologyError, match="seed must be an integer between 0 and"):
        topology_stream(seed)


def test_a_seed_draws_the_graph_it_always_drew() -> None:
    graph = erdos_renyi(8, 0.4, topology_stream(7))
    around = ["2456", "23567", "017", "145", "035", "0134", "01", "12"]
    assert [graph.neighbours(node) for node in range(8)] == [tuple(map(int, near)) for near in around]
    assert graph.redraws == 0
    assert erdos_renyi(12, 0.15, topology_stream(7)).redraws == 28


@pytest.mark.parametrize("nodes", [1, 2, 3, 10])
@pytest.mark.parametrize(
    ("ours", "oracle"),
    [(line, nx.path_graph), (complete, nx.complete_graph), (star, lambda n: nx.star_graph(n - 1))],
)
def test_plain_families_are_those_of_networkx(ours, oracle, nodes: int) -> None:
    assert set(ours(nodes).edges) == edges_of(oracle(nodes))


def test_a_ring_is_a_cycle_and_collapses_for_one_and_two_nodes() -> None:
    assert set(ring(7).edges) == edges_of(nx.cycle_graph(7))
    assert ring(2).edges == ((0, 1),)
    assert ring(1).edges == ()


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 6), (6, 1), (3, 4)])
def test_a_grid_is_that_of_networkx(rows: int, columns: int) -> None:
    oracle = nx.relabel_nodes(nx.grid_2d_graph(rows, columns), lambda at: at[0] * columns + at[1])
    graph = grid(rows, columns)
    assert set(graph.edges) == edges_of(oracle)
    assert graph == grid(rows, columns, rows * columns)
    assert graph.parameters == (("rows", rows), ("columns", columns))


@pytest.mark.parametrize(("nodes", "rows", "columns"), [(1, 1, 1), (2, 1, 2), (8, 3, 3), (12, 3, 4), (20, 4, 5)])
def test_a_grid_from_a_number_of_nodes_is_near_square(nodes: int, rows: int, columns: int) -> None:
    graph = grid(nodes=nodes)
    assert graph.nodes == nodes
    assert graph.is_connected()
    assert graph.parameters == (("rows", rows), ("columns", columns))


def test_a_grid_with_a_shorter_last_row_is_a_full_one_without_its_end() -> None:
    full = set(grid(3, 3).edges)
    assert set(grid(nodes=8).edges) == {edge for edge in full if 8 not in edge}
    assert grid(rows=2, nodes=7).parameters == (("rows", 2), ("columns", 4))
    assert grid(columns=3, nodes=7).parameters == (("rows", 3), ("columns", 3))


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ({"rows": 2, "columns": 3, "nodes": 5}, "2 rows of 3 are 6 nodes, not 5"),
        ({"rows": 4, "nodes": 5}, "5 nodes do not make 4 rows"),
        ({"columns": 9, "nodes": 5}, "5 nodes do not make rows of 9"),
        ({"rows": 4}, "needs both rows and columns"),
        ({"columns": 4}, "needs both rows and columns"),
        ({"rows": 0, "columns": 3}, "rows must be an integer of at least 1"),
        ({"rows": 3, "columns": 2.5}, "columns must be an integer of at least 1"),
        ({"rows": 2000, "columns": 1000}, "between 1 and 1048576 nodes"),
    ],
)
def test_impossible_grids_are_refused(shape: dict[str, int], reason: str) -> None:
    with pytest.raises(TopologyError, match=reason):
        grid(**shape)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5, 8, 33])
def test_every_family_has_defaults_that_are_connected_at_every_size(family: str, nodes: int) -> None:
    if (family, nodes) == ("watts-strogatz", 2):
        with pytest.raises(TopologyError, match="2 nodes have no ring to rewire"):
            generate(family, nodes, topology_stream(1))
        return
    graph = generate(family, nodes, topology_stream(1))
    assert graph.nodes == nodes
    assert graph.family == family
    assert graph.is_connected()


@pytest.mark.parametrize("family", RANDOM_FAMILIES)
def test_the_same_stream_draws_the_same_graph_and_another_another(family: str) -> None:
    first, again, other = (generate(family, 40, topology_stream(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first.edges != other.edges


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_refuses_impossible_numbers_of_nodes(family: str) -> None:
    for nodes in (0, -3, 1048577, 2.5, True):
        with pytest.raises(TopologyError, match="between 1 and 1048576 nodes"):
            generate(family, nodes, topology_stream(1))  # type: ignore[arg-type]


def test_families_go_by_underscores_and_capitals_too() -> None:
    assert generate("Erdos_Renyi", 9, topology_stream(3)) == generate("erdos-renyi", 9, topology_stream(3))


def test_unknown_families_and_parameters_are_refused() -> None:
    with pytest.raises(TopologyError, match="unknown family 'torus'; known are erdos-renyi, ring"):
        generate("torus", 9, topology_stream(3))
    with pytest.raises(TopologyError, match="the family ring takes no edge probability; leave it out"):
        generate("ring", 9, topology_stream(3), edge_probability=0.5)


def test_a_missing_number_of_nodes_is_refused_unless_a_grid_has_its_shape() -> None:
    with pytest.raises(TopologyError, match="between 1 and 1048576 nodes, got None"):
        generate("erdos-renyi", None, topology_stream(3))
    assert generate("grid", None, topology_stream(3), rows=2, columns=3).nodes == 6


def test_parameters_that_are_none_get_their_defaults() -> None:
    graph = generate("watts-strogatz", 9, topology_stream(3), degree=2, rewire=None)
    assert graph.parameters == (("degree", 2), ("rewire", 0.1))


def test_erdos_renyi_draws_every_pair_with_the_given_probability() -> None:
    # 400 graphs of 12 nodes at p = 0.5: each of the 66 pairs appears 200 ± 10 times; five deviations are allowed.
    rng = topology_stream(11)
    counts = Counter(edge for _ in range(400) for edge in erdos_renyi(12, 0.5, rng).edges)
    assert len(counts) == 66
    assert all(abs(count - 200) < 50 for count in counts.values())


def test_erdos_renyi_is_uniform_over_connected_graphs() -> None:
    # At p = 1/2 all labelled graphs are equally likely, so redrawing must leave the 38 connected ones of 4 nodes
    # equally likely too; 3800 draws give 100 ± 10 each, five deviations are allowed.
    rng = topology_stream(12)
    drawn = Counter(erdos_renyi(4, 0.5, rng).edges for _ in range(3800))
    assert len(drawn) == 38
    assert all(abs(count - 100) < 50 for count in drawn.values())


def test_redraws_are_counted_and_do_happen_below_the_threshold() -> None:
    graph = erdos_renyi(12, 0.15, topology_stream(7))
    rng = topology_stream(7)
    draws = [random_edges.bernoulli_pairs(12, 0.15, rng).T.tolist() for _ in range(graph.redraws + 1)]
    assert graph.redraws > 0
    assert [tuple(edge) for edge in draws[-1]] == list(graph.edges)
    assert not any(Graph.of(12, map(tuple, draw)).is_connected() for draw in draws[:-1])


def test_a_draw_does_not_depend_on_how_it_is_cut_into_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = erdos_renyi(30, 0.3, topology_stream(7))
    monkeypatch.setattr(random_edges, "_DRAWS_AT_ONCE", 7)
    assert erdos_renyi(30, 0.3, topology_stream(7)) == whole


def test_erdos_renyi_with_certain_edges_is_complete() -> None:
    assert erdos_renyi(9, 1, topology_stream(7)).edges == complete(9).edges


@pytest.mark.parametrize(("nodes", "probability"), [(200, 0.01), (2, 0.0), (5000, 0.0001)])
def test_hopeless_probabilities_are_refused_at_once(nodes: int, probability: float) -> None:
    with pytest.raises(TopologyError, match=rf"ln\(n\)/n = {math.log(nodes) / nodes:.4g} is a sensible minimum"):
        erdos_renyi(nodes, probability, topology_stream(1))


def test_giving_up_says_after_how_many_draws_and_what_to_do() -> None:
    with pytest.raises(TopologyError, match=r"none of 4 erdos-renyi draws of 10 nodes was connected; raise the edge"):
        erdos_renyi(10, 0.05, topology_stream(1), max_redraws=3)


def test_a_draw_with_no_isolated_node_may_still_be_disconnected() -> None:
    # Two pairs on four nodes: the cheap test for isolated nodes passes, the flood does not.
    graphs = [random_edges.bernoulli_pairs(4, 0.3, topology_stream(seed)).T.tolist() for seed in range(60)]
    perfect = [seed for seed, edges in enumerate(graphs) if len(edges) == 2 and len({*edges[0], *edges[1]}) == 4]
    for seed in perfect:
        assert erdos_renyi(4, 0.3, topology_stream(seed)).redraws > 0
    assert perfect


@pytest.mark.parametrize("probability", [-0.1, 1.5, float("nan"), "0.5", None])
def test_probabilities_that_are_none_are_refused(probability: float) -> None:
    with pytest.raises(TopologyError, match="edge probability must be a number between 0 and 1"):
        erdos_renyi(5, probability, topology_stream(1))
    with pytest.raises(TopologyError, match="rewire must be a number between 0 and 1"):
        watts_strogatz(5, 2, probability, topology_stream(1))


@pytest.mark.parametrize(
    ("family", "nodes", "parameters"),
    [
        ("complete", 1500, {}),
        ("erdos-renyi", 20_000, {"edge_probability": 0.9}),
        ("random-regular", 60_000, {"degree": 1000}),
        ("watts-strogatz", 60_000, {"degree": 1000}),
        ("barabasi-albert", 60_000, {"attach": 1000}),
    ],
)
def test_graphs_with_too_many_edges_are_refused_before_they_are_drawn(family, nodes, parameters) -> None:
    with pytest.raises(TopologyError, match="at most 1048576 are possible"):
        generate(family, nodes, topology_stream(1), **parameters)


@pytest.mark.parametrize(
    ("nodes", "degree"), [(1, 0), (2, 1), (5, 2), (8, 3), (9, 4), (8, 5), (20, 17), (7, 6), (60, 10)]
)
def test_random_regular_gives_everyone_the_same_degree(nodes: int, degree: int) -> None:
    for seed in range(20):
        graph = random_regular(nodes, degree, topology_stream(seed))
        assert set(graph.degrees()) == {degree}
        assert graph.is_connected()


@pytest.mark.parametrize(
    ("nodes", "degree", "reason"),
    [
        (5, 3, "one of the two numbers must be even"),
        (6, 1, "cannot be connected"),
        (6, 0, "cannot be connected"),
        (6, 6, "degree must be an integer between 0 and 5"),
        (6, -2, "degree must be an integer between 0 and 5"),
        (6, 2.0, "degree must be an integer between 0 and 5"),
    ],
)
def test_impossible_degrees_are_refused(nodes: int, degree: int, reason: str) -> None:
    with pytest.raises(TopologyError, match=reason):
        random_regular(nodes, degree, topology_stream(1))


def test_random_regular_reaches_every_connected_two_regular_graph_equally() -> None:
    # Connected and 2-regular on 5 nodes: the 12 five-cycles, and pairing treats them alike by symmetry.
    # 2400 draws give 200 ± 14 each; five deviations are allowed.
    rng = topology_stream(13)
    drawn = Counter(random_regular(5, 2, rng).edges for _ in range(2400))
    assert len(drawn) == 12
    assert all(abs(count - 200) < 70 for count in drawn.values())


def test_random_regular_counts_draws_that_got_stuck_or_fell_apart() -> None:
    stuck = [random_edges.paired_stubs(6, 2, topology_stream(seed)) for seed in range(50)]
    assert any(edges is None for edges in stuck)
    apart = [edges for edges in stuck if edges is not None and not Graph.of(6, edges).is_connected()]
    assert apart
    assert any(random_regular(6, 2, topology_stream(seed)).redraws for seed in range(50))


def test_dense_random_regular_counts_draws_that_got_stuck() -> None:
    redraws = [random_regular(6, 3, topology_stream(seed)).redraws for seed in range(50)]
    assert any(redraws)
    assert not all(redraws)


def test_random_regular_gives_up_in_the_end() -> None:
    stuck = next(seed for seed in range(50) if random_edges.paired_stubs(6, 2, topology_stream(seed)) is None)
    with pytest.raises(TopologyError, match="none of 1 random-regular draws of 6 nodes was connected; use a larger"):
        random_regular(6, 2, topology_stream(stuck), max_redraws=0)


def test_watts_strogatz_without_rewiring_is_a_ring_of_near_neighbours() -> None:
    assert set(watts_strogatz(11, 4, 0.0, topology_stream(1)).edges) == edges_of(nx.watts_strogatz_graph(11, 4, 0))


def test_watts_strogatz_keeps_the_number_of_edges_and_everyones_own() -> None:
    for seed, rewire in itertools.product(range(10), (0.1, 0.5, 1.0)):
        graph = watts_strogatz(20, 4, rewire, topology_stream(seed))
        assert len(graph.edges) == 40
        assert min(graph.degrees()) >= 2  # half of the edges stay at the end that owns them


def test_watts_strogatz_rewires_about_as_many_edges_as_asked() -> None:
    # 1000 edges at 0.3: 300 ± 15 move, and hardly any lands where a lattice edge was; five deviations are allowed.
    lattice = set(watts_strogatz(500, 4, 0.0, topology_stream(1)).edges)
    moved = lattice - set(watts_strogatz(500, 4, 0.3, topology_stream(1)).edges)
    assert abs(len(moved) - 300) < 75


def test_watts_strogatz_cannot_rewire_what_is_complete() -> None:
    assert watts_strogatz(5, 4, 1.0, topology_stream(1)).edges == complete(5).edges


def test_watts_strogatz_is_redrawn_until_connected() -> None:
    graphs = [watts_strogatz(30, 2, 0.6, topology_stream(seed)) for seed in range(5)]
    assert all(graph.is_connected() for graph in graphs)
    assert any(graph.redraws for graph in graphs)


@pytest.mark.parametrize(
    ("nodes", "degree", "reason"),
    [
        (9, 3, "degree must be even"),
        (9, 0, "between 2 and 8"),
        (9, 10, "between 2 and 8"),
        (2, 2, "2 nodes have no ring to rewire"),
    ],
)
def test_impossible_rings_are_refused(nodes: int, degree: int, reason: str) -> None:
    with pytest.raises(TopologyError, match=reason):
        watts_strogatz(nodes, degree, 0.1, topology_stream(1))


def test_barabasi_albert_attaches_every_newcomer_as_often_as_asked() -> None:
    graph = barabasi_albert(50, 3, topology_stream(1))
    assert len(graph.edges) == 3 + 46 * 3 == nx.barabasi_albert_graph(50, 3, seed=1).number_of_edges()
    for newcomer in range(4, 50):
        assert sum(near < newcomer for near in graph.neighbours(newcomer)) == 3


def test_barabasi_albert_prefers_nodes_of_high_degree() -> None:
    # The third node finds two nodes of degree 1 and joins node 0 half of the time; the fourth then finds node 0 with
    # 2 or with 1 of the 4 ends, 3/8 on average. 2000 draws: 1000 ± 22 and 750 ± 22; five deviations are allowed.
    rng = topology_stream(14)
    graphs = [barabasi_albert(4, 1, rng) for _ in range(2000)]
    assert abs(sum((0, 2) in graph.edges for graph in graphs) - 1000) < 110
    assert abs(sum((0, 3) in graph.edges for graph in graphs) - 750) < 110


@pytest.mark.parametrize(("nodes", "attach"), [(5, 0), (5, 5), (5, -1), (1, 1), (5, 1.0)])
def test_impossible_attachments_are_refused(nodes: int, attach: int) -> None:
    with pytest.raises(TopologyError, match="attach must be an integer between"):
        barabasi_albert(nodes, attach, topology_stream(1))


@pytest.mark.parametrize("max_redraws", [-1, 1.5, None])
def test_impossible_numbers_of_redraws_are_refused(max_redraws: int) -> None:
    for family, parameters in (("erdos_renyi", (0.5,)), ("random_regular", (2,)), ("watts_strogatz", (2, 0.1))):
        with pytest.raises(TopologyError, match="max redraws must be an integer of at least 0"):
            getattr(generate_module, family)(6, *parameters, topology_stream(1), max_redraws=max_redraws)

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology import edge_list, graphml, node_link
from topology.generate import FAMILIES, generate, topology_stream
from topology.graph import Graph, TopologyError, require_connected
from topology.measure import ball_sizes, clique_cover, distances, measure, power_graph
from topology.placement import arrange

FORMATS = {"edges": edge_list, "json": node_link, "graphml": graphml}

common = settings(max_examples=100, deadline=None)  # a busy machine is no fault of the code

each_format = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS.keys())


@st.composite
def graphs(draw: Callable[..., object], most: int = 12) -> Graph:
    nodes = draw(st.integers(1, most))
    pairs = [(i, j) for i in range(nodes) for j in range(i)]
    return Graph.of(nodes, draw(st.sets(st.sampled_from(pairs))) if pairs else ())


@st.composite
def trees(draw: Callable[..., object]) -> Graph:
    nodes = draw(st.integers(1, 20))
    return Graph.of(nodes, [(draw(st.integers(0, node - 1)), node) for node in range(1, nodes)])


def as_networkx(graph: Graph) -> nx.Graph:
    oracle = nx.empty_graph(graph.nodes)
    oracle.add_edges_from(graph.edges)
    return oracle


def assert_graph_or_refusal(read: Callable[[], Graph]) -> None:
    """Any other exception than a TopologyError fails the test, and so does a message of more than one line."""
    try:
        outcome: object = read()
    except TopologyError as error:
        outcome = str(error)
    assert isinstance(outcome, Graph) or (isinstance(outcome, str) and outcome.isprintable())


@common
@given(graphs())
def test_components_are_those_of_networkx(graph: Graph) -> None:
    oracle = sorted(sorted(part) for part in nx.connected_components(as_networkx(graph)))
    assert graph.components() == oracle
    assert graph.is_connected() == (len(oracle) == 1)


@common
@given(graphs(70))
def test_distances_are_those_of_networkx(graph: Graph) -> None:
    oracle = dict(nx.all_pairs_shortest_path_length(as_networkx(graph)))
    hops = distances(graph)
    for source in range(graph.nodes):
        assert hops[source].tolist() == [oracle[source].get(target, -1) for target in range(graph.nodes)]


@common
@given(graphs(), st.integers(0, 6))
def test_clique_covers_are_partitions_into_cliques(graph: Graph, gamma: int) -> None:
    power = power_graph(distances(graph), gamma)
    cover = clique_cover(power)
    assert sorted(node for clique in cover for node in clique) == list(range(graph.nodes))
    for clique in cover:
        assert all(power[one, other] for one in clique for other in clique if one != other)


@common
@given(graphs(), st.integers(1, 6))
def test_clique_covers_lie_between_independence_and_the_number_of_nodes(graph: Graph, gamma: int) -> None:
    # No clique holds two nodes of an independent set, so the largest of these bounds every cover from below.
    power = power_graph(distances(graph), gamma)
    independent, _ = nx.max_weight_clique(nx.complement(nx.from_numpy_array(power)), weight=None)
    assert len(independent) <= len(clique_cover(power)) <= graph.nodes


@common
@given(trees())
def test_balls_and_covers_are_monotone_in_the_lifetime(tree: Graph) -> None:
    measures = measure(tree)
    sizes = [power.mean_ball_size for power in measures.powers]
    assert sizes == sorted(sizes)
    if measures.powers:
        assert measures.powers[-1].clique_cover == 1
        assert ball_sizes(distances(tree), len(measures.powers)).tolist() == [tree.nodes] * tree.nodes
    assert measures.diameter == len(measures.powers)


@common
@given(st.sampled_from(sorted(FAMILIES)), st.integers(3, 40), st.integers(0, 2**64 - 1))
def test_every_draw_is_connected_and_can_be_repeated(family: str, nodes: int, seed: int) -> None:
    graph = generate(family, nodes, topology_stream(seed))
    assert graph.nodes == nodes
    assert graph.is_connected()
    assert generate(family, nodes, topology_stream(seed)) == graph


@each_format
@common
@given(graph=graphs())
def test_every_graph_survives_every_format(form, graph: Graph) -> None:
    again = form.parse(form.render(graph).encode())
    assert (again.nodes, again.edges) == (graph.nodes, graph.edges)


@each_format
@common
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_arbitrary_content_gives_a_graph_or_a_topology_error(form, content: bytes) -> None:
    assert_graph_or_refusal(lambda: form.parse(content))


@each_format
@common
@given(graph=graphs(), at=st.integers(0), junk=st.binary(max_size=6), cut=st.integers(0, 12))
def test_damaged_files_give_a_graph_or_a_topology_error(form, graph: Graph, at: int, junk: bytes, cut: int) -> None:
    content = form.render(graph).encode()
    at %= len(content)
    assert_graph_or_refusal(lambda: form.parse(content[:at] + junk + content[at + cut :]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
ENDS = st.integers(-1, 4) | JSON


@common
@given(
    st.fixed_dictionaries(
        {"nodes": st.lists(st.fixed_dictionaries({"id": st.integers(0, 3)}) | JSON, max_size=4) | JSON},
        optional={
            "links": st.lists(st.fixed_dictionaries({"source": ENDS, "target": ENDS}) | JSON, max_size=4) | JSON,
            "edges": st.lists(st.fixed_dictionaries({"source": ENDS, "target": ENDS}), max_size=3) | JSON,
            "directed": st.just(False) | JSON,
            "graph": st.fixed_dictionaries({}, optional={"family": JSON, "parameters": JSON, "redraws": JSON}) | JSON,
        },
    )
)
def test_arbitrary_node_link_data_gives_a_graph_or_a_topology_error(data: dict[str, object]) -> None:
    assert_graph_or_refusal(lambda: node_link.from_node_link(data))
    assert_graph_or_refusal(lambda: node_link.parse(json.dumps(data).encode()))


XML = st.recursive(
    st.sampled_from(
        ["", "text", '<node id="0"/>', '<node id="n1"/>', '<edge source="0" target="n1"/>', "&amp;", "&x;"]
    ),
    lambda inner: st.tuples(
        st.sampled_from(["graph", "graphml", "data", "node", "port", "hyperedge"]), inner, inner
    ).map(lambda parts: f"<{parts[0]}>{parts[1]}{parts[2]}</{parts[0]}>"),
    max_leaves=8,
)


@common
@given(XML)
def test_arbitrary_xml_gives_a_graph_or_a_topology_error(inner: str) -> None:
    for text in (inner, f"<graphml>{inner}</graphml>", f"<graphml><graph>{inner}</graph></graphml>"):
        assert_graph_or_refusal(partial(graphml.parse, text.encode()))


@common
@given(graphs())
def test_refusals_name_every_small_component(graph: Graph) -> None:
    parts = graph.components()
    if len(parts) == 1:
        assert require_connected(graph) is graph
        return
    with pytest.raises(TopologyError) as caught:
        require_connected(graph)
    for part in parts[:5]:
        assert " ".join(map(str, part[:8])) in str(caught.value)


@common
@given(graphs(25) | trees())
def test_no_two_nodes_are_laid_out_on_one_another(graph: Graph) -> None:
    positions = arrange(graph)
    assert positions.shape == (graph.nodes, 2)
    assert np.isfinite(positions).all()
    apart = np.linalg.norm(positions[:, None] - positions[None, :], axis=2) + np.diag([np.inf] * graph.nodes)
    assert apart.min() > 0.05

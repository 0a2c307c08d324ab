from __future__ import annotations

import pickle

import numpy as np
import pytest

from topology import graph as graph_module
from topology.graph import MAX_NODES, Graph, TopologyError, TopologyFileError, require_connected
from topology.validation import as_integer, brief, probability, whole

HUGE = pytest.param(10**5000, id="huge")  # too long for Python to print


def test_edges_are_put_in_canonical_order() -> None:
    graph = Graph.of(4, [(3, 0), (2, 1), (0, 1)])
    assert graph.edges == ((0, 1), (0, 3), (1, 2))
    assert (graph.family, graph.parameters, graph.redraws) == ("file", (), 0)


def test_numpy_integers_become_plain_ones() -> None:
    graph = Graph.of(np.int64(3), [(np.int32(2), np.int64(0))])
    assert graph == Graph.of(3, [(0, 2)])
    assert all(type(node) is int for node in (graph.nodes, *graph.edges[0]))


def test_neighbours_and_degrees_agree() -> None:
    graph = Graph.of(5, [(0, 4), (0, 2), (2, 4), (1, 3)])
    assert [graph.neighbours(node) for node in range(5)] == [(2, 4), (3,), (0, 4), (1,), (0, 2)]
    assert graph.degrees() == (2, 1, 2, 1, 2)


def test_components_are_listed_by_their_lowest_node() -> None:
    graph = Graph.of(6, [(5, 0), (4, 1), (1, 3)])
    assert graph.components() == [[0, 5], [1, 3, 4], [2]]
    assert not graph.is_connected()


def test_a_single_node_is_connected() -> None:
    graph = Graph.of(1, [])
    assert graph.is_connected()
    assert graph.components() == [[0]]
    assert require_connected(graph) is graph


def test_a_graph_is_a_value() -> None:
    graph = Graph.of(3, [(0, 1), (1, 2)], family="line")
    again = pickle.loads(pickle.dumps(graph))  # noqa: S301 -- our own bytes; parallel trials send graphs this way
    assert again == graph
    assert hash(again) == hash(graph)
    assert again.neighbours(1) == (0, 2)
    assert "_neighbours" not in repr(graph)
    with pytest.raises(AttributeError):
        graph.nodes = 4  # type: ignore[misc]


@pytest.mark.parametrize("nodes", [0, -1, MAX_NODES + 1, 2.0, "3", None, True, HUGE])
def test_impossible_numbers_of_nodes_are_refused(nodes: object) -> None:
    with pytest.raises(TopologyError, match="between 1 and 1048576 nodes"):
        Graph.of(nodes, [])  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [3, -1, 1.0, "1", None, False, HUGE])
def test_edges_to_what_is_no_node_are_refused(end: object) -> None:
    with pytest.raises(TopologyError, match="the nodes are the integers 0 to 2"):
        Graph.of(3, [(0, end)])  # type: ignore[list-item]


def test_a_loop_is_refused() -> None:
    with pytest.raises(TopologyError, match="node 1 is joined to itself"):
        Graph.of(3, [(0, 1), (1, 1)])


def test_a_duplicate_edge_is_refused_in_either_direction() -> None:
    with pytest.raises(TopologyError, match="the edge 0 1 appears twice"):
        Graph.of(3, [(0, 1), (1, 2), (1, 0)])


def test_too_many_edges_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_module, "MAX_EDGES", 2)
    assert Graph.of(3, [(0, 1), (1, 2)]).is_connected()
    with pytest.raises(TopologyError, match="3 edges are too many"):
        Graph.of(3, [(0, 1), (1, 2), (0, 2)])


def test_components_are_named_when_a_connected_graph_is_required() -> None:
    with pytest.raises(TopologyError, match=r"2 components \(0 1; 2 3\)"):
        require_connected(Graph.of(4, [(0, 1), (2, 3)]))


def test_long_lists_of_components_and_members_are_cut() -> None:
    graph = Graph.of(40, [(i, i + 1) for i in range(29)])
    with pytest.raises(TopologyError, match=r"11 components \(0 1 2 3 4 5 6 7 … 29, 30 nodes; 30; .*; and 6 more\)"):
        require_connected(graph)


def test_errors_tell_bad_parameters_from_bad_files() -> None:
    assert TopologyError.exit_code == 2
    assert TopologyFileError.exit_code == 78
    assert issubclass(TopologyFileError, TopologyError)
    assert issubclass(TopologyError, ValueError)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (7, "7"),
        (None, "None"),
        (float("nan"), "nan"),
        ("née\n\x1b[2J", r"'n\xe9e\n\x1b[2J'"),
        ("x" * 100, "'" + "x" * 33 + "'..."),
        (1 << 200, "an integer of 201 bits"),
        ([1] * 1000, "a value of type list"),
    ],
)
def test_values_from_outside_are_shown_short_and_printable(value: object, shown: str) -> None:
    assert brief(value) == shown


@pytest.mark.parametrize(
    ("value", "read"), [(3, 3), (np.uint8(3), 3), (True, None), (np.bool_(True), None), (3.0, None), ("3", None)]
)
def test_only_exact_integers_are_integers(value: object, read: int | None) -> None:
    assert as_integer(value) == read


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf"), "0.5", None, True])
def test_probabilities_outside_their_range_are_refused(value: object) -> None:
    with pytest.raises(TopologyError, match="p must be a number between 0 and 1"):
        probability("p", value)


def test_probabilities_in_their_range_become_floats() -> None:
    assert [probability("p", value) for value in (0, 1, 0.25, np.float64(0.5))] == [0.0, 1.0, 0.25, 0.5]


def test_whole_numbers_keep_their_bounds() -> None:
    assert [whole("n", 2, 2), whole("n", 5, 2, 5)] == [2, 5]
    with pytest.raises(TopologyError, match="n must be an integer of at least 2, got 1"):
        whole("n", 1, 2)
    with pytest.raises(TopologyError, match="n must be an integer between 2 and 5, got 6"):
        whole("n", 6, 2, 5)

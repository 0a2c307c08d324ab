from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache

import numpy as np
import pytest
from evidence import cpu_s_of

from topology import generate as families
from topology import placement
from topology.generate import FAMILIES, generate, topology_stream
from topology.graph import Graph
from topology.measure import distances
from topology.picture import WIDTH, draw
from topology.placement import arrange

SVG = "{http://www.w3.org/2000/svg}"


def picture(graph: Graph, **options: object) -> ET.Element:
    return ET.fromstring(draw(graph, **options))  # type: ignore[arg-type]  # noqa: S314 -- our own text


def circles(root: ET.Element) -> list[tuple[float, float, float]]:
    return [tuple(float(dot.attrib[key]) for key in ("cx", "cy", "r")) for dot in root.iter(f"{SVG}circle")]


@cache
def drawn(family: str, nodes: int) -> ET.Element:
    return picture(generate(family, nodes, topology_stream(1)), title=family)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("nodes", [1, 3, 8, 30, 200])
def test_every_node_lies_inside_the_picture(family: str, nodes: int) -> None:
    root = drawn(family, nodes)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    dots = circles(root)
    assert len(dots) == nodes
    assert width == WIDTH
    assert all(r <= x <= width - r and r <= y <= height - r for x, y, r in dots)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("nodes", [8, 30, 200])
def test_hardly_any_nodes_cover_each_other(family: str, nodes: int) -> None:
    dots = np.array(circles(drawn(family, nodes)))
    apart = np.linalg.norm(dots[:, None, :2] - dots[None, :, :2], axis=2) + 1e9 * np.eye(nodes)
    covered = (apart.min(axis=1) < 2 * dots[0, 2]).mean()
    assert covered <= 0.05


@pytest.mark.parametrize("graph", [families.line(9), families.grid(5, 7), families.ring(16)])
def test_hops_look_like_distances(graph: Graph) -> None:
    positions = arrange(graph)
    apart = np.linalg.norm(positions[:, None] - positions[None, :], axis=2)
    pairs = np.triu_indices(graph.nodes, 1)
    assert np.corrcoef(apart[pairs], distances(graph)[pairs])[0, 1] > 0.9


def test_a_ring_is_round_and_begins_at_the_top() -> None:
    positions = arrange(families.ring(24))
    lengths = np.linalg.norm(positions - positions.mean(axis=0), axis=1)
    assert np.ptp(lengths) < 0.02 * lengths.mean()
    assert int(positions[:, 1].argmin()) == 0


def test_a_line_is_straight_and_begins_at_the_left() -> None:
    positions = arrange(families.line(10))
    assert np.all(np.diff(positions[:, 0]) > 0)
    assert np.ptp(positions[:, 1]) < 0.01 * np.ptp(positions[:, 0])


@pytest.mark.parametrize("shape", [(4, 7), (7, 4)])
def test_a_grid_stands_upright_and_lies_on_its_longer_side(shape: tuple[int, int]) -> None:
    graph = families.grid(*shape)
    positions = arrange(graph)
    first, second = np.array(graph.edges).T
    steps = np.abs(positions[first] - positions[second])
    assert np.all(steps.min(axis=1) < 0.2 * steps.max(axis=1))
    assert np.ptp(positions[:, 0]) > np.ptp(positions[:, 1])
    assert np.all(positions[0] < positions.mean(axis=0))


def test_the_same_graph_always_looks_the_same() -> None:
    graph = families.erdos_renyi(40, 0.1, topology_stream(2))
    assert draw(graph) == draw(Graph.of(graph.nodes, graph.edges))


def test_components_of_a_disconnected_graph_lie_apart() -> None:
    graph = Graph.of(9, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)])
    positions = arrange(graph)
    inside = np.linalg.norm(positions[0] - positions[1])
    across = np.linalg.norm(positions[:3, None] - positions[None, 3:6], axis=2).min()
    assert across > inside


def test_a_graph_without_edges_is_only_dots() -> None:
    root = picture(Graph.of(4, []))
    assert len(circles(root)) == 4
    assert root.find(f"{SVG}path") is None


def test_every_edge_is_drawn_from_centre_to_centre() -> None:
    graph = families.erdos_renyi(12, 0.4, topology_stream(3))
    root = picture(graph)
    path = root.find(f"{SVG}path")
    assert path is not None
    at = [f"{x:.1f} {y:.1f}" for x, y, _ in circles(root)]
    assert path.attrib["d"] == "".join(f"M{at[i]}L{at[j]}" for i, j in graph.edges)


def test_highlighted_nodes_stand_out() -> None:
    graph = families.ring(8)
    groups = picture(graph, highlight={2, 5}, labels=False).findall(f"{SVG}g")
    assert [len(group) for group in groups] == [6, 2]
    assert groups[0].attrib["fill"] != groups[1].attrib["fill"]
    assert groups[0].attrib["stroke"] != groups[1].attrib["stroke"]
    assert len(picture(graph, labels=False).findall(f"{SVG}g")) == 1


def test_labels_are_the_numbers_of_the_nodes_and_can_be_left_out() -> None:
    labelled = [text.text for text in picture(families.ring(12)).iter(f"{SVG}text")]
    assert labelled == [str(node) for node in range(12)]
    assert not list(picture(families.ring(12), labels=False).iter(f"{SVG}text"))


def test_labels_too_small_to_read_are_left_out() -> None:
    assert not list(picture(families.line(150)).iter(f"{SVG}text"))


def test_the_title_names_the_graph_and_its_size() -> None:
    root = picture(families.line(2), title="a <b> & \x1b\x00 'c'")
    assert root.findtext(f"{SVG}title") == "a <b> &    'c': 2 nodes, 1 edge"
    shown = [text.text for text in root.iter(f"{SVG}text")]
    assert shown[:2] == ["a <b> &    'c'", "2 nodes, 1 edge"]
    assert picture(families.line(1)).findtext(f"{SVG}title") == "1 node, 0 edges"


def test_a_picture_needs_nothing_from_elsewhere() -> None:
    text = draw(families.ring(5), title="ring")
    assert text.count("http") == 1  # the name of the format
    assert not any(word in text for word in ("<script", "<style", "<image", "href"))


def test_graphs_nobody_could_read_stay_on_a_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "MAX_ARRANGED_NODES", 5)
    assert np.array_equal(arrange(families.star(6)), placement.circle(6))
    assert not np.array_equal(arrange(families.star(5)), placement.circle(5))


def test_two_hundred_nodes_are_drawn_in_a_moment() -> None:
    # Takes 0.2 s on an idle core; the wide margin only catches a loop in Python over all pairs.
    graph = families.erdos_renyi(200, 0.1, topology_stream(4))
    assert cpu_s_of(lambda: draw(graph)) < 3.0

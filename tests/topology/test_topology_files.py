from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from topology import generate as families
from topology import graph_files, graphml
from topology.generate import topology_stream
from topology.graph import MAX_NODES, Graph, TopologyError, TopologyFileError
from topology.graph_files import SUFFIXES, from_node_link, read, to_node_link, write

GRAPHS = {
    "one": families.line(1),
    "two": families.line(2),
    "ring": families.ring(11),
    "grid": families.grid(3, 4),
    "drawn": families.erdos_renyi(40, 0.15, topology_stream(1)),
}

each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
each_suffix = pytest.mark.parametrize("suffix", SUFFIXES)


def refusal(path: Path) -> str:
    with pytest.raises(TopologyFileError) as caught:
        read(path)
    message = str(caught.value)
    assert message.isprintable()
    assert path.name in message
    return message


def refused(tmp_path: Path, name: str, content: str | bytes) -> str:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return refusal(path)


@each_suffix
@each_graph
def test_what_is_written_can_be_read(graph: Graph, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"graph{suffix}"
    write(graph, path)
    again = read(str(path))
    assert (again.nodes, again.edges) == (graph.nodes, graph.edges)


@each_graph
def test_node_link_keeps_where_a_graph_came_from(graph: Graph, tmp_path: Path) -> None:
    assert from_node_link(to_node_link(graph)) == graph
    write(graph, tmp_path / "graph.JSON")
    assert read(tmp_path / "graph.JSON") == graph


@each_graph
def test_networkx_reads_what_we_write(graph: Graph, tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        write(graph, tmp_path / f"graph{suffix}")
    oracles = [
        nx.node_link_graph(json.loads((tmp_path / "graph.json").read_text()), edges="links"),
        nx.read_graphml(tmp_path / "graph.graphml", node_type=int),
        nx.read_edgelist(tmp_path / "graph.edges", nodetype=int),
    ]
    for oracle in oracles[: 2 if graph.nodes == 1 else 3]:  # networkx has no word for isolated nodes in edge lists
        assert set(oracle.nodes) == set(range(graph.nodes))
        assert {tuple(sorted(edge)) for edge in oracle.edges} == set(graph.edges)


@pytest.mark.parametrize("key", ["links", "edges"])
def test_node_link_of_networkx_is_read_under_either_key(key: str, tmp_path: Path) -> None:
    oracle = nx.relabel_nodes(nx.petersen_graph(), {node: 9 - node for node in range(10)})
    oracle.graph["name"] = "Petersen"
    nx.set_edge_attributes(oracle, 0.5, "weight")
    (tmp_path / "graph.json").write_text(json.dumps(nx.node_link_data(oracle, edges=key)))
    assert set(read(tmp_path / "graph.json").edges) == {tuple(sorted(edge)) for edge in oracle.edges}


def test_graphml_of_networkx_is_read_and_its_attributes_ignored(tmp_path: Path) -> None:
    oracle = nx.relabel_nodes(nx.petersen_graph(), {node: 9 - node for node in range(10)})
    nx.set_node_attributes(oracle, "gate", "place")
    nx.set_edge_attributes(oracle, 0.5, "weight")
    nx.write_graphml(oracle, tmp_path / "graph.graphml")
    assert set(read(tmp_path / "graph.graphml").edges) == {tuple(sorted(edge)) for edge in oracle.edges}


def test_edge_lists_of_networkx_are_read(tmp_path: Path) -> None:
    nx.write_edgelist(nx.petersen_graph(), tmp_path / "graph.txt", data=False)
    assert set(read(tmp_path / "graph.txt").edges) == {tuple(sorted(edge)) for edge in nx.petersen_graph().edges}


def test_edge_lists_may_have_comments_blank_lines_and_other_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "graph.edges"
    path.write_bytes(b"\xef\xbb\xbf# a picture of nodes\r\n\r\n  #nodes 3\r\n2\t1 # here\r\n 0  1\r\n# nodes are three")
    assert read(path) == Graph.of(3, [(0, 1), (1, 2)])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("0 1\n1 2 3\n", "line 2: expected two node numbers, got '1 2 3'"),
        ("0 1 {}\n", "line 1: expected two node numbers"),
        ("0\n", "line 1: expected two node numbers, got '0'"),
        ("0 1\n1 x\n", "line 2: expected a number from 0 to 1048576, got 'x'"),
        ("0 -1\n", "got '-1'"),
        ("0 1_0\n", "got '1_0'"),
        ("0 ١\n", r"got '\u0661'"),
        ("0 1.0\n", "got '1.0'"),
        ("0 nan\n", "got 'nan'"),
        ("0 99999999999999999999999\n", "expected a number from 0 to 1048576"),
        ("0 2000000\n", "expected a number from 0 to 1048576"),
        ("0 1048576\n", "between 1 and 1048576 nodes, got 1048577"),
        ("0 1\n1 1\n", "line 2 joins node 1 to itself"),
        ("0 1\n1 2\n\n1 0\n", "line 4 repeats the edge of line 1"),
        ("# nodes 2\n0 1\n1 2\n", "line 3 names node 2, but with '# nodes 2' the last is 1"),
        ("# nodes 2\n0 1\n# nodes 2\n", "line 3 says again how many nodes there are"),
        ("# nodes many\n0 1\n", "line 1: expected a number"),
        ("# nodes 0\n", "between 1 and 1048576 nodes, got 0"),
        ("", "there are no edges"),
        ("# nothing\n", "there are no edges"),
        ("# nodes 3\n", "3 components (0; 1; 2)"),
        ("1 2\n", "2 components (0; 1 2)"),
        (b"\xff\xfe0 1", "not a text file: the byte at 0 is not UTF-8"),
        (b"\x00\x01\x02", "line 1: expected two node numbers"),
    ],
)
def test_bad_edge_lists_are_refused_with_their_line(content: str | bytes, reason: str, tmp_path: Path) -> None:
    assert reason in refused(tmp_path, "graph.edges", content)


def node_link(**changes: object) -> dict[str, object]:
    return {**to_node_link(families.line(3)), **changes}


def test_the_smallest_node_link_data_is_enough() -> None:
    nodes = [{"id": 1}, {"id": 0}]
    assert from_node_link({"nodes": nodes, "links": [{"source": 1, "target": 0}]}) == Graph.of(2, [(0, 1)])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"directed": True}, "'directed' must be false"),
        ({"directed": 0}, "'directed' must be false"),
        ({"multigraph": True}, "'multigraph' must be false"),
        ({"nodes": None}, "'nodes' must be a list, got None"),
        ({"nodes": {"0": 1}}, "'nodes' must be a list, got a value of type dict"),
        ({"nodes": []}, "'nodes' lists 0"),
        ({"nodes": [{"id": 0}] * (MAX_NODES + 1)}, "'nodes' lists 1048577"),
        ({"nodes": [0, 1, 2]}, "nodes[0] must be an object, got 0"),
        ({"nodes": [{"id": 0}, {"id": 1}, {}]}, "the id of nodes[2] must be an integer, got None"),
        ({"nodes": [{"id": "0"}, {"id": "1"}]}, "the id of nodes[0] must be an integer, got '0'"),
        ({"nodes": [{"id": 0.0}]}, "the id of nodes[0] must be an integer, got 0.0"),
        ({"nodes": [{"id": False}]}, "the id of nodes[0] must be an integer, got False"),
        ({"nodes": [{"id": 0}, {"id": 0}]}, "nodes[1] has the id 0"),
        ({"nodes": [{"id": 1}, {"id": 2}]}, "nodes[1] has the id 2; the ids must be the integers 0 to 1"),
        ({"nodes": [{"id": -1}]}, "nodes[0] has the id -1"),
        ({"nodes": [{"id": 10**99}]}, "an integer of 329 bits"),
        ({"links": "0 1"}, "'links' must be a list, got '0 1'"),
        ({"links": [[0, 1]]}, "links[0] must be an object, got a value of type list"),
        ({"links": [{"source": 0}]}, "the target of links[0] must be an integer, got None"),
        ({"links": [{"source": 0.5, "target": 1}]}, "the source of links[0] must be an integer, got 0.5"),
        ({"links": [{"source": 0, "target": 3}]}, "links[0] names the node 3, but the nodes are 0 to 2"),
        ({"links": [{"source": -1, "target": 0}]}, "links[0] names the node -1"),
        ({"links": [{"source": 1, "target": 1}]}, "links[0] joins node 1 to itself"),
        ({"links": [{"source": 0, "target": 1}, {"source": 1, "target": 0}]}, "the edge 0 1 appears twice"),
        ({"links": [{"source": 0, "target": 1}]}, "2 components (0 1; 2)"),
        ({"edges": []}, "both 'links' and 'edges' are there"),
        ({"graph": []}, "'graph' must be an object"),
        ({"graph": {"family": 3}}, "the family must be a short name, got 3"),
        ({"graph": {"family": "a\nb"}}, "the family must be a short name"),
        ({"graph": {"family": "x" * 65}}, "the family must be a short name"),
        ({"graph": {"parameters": 3}}, "'parameters' must be an object"),
        ({"graph": {"parameters": {"p": "x"}}}, "the parameter 'p' must be a number, got 'x'"),
        ({"graph": {"parameters": {"p": True}}}, "the parameter 'p' must be a number, got True"),
        ({"graph": {"parameters": {"p": 10**99}}}, "the parameter 'p' must be a number"),
        ({"graph": {"parameters": {f"p{at}": 1 for at in range(17)}}}, "17 parameters are too many"),
        ({"graph": {"redraws": -1}}, "redraws must be between 0 and"),
        ({"graph": {"redraws": None}}, "the redraws of 'graph' must be an integer, got None"),
    ],
)
def test_bad_node_link_data_is_refused(changes: dict[str, object], reason: str, tmp_path: Path) -> None:
    assert reason in refused(tmp_path, "graph.json", json.dumps(node_link(**changes)))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not JSON: line 1, column 1"),
        ('{"nodes":\n[,]}', "not JSON: line 2, column 2"),
        ("[]", "the graph must be an object"),
        ("3", "the graph must be an object, got 3"),
        ('"x"', "the graph must be an object, got 'x'"),
        ('{"nodes": NaN}', "NaN is not a number"),
        ('{"nodes": [{"id": -Infinity}]}', "-Infinity is not a number"),
        ('{"nodes": [{"id": 0}], "links": [], "graph": {"parameters": {"p": 1e999}}}', "'p' must be a number, got inf"),
        ("[" * 200_000, "nested too deep"),
        ("9" * 10_000, "a number is too long"),
        (b"\xff{}", "not a text file: the byte at 0 is not UTF-8"),
    ],
)
def test_what_is_not_json_is_refused(content: str | bytes, reason: str, tmp_path: Path) -> None:
    assert reason in refused(tmp_path, "graph.json", content)


def xml(body: str, *, head: str = "", default: str = ' edgedefault="undirected"') -> str:
    return f'<?xml version="1.0"?>{head}\n<graphml>\n<graph{default}>\n{body}\n</graph>\n</graphml>'


TWO_NODES = '<node id="a"/><node id="b"/>'


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (("2", "0", "1"), [(0, 2), (0, 1)]),
        (("n2", "n0", "n1"), [(0, 2), (0, 1)]),
        (("n2", "0", "n1"), [(0, 2), (0, 1)]),
        (("hub", "gate", "door"), [(0, 1), (1, 2)]),
        (("1", "2", "3"), [(0, 1), (1, 2)]),
        (("n1", "1", "0"), [(0, 1), (1, 2)]),
        (("", "0", "1"), [(0, 1), (1, 2)]),
    ],
)
def test_graphml_ids_keep_their_numbers_or_are_numbered_as_they_come(ids, expected, tmp_path: Path) -> None:
    first, second, third = ids
    nodes = "".join(f'<node id="{node}"/>' for node in ids)
    edges = f'<edge source="{first}" target="{second}"/><edge source="{second}" target="{third}"/>'
    (tmp_path / "graph.graphml").write_text(xml(nodes + edges))
    assert read(tmp_path / "graph.graphml") == Graph.of(3, expected)


def test_graphml_edges_may_come_before_their_nodes(tmp_path: Path) -> None:
    (tmp_path / "graph.graphml").write_text(
        xml('<edge source="a" target="b" directed="false"/>' + TWO_NODES, default="")
    )
    assert read(tmp_path / "graph.graphml").edges == ((0, 1),)


def test_what_other_programs_put_into_graphml_is_ignored(tmp_path: Path) -> None:
    noise = (
        '<data key="d0"><node id="not this"/><edge source="x"/><graph/></data><desc>words</desc>'
        '<y:hyperedge xmlns:y="urn:yed"><node id="nor this"/></y:hyperedge>'
    )
    edge = f'<edge source="a" target="b">{noise}</edge>'
    (tmp_path / "graph.graphml").write_text(xml(f'{noise}<node id="a">{noise}</node><node id="b"/>{edge}'))
    assert read(tmp_path / "graph.graphml") == Graph.of(2, [(0, 1)])


BOMB = (
    '<!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>'
)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (xml('<node id="&c;"/>', head=BOMB), "line 1: document type declarations are refused"),
        (xml(TWO_NODES, head='<!DOCTYPE graphml SYSTEM "file:///etc/passwd">'), "declarations are refused"),
        (xml('<node id="&c;"/>'), "undefined entity"),
        ("", "not XML: line 1, column 0: no element found"),
        ("<graphml>", "not XML"),
        ("plain text", "not XML: line 1, column 0: syntax error"),
        (b"\x00\xff\xfe\x89", "not XML"),
        ('<?xml version="1.0" encoding="unicode_escape"?><graphml/>', "there is no graph in it"),
        ('<?xml version="1.0" encoding="UTF-16"?><graphml/>', "there is no graph in it"),
        ("<graphml/>", "there is no graph in it"),
        ("<svg/>", "line 1: the outermost element must be graphml"),
        ('<graphml xmlns="urn:other"/>', "the outermost element must be graphml"),
        (xml(TWO_NODES, default=' edgedefault="directed"'), "line 3: the graph is directed"),
        (xml(TWO_NODES + '\n<edge source="a" target="b" directed="true"/>'), "line 5: an edge is directed"),
        (xml('<node id="a"><graph/></node>'), "line 4: a second graph begins"),
        ("<graphml><graph/><graph/></graphml>", "a second graph begins"),
        (xml("<hyperedge/>"), "hyperedges are not edges between two agents"),
        ('<graphml><graph/><node id="a"/></graphml>', "this node stands outside the graph"),
        (xml('<node id="a"><edge source="a" target="b"/></node>'), "this edge stands outside the graph"),
        (xml("<node/>"), "line 4: this node has no id"),
        (xml('<node id="a"/><node id="a"/>'), "the node 'a' is declared twice"),
        (xml(TWO_NODES + '<edge source="a"/>'), "this edge has no target"),
        (xml(TWO_NODES + '<edge target="a"/>'), "this edge has no source"),
        (xml(TWO_NODES + '<edge source="a" target="a"/>'), "an edge joins the node 'a' to itself"),
        (xml(TWO_NODES + '<edge source="a" target="c"/>'), "line 4: an edge names the node 'c', which is nowhere"),
        (xml(TWO_NODES + '<edge source="a" target="b"/>' * 2), "the edge 0 1 appears twice"),
        (xml(TWO_NODES), "2 components (0; 1)"),
        (xml(""), "between 1 and 1048576 nodes, got 0"),
    ],
)
def test_bad_graphml_is_refused(content: str | bytes, reason: str, tmp_path: Path) -> None:
    assert reason in refused(tmp_path, "graph.graphml", content)


def test_graphml_stops_at_the_first_node_or_edge_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphml, "MAX_NODES", 2)
    monkeypatch.setattr(graphml, "MAX_EDGES", 1)
    edges = '<edge source="a" target="b"/>'
    (tmp_path / "fits.graphml").write_text(xml(TWO_NODES + edges))
    assert read(tmp_path / "fits.graphml").nodes == 2
    assert "more than 2 nodes" in refused(tmp_path, "graph.graphml", xml(TWO_NODES + '<node id="c"/>'))
    assert "more than 1 edges" in refused(tmp_path, "graph.graphml", xml(TWO_NODES + edges * 2))


@each_suffix
def test_files_that_are_too_long_are_refused_unread(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"graph{suffix}"
    write(families.ring(20), path)
    length = path.stat().st_size
    monkeypatch.setattr(graph_files, "MAX_FILE_BYTES", length)
    assert read(path).nodes == 20
    monkeypatch.setattr(graph_files, "MAX_FILE_BYTES", length - 1)
    assert f"longer than {length - 1} bytes" in refusal(path)


@each_suffix
def test_files_that_are_missing_or_no_files_are_refused(suffix: str, tmp_path: Path) -> None:
    assert "No such file or directory" in refusal(tmp_path / f"missing{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    assert "Is a directory" in refusal(tmp_path / f"folder{suffix}")
    with pytest.raises(TopologyFileError, match=r"cannot read .*a\?b"):
        read(f"a\0b{suffix}")


def test_files_of_unknown_kinds_are_refused_with_the_known_ones_named(tmp_path: Path) -> None:
    for name in ("graph.gml", "graph", "graph.json.gz"):
        with pytest.raises(TopologyFileError, match=r"known are \.edges, \.txt, \.json, \.graphml"):
            read(tmp_path / name)
        with pytest.raises(TopologyFileError, match=r"known are"):
            write(families.ring(3), tmp_path / name)


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TopologyFileError, match=r"cannot write .*No such file or directory; name another place"):
        write(families.ring(3), tmp_path / "nowhere" / "graph.json")
    with pytest.raises(TopologyFileError, match=r"cannot write .*null byte"):
        write(families.ring(3), "a\0b.json")


def test_a_disconnected_graph_gains_no_edge(tmp_path: Path) -> None:
    apart = Graph.of(5, [(0, 1), (2, 3), (3, 4)])
    for suffix in SUFFIXES:
        path = tmp_path / f"graph{suffix}"
        write(apart, path)
        assert "falls into 2 components (0 1; 2 3 4); messages cannot cross" in refusal(path)
    assert from_node_link(to_node_link(apart)) == apart


def test_data_that_was_never_in_a_file_is_refused_as_a_bad_parameter() -> None:
    with pytest.raises(TopologyError) as caught:
        from_node_link([])
    assert caught.value.exit_code == 2

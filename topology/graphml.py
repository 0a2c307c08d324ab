"""GraphML: nodes and edges of the one graph in the file, everything else ignored.

Document type declarations are refused before anything in them is read, so that entities, internal or external, do not
exist here and cannot expand. Node ids are strings in this format: ids that are exactly 0…n-1, or n0…n(n-1), keep their
numbers, any others are numbered in the order in which they appear. The text must be UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn
from xml.parsers import expat

from topology.graph import MAX_EDGES, MAX_NODES, Graph
from topology.validation import TopologyError, brief

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_NUMBERED = re.compile(r"n?([0-9]{1,9})", re.ASCII)


def parse(content: bytes) -> Graph:
    """Read GraphML; every fault is a TopologyError that names the line where there is one."""
    reader = _Reader()
    try:
        reader.parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise TopologyError(f"not XML: line {error.lineno}, column {error.offset}: {reason}") from error
    return reader.graph()


def render(graph: Graph) -> str:
    """Write a graph as GraphML."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<graphml xmlns="{_NAMESPACE}">',
        '  <graph edgedefault="undirected">',
        *(f'    <node id="{node}"/>' for node in range(graph.nodes)),
        *(f'    <edge source="{i}" target="{j}"/>' for i, j in graph.edges),
        "  </graph>",
        "</graphml>",
    ]
    return "\n".join(lines) + "\n"


class _Reader:
    """What the parser has seen so far: its position in the tree, the nodes, the edges and their lines."""

    def __init__(self) -> None:
        # UTF-8 whatever the file declares: among the encodings Python knows are some that warn, compress or run slowly.
        self.parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        self.parser.StartDoctypeDeclHandler = self._refuse_declarations
        self.parser.StartElementHandler = self._open
        self.parser.EndElementHandler = self._close
        self._above: list[str] = []
        self._graphs = 0
        self._ids: dict[str, int] = {}  # id → order of appearance
        self._edges: list[tuple[str, str, int]] = []  # source, target, line
        self._elements: dict[str, Callable[[dict[str, str]], None]] = {
            "graph": self._begin_graph,
            "node": self._add_node,
            "edge": self._add_edge,
            "hyperedge": self._refuse_hyperedge,
        }

    def graph(self) -> Graph:
        """The graph that was read, its nodes numbered."""
        if not self._graphs:
            raise TopologyError("there is no graph in it; is this GraphML?")
        number = _numbering(self._ids)
        edges = []
        for source, target, line in self._edges:
            for end in (source, target):
                if end not in number:
                    raise TopologyError(f"line {line}: an edge names the node {brief(end)}, which is nowhere declared")
            edges.append((number[source], number[target]))
        return Graph.of(len(number), edges)

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        ours = namespace in ("", _NAMESPACE) and "data" not in self._above
        if not self._above and not (ours and local == "graphml"):
            self._refuse("the outermost element must be graphml")
        self._above.append(local if ours else "data")
        if ours and local in self._elements:
            self._elements[local](attributes)

    def _close(self, _name: str) -> None:
        self._above.pop()

    def _begin_graph(self, attributes: dict[str, str]) -> None:
        self._graphs += 1
        if self._graphs > 1:
            self._refuse("a second graph begins; keep one graph per file, none inside another's nodes")
        if attributes.get("edgedefault", "undirected") != "undirected":
            self._refuse("the graph is directed; agents hear each other both ways, so make it undirected")

    def _add_node(self, attributes: dict[str, str]) -> None:
        self._require_graph_above()
        node = self._attribute(attributes, "id")
        if node in self._ids:
            self._refuse(f"the node {brief(node)} is declared twice")
        if len(self._ids) == MAX_NODES:
            self._refuse(f"there are more than {MAX_NODES} nodes")
        self._ids[node] = len(self._ids)

    def _add_edge(self, attributes: dict[str, str]) -> None:
        self._require_graph_above()
        if attributes.get("directed", "false") not in ("false", "0"):
            self._refuse("an edge is directed; agents hear each other both ways, so make it undirected")
        source, target = self._attribute(attributes, "source"), self._attribute(attributes, "target")
        if source == target:
            self._refuse(f"an edge joins the node {brief(source)} to itself; remove it")
        if len(self._edges) == MAX_EDGES:
            self._refuse(f"there are more than {MAX_EDGES} edges")
        self._edges.append((source, target, self.parser.CurrentLineNumber))

    def _require_graph_above(self) -> None:
        if self._above[-2:-1] != ["graph"]:
            self._refuse(f"this {self._above[-1]} stands outside the graph")

    def _attribute(self, attributes: dict[str, str], name: str) -> str:
        if name not in attributes:
            self._refuse(f"this {self._above[-1]} has no {name}")
        return attributes[name]

    def _refuse_hyperedge(self, _attributes: dict[str, str]) -> NoReturn:
        self._refuse("hyperedges are not edges between two agents; replace them by edges")

    def _refuse_declarations(self, *_declaration: object) -> NoReturn:
        self._refuse("document type declarations are refused, entities can be made to explode; remove it")

    def _refuse(self, reason: str) -> NoReturn:
        raise TopologyError(f"line {self.parser.CurrentLineNumber}: {reason}")


def _numbering(ids: dict[str, int]) -> dict[str, int]:
    matches = [_NUMBERED.fullmatch(node) for node in ids]
    numbers = [int(match[1]) for match in matches if match]
    if sorted(numbers) == list(range(len(ids))):
        return dict(zip(ids, numbers, strict=True))
    return ids

"""The graph that agents sit on: undirected, simple, nodes numbered from 0."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from topology.validation import TopologyError, TopologyFileError, as_integer, brief

__all__ = [
    "MAX_EDGES",
    "MAX_NODES",
    "Edge",
    "Graph",
    "Parameters",
    "TopologyError",
    "TopologyFileError",
    "node_count",
    "require_connected",
]

MAX_NODES = 1 << 20
"""No graph has more nodes: an agent's number fits in 16 bits."""

MAX_EDGES = 1_048_576
"""No graph has more edges: each one is two TCP connections, and every graph we write must be readable again."""

Edge = tuple[int, int]
Parameters = tuple[tuple[str, int | float], ...]

_NAMED_COMPONENTS = 5
_NAMED_MEMBERS = 8


@dataclass(frozen=True, slots=True)
class Graph:
    """An undirected simple graph on the nodes 0…nodes-1; build it with `Graph.of`, which checks it."""

    nodes: int
    edges: tuple[Edge, ...]  # pairs i < j, ascending, each once
    family: str = "file"
    parameters: Parameters = ()
    redraws: int = 0  # draws thrown away before this one was accepted
    _neighbours: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        around: list[list[int]] = [[] for _ in range(self.nodes)]
        for i, j in self.edges:
            around[i].append(j)
            around[j].append(i)
        object.__setattr__(self, "_neighbours", tuple(tuple(sorted(near)) for near in around))

    @classmethod
    def of(
        cls,
        nodes: int,
        edges: Iterable[tuple[int, int]],
        *,
        family: str = "file",
        parameters: Parameters = (),
        redraws: int = 0,
    ) -> Graph:
        """Build a graph from pairs in any order; loops, duplicates and unknown nodes are refused."""
        count = node_count(nodes)
        pairs = [_checked(pair, count) for pair in edges]
        if len(pairs) > MAX_EDGES:
            raise TopologyError(f"{len(pairs)} edges are too many: at most {MAX_EDGES}; make the graph sparser")
        pairs.sort()
        for earlier, later in pairwise(pairs):
            if earlier == later:
                raise TopologyError(f"the edge {later[0]} {later[1]} appears twice; list every edge once")
        return cls(count, tuple(pairs), family, parameters, redraws)

    def neighbours(self, node: int) -> tuple[int, ...]:
        """Nodes one hop away, ascending."""
        return self._neighbours[node]

    def degrees(self) -> tuple[int, ...]:
        """How many neighbours each node has."""
        return tuple(len(near) for near in self._neighbours)

    def components(self) -> list[list[int]]:
        """The connected components, each ascending, in the order of their lowest node."""
        seen = bytearray(self.nodes)
        return [sorted(self._flood(node, seen)) for node in range(self.nodes) if not seen[node]]

    def is_connected(self) -> bool:
        """Whether every node reaches every other one."""
        return len(self._flood(0, bytearray(self.nodes))) == self.nodes

    def _flood(self, start: int, seen: bytearray) -> list[int]:
        reached = [start]
        seen[start] = 1
        for node in reached:  # grows while it is walked: breadth first
            for near in self._neighbours[node]:
                if not seen[near]:
                    seen[near] = 1
                    reached.append(near)
        return reached


def node_count(nodes: object) -> int:
    """Check a number of nodes: an integer in 1…MAX_NODES."""
    count = as_integer(nodes)
    if count is None or not 1 <= count <= MAX_NODES:
        raise TopologyError(f"a graph has between 1 and {MAX_NODES} nodes, got {brief(nodes)}")
    return count


def require_connected(graph: Graph) -> Graph:
    """Return the graph if it is connected; refuse it with its components named otherwise."""
    if graph.is_connected():
        return graph
    parts = graph.components()
    named = "; ".join(_members(part) for part in parts[:_NAMED_COMPONENTS])
    more = f"; and {len(parts) - _NAMED_COMPONENTS} more" if len(parts) > _NAMED_COMPONENTS else ""
    raise TopologyError(
        f"the graph falls into {len(parts)} components ({named}{more}); "
        "messages cannot cross between them: add the missing edges or run each component by itself"
    )


def _members(part: list[int]) -> str:
    shown = " ".join(str(node) for node in part[:_NAMED_MEMBERS])
    return shown if len(part) <= _NAMED_MEMBERS else f"{shown} … {part[-1]}, {len(part)} nodes"


def _checked(pair: tuple[int, int], nodes: int) -> Edge:
    one, other = pair
    first, second = _endpoint(one, nodes), _endpoint(other, nodes)
    if first == second:
        raise TopologyError(f"node {first} is joined to itself; an agent does not listen to itself, remove that edge")
    return (first, second) if first < second else (second, first)


def _endpoint(value: object, nodes: int) -> int:
    node = as_integer(value)
    if node is None or not 0 <= node < nodes:
        raise TopologyError(f"an edge names the node {brief(value)}, but the nodes are the integers 0 to {nodes - 1}")
    return node

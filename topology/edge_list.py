"""Edge lists: one pair of node numbers per line.

::

    # nodes 4
    0 1
    1 2
    2 3  # a comment

The `# nodes N` line is optional; without it the highest number decides.
"""

from __future__ import annotations

import re

from topology.graph import MAX_NODES, Edge, Graph
from topology.validation import TopologyError, brief

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_NODES_LINE = re.compile(r"\s*nodes\s+(\S+)\s*", re.ASCII)


def parse(content: bytes) -> Graph:
    """Read an edge list; every fault is a TopologyError that names the line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TopologyError(f"not a text file: the byte at {error.start} is not UTF-8") from error
    declared: int | None = None
    lines_of: dict[Edge, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        pair, _, comment = line.partition("#")
        if pair.strip():
            _add(lines_of, _edge(pair, number), number)
        elif stated := _NODES_LINE.fullmatch(comment):
            if declared is not None:
                raise TopologyError(f"line {number} says again how many nodes there are; keep one such line")
            declared = _node(stated[1], number)
    return Graph.of(_node_count(declared, lines_of), lines_of)


def render(graph: Graph) -> str:
    """Write a graph as an edge list."""
    lines = [f"# nodes {graph.nodes}", *(f"{i} {j}" for i, j in graph.edges)]
    return "\n".join(lines) + "\n"


def _add(lines_of: dict[Edge, int], edge: Edge, number: int) -> None:
    if edge in lines_of:
        raise TopologyError(f"line {number} repeats the edge of line {lines_of[edge]}; list every edge once")
    lines_of[edge] = number


def _edge(pair: str, number: int) -> Edge:
    fields = pair.split()
    if len(fields) != 2:
        raise TopologyError(f"line {number}: expected two node numbers, got {brief(pair.strip())}")
    first, second = _node(fields[0], number), _node(fields[1], number)
    if first == second:
        raise TopologyError(f"line {number} joins node {first} to itself; remove it")
    return (first, second) if first < second else (second, first)


def _node(field: str, number: int) -> int:
    # int() alone would take '1_0', '+1' and digits of every script.
    if not _NUMBER.fullmatch(field) or int(field) > MAX_NODES:
        raise TopologyError(f"line {number}: expected a number from 0 to {MAX_NODES}, got {brief(field)}")
    return int(field)


def _node_count(declared: int | None, lines_of: dict[Edge, int]) -> int:
    edge = max(lines_of, key=lambda pair: pair[1], default=None)
    if edge is None:
        if declared is None:
            raise TopologyError("there are no edges; a graph of a single node is the line '# nodes 1'")
        return declared
    if declared is not None and edge[1] >= declared:
        raise TopologyError(
            f"line {lines_of[edge]} names node {edge[1]}, but with '# nodes {declared}' the last is {declared - 1}"
        )
    return edge[1] + 1 if declared is None else declared

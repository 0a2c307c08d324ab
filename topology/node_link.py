"""Node-link JSON, as networkx writes it: a list of nodes, a list of links, both of small objects.

Nodes must be the integers 0…n-1, each once, in any order: they are the agents' numbers. Links may be called "links" or
"edges". Attributes of nodes and links are ignored. What drew the graph travels in "graph", so that a run directory
tells where its topology came from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NoReturn

from topology.graph import MAX_NODES, Edge, Graph, Parameters
from topology.validation import TopologyError, as_integer, brief

_LONGEST_NAME = 64
_MOST_PARAMETERS = 16
_MOST_VALUES = 10_000_000
_LARGEST = 10**9  # of any parameter, and of the redraws; NaN and infinity are not below it


def parse(content: bytes) -> Graph:
    """Read node-link JSON; every fault is a TopologyError."""
    if sum(map(content.count, (b",", b"[", b"{"))) > _MOST_VALUES:  # before it takes thirty times its own room
        raise TopologyError(f"not a graph: more than {_MOST_VALUES} values; no graph needs that many")
    try:
        data = json.loads(content.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except TopologyError:
        raise
    except UnicodeDecodeError as error:
        raise TopologyError(f"not a text file: the byte at {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise TopologyError(f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, a thousand nested lists
        raise TopologyError("not a graph: a number is too long or lists are nested too deep") from error
    return from_node_link(data)


def render(graph: Graph) -> str:
    """Write a graph as node-link JSON."""
    return json.dumps(to_node_link(graph), allow_nan=False) + "\n"


def to_node_link(graph: Graph) -> dict[str, object]:
    """The graph as plain dicts and lists; networkx reads it with edges="links"."""
    origin = {"family": graph.family, "parameters": dict(graph.parameters), "redraws": graph.redraws}
    return {
        "directed": False,
        "multigraph": False,
        "graph": origin,
        "nodes": [{"id": node} for node in range(graph.nodes)],
        "links": [{"source": i, "target": j} for i, j in graph.edges],
    }


def from_node_link(data: object) -> Graph:
    """Build a graph from node-link data that nobody vouches for; it may be disconnected."""
    whole = _object(data, "the graph")
    for key in ("directed", "multigraph"):
        if whole.get(key, False) is not False:
            raise TopologyError(f"'{key}' must be false: agents hear each other both ways over single edges")
    nodes = _nodes(_list(whole, "nodes"))
    if "links" in whole and "edges" in whole:
        raise TopologyError("both 'links' and 'edges' are there; keep one of them")
    key = "edges" if "edges" in whole else "links"
    edges = [_edge(link, f"{key}[{at}]", nodes) for at, link in enumerate(_list(whole, key))]
    origin = _object(whole.get("graph", {}), "'graph'")
    return Graph.of(nodes, edges, family=_family(origin), parameters=_parameters(origin), redraws=_redraws(origin))


def _nodes(entries: list[object]) -> int:
    if not 1 <= len(entries) <= MAX_NODES:
        raise TopologyError(f"a graph has between 1 and {MAX_NODES} nodes, 'nodes' lists {len(entries)}")
    seen: set[int] = set()
    for at, entry in enumerate(entries):
        node = _number(_object(entry, f"nodes[{at}]"), "id", f"nodes[{at}]")
        if not 0 <= node < len(entries) or node in seen:
            raise TopologyError(
                f"nodes[{at}] has the id {brief(node)}; the ids must be the integers 0 to {len(entries) - 1}, each once"
            )
        seen.add(node)
    return len(entries)


def _edge(link: object, where: str, nodes: int) -> Edge:
    ends = _object(link, where)
    first, second = _number(ends, "source", where), _number(ends, "target", where)
    for node in (first, second):
        if not 0 <= node < nodes:
            raise TopologyError(f"{where} names the node {brief(node)}, but the nodes are 0 to {nodes - 1}")
    if first == second:
        raise TopologyError(f"{where} joins node {first} to itself; remove it")
    return first, second


def _family(origin: Mapping[str, object]) -> str:
    family = origin.get("family", "file")
    if not isinstance(family, str) or not family.isprintable() or len(family) > _LONGEST_NAME:
        raise TopologyError(f"the family must be a short name, got {brief(family)}")
    return family


def _parameters(origin: Mapping[str, object]) -> Parameters:
    given = _object(origin.get("parameters", {}), "'parameters'")
    if len(given) > _MOST_PARAMETERS:
        raise TopologyError(f"{len(given)} parameters are too many; at most {_MOST_PARAMETERS} make sense")
    checked: list[tuple[str, int | float]] = []
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
            raise TopologyError(f"the parameter {brief(name)} must be a number, got {brief(value)}")
        checked.append((name, value))
    return tuple(checked)


def _redraws(origin: Mapping[str, object]) -> int:
    redraws = _number({"redraws": 0, **origin}, "redraws", "'graph'")
    if not 0 <= redraws <= _LARGEST:
        raise TopologyError(f"redraws must be between 0 and {_LARGEST}, got {brief(redraws)}")
    return redraws


def _object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TopologyError(f"{where} must be an object, got {brief(value)}")
    return value


def _list(whole: Mapping[str, object], key: str) -> list[object]:
    value = whole.get(key)
    if not isinstance(value, list):
        raise TopologyError(f"'{key}' must be a list, got {brief(value)}; is this node-link JSON?")
    return value


def _number(entry: Mapping[str, object], key: str, where: str) -> int:
    number = as_integer(entry.get(key))
    if number is None:
        raise TopologyError(f"the {key} of {where} must be an integer, got {brief(entry.get(key))}")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise TopologyError(f"{name} is not a number that JSON has; a graph has no use for it")

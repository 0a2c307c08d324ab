"""Families of connected graphs, one function each, every random one drawn from the generator it is given.

The draws compare or shuffle integers and uniform numbers only, never logarithms, so that a seed gives the same graph
on every machine. A random graph that comes out disconnected is drawn again, never mended: mending would change the
distribution. The number of draws thrown away is in `Graph.redraws`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import numpy as np

from topology.graph import MAX_EDGES, Edge, Graph, node_count
from topology.random_edges import all_pairs, bernoulli_pairs, ordered, paired_stubs, preferential, rewired_ring
from topology.validation import TopologyError, brief, probability, whole

MAX_REDRAWS = 1000
"""How often a random graph is drawn again before giving up, unless the caller says otherwise."""

_TOPOLOGY_PURPOSE = 5
_SEED_LIMIT = 1 << 64


def topology_stream(seed: int) -> np.random.Generator:
    """Open the random stream that graphs of this seed are drawn from."""
    key = np.array([whole("seed", seed, 0, _SEED_LIMIT - 1), 0], dtype=np.uint64)
    # The same stream as agentd.core.chance.stream(seed, Purpose.TOPOLOGY), spelled out because this package imports
    # nothing of agentd: a simulation and the command line must draw the same graph for the same seed.
    counter = np.array([0, 0, 0, _TOPOLOGY_PURPOSE], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def erdos_renyi(nodes: int, edge_probability: float, rng: np.random.Generator, max_redraws: int = MAX_REDRAWS) -> Graph:
    """Every pair is an edge with the same probability; redrawn until connected."""
    count = node_count(nodes)
    chance = probability("edge probability", edge_probability)
    limit = whole("max redraws", max_redraws, 0)
    _refuse_too_many_edges(int(chance * (count * (count - 1) // 2)))
    _refuse_hopeless(count, chance, limit)

    def draw() -> list[Edge] | None:
        pairs = bernoulli_pairs(count, chance, rng)
        if count > 1 and not np.bincount(pairs.ravel(), minlength=count).all():
            return None  # an isolated node is by far the commonest fault, and cheaper to see here than by a flood
        return [(i, j) for i, j in pairs.T.tolist()]

    advice = f"raise the edge probability, ln(n)/n = {_threshold(count):.4g} is a sensible minimum"
    return _first_connected(draw, count, "erdos-renyi", {"edge_probability": chance}, max_redraws=limit, advice=advice)


def ring(nodes: int) -> Graph:
    """Node i is next to i+1, and the last one to the first; two nodes share a single edge."""
    count = node_count(nodes)
    edges = {ordered(i, (i + 1) % count) for i in range(count) if count > 1}
    return Graph.of(count, edges, family="ring")


def line(nodes: int) -> Graph:
    """Node i is next to i+1: the largest diameter a connected graph can have."""
    count = node_count(nodes)
    return Graph.of(count, ((i, i + 1) for i in range(count - 1)), family="line")


def star(nodes: int) -> Graph:
    """Node 0 is next to everyone, and nobody else to anyone."""
    count = node_count(nodes)
    return Graph.of(count, ((0, i) for i in range(1, count)), family="star")


def complete(nodes: int) -> Graph:
    """Everyone is next to everyone."""
    count = node_count(nodes)
    _refuse_too_many_edges(count * (count - 1) // 2)
    return Graph.of(count, all_pairs(count), family="complete")


def grid(rows: int | None = None, columns: int | None = None, nodes: int | None = None) -> Graph:
    """A lattice, numbered row by row; from `nodes` alone near-square, its last row perhaps shorter."""
    count, width = _grid_shape(rows, columns, nodes)
    across = ((i, i + 1) for i in range(count - 1) if (i + 1) % width)
    down = ((i, i + width) for i in range(count - width))
    parameters = (("rows", -(-count // width)), ("columns", width))
    return Graph.of(count, [*across, *down], family="grid", parameters=parameters)


def random_regular(nodes: int, degree: int, rng: np.random.Generator, max_redraws: int = MAX_REDRAWS) -> Graph:
    """Everyone has the same number of neighbours; redrawn until simple and connected."""
    count = node_count(nodes)
    wanted = whole("degree", degree, 0, count - 1)
    limit = whole("max redraws", max_redraws, 0)
    if count * wanted % 2:
        raise TopologyError(f"{count} nodes cannot all have degree {wanted}: one of the two numbers must be even")
    if wanted < min(2, count - 1):
        raise TopologyError(f"{count} nodes of degree {wanted} cannot be connected; use a degree of 2 or more")
    _refuse_too_many_edges(count * wanted // 2)

    def draw() -> set[Edge] | None:
        if 2 * wanted < count:
            return paired_stubs(count, wanted, rng)
        # Pairing gets stuck on dense graphs, so draw which edges are missing: that graph is regular and sparse.
        missing = paired_stubs(count, count - 1 - wanted, rng)
        return None if missing is None else set(all_pairs(count)) - missing

    advice = "use a larger degree"
    return _first_connected(draw, count, "random-regular", {"degree": wanted}, max_redraws=limit, advice=advice)


def watts_strogatz(
    nodes: int, degree: int, rewire: float, rng: np.random.Generator, max_redraws: int = MAX_REDRAWS
) -> Graph:
    """A ring where everyone knows its `degree` nearest, each edge's far end moved with probability `rewire`."""
    count = node_count(nodes)
    if count == 2:
        raise TopologyError("2 nodes have no ring to rewire; use the family line, or 3 nodes")
    wanted = whole("degree", degree, min(2, count - 1), count - 1)
    if wanted % 2:
        raise TopologyError(f"degree must be even, half to either side, got {wanted}; or use random-regular")
    chance = probability("rewire", rewire)
    limit = whole("max redraws", max_redraws, 0)
    _refuse_too_many_edges(count * wanted // 2)

    def draw() -> set[Edge]:
        return rewired_ring(count, wanted // 2, chance, rng)

    chosen = {"degree": wanted, "rewire": chance}
    advice = "use a larger degree or rewire less"
    return _first_connected(draw, count, "watts-strogatz", chosen, max_redraws=limit, advice=advice)


def barabasi_albert(nodes: int, attach: int, rng: np.random.Generator) -> Graph:
    """Each newcomer joins `attach` earlier nodes, drawn by their degrees; always connected."""
    count = node_count(nodes)
    wanted = whole("attach", attach, min(1, count - 1), count - 1)
    _refuse_too_many_edges(wanted * (count - wanted))
    edges = preferential(count, wanted, rng)
    return Graph.of(count, edges, family="barabasi-albert", parameters=(("attach", wanted),))


FAMILIES: Mapping[str, Callable[..., Graph]] = MappingProxyType(
    {
        "erdos-renyi": erdos_renyi,
        "ring": ring,
        "line": line,
        "star": star,
        "complete": complete,
        "grid": grid,
        "random-regular": random_regular,
        "watts-strogatz": watts_strogatz,
        "barabasi-albert": barabasi_albert,
    }
)
"""Every family by its name on the command line."""

# What a family gets when nothing is said: connected and of a readable density at any size the family has.
_DEFAULTS: Mapping[str, Callable[[int], Mapping[str, int | float]]] = MappingProxyType(
    {
        "erdos-renyi": lambda nodes: {"edge_probability": round(min(1.0, 2 * _threshold(nodes)), 4)},
        "random-regular": lambda nodes: {"degree": min(4, nodes - 1)},
        "watts-strogatz": lambda nodes: {"degree": min(4, (nodes - 1) // 2 * 2), "rewire": 0.1},
        "barabasi-albert": lambda nodes: {"attach": min(2, nodes - 1)},
    }
)


def generate(family: str, nodes: int | None, rng: np.random.Generator, **parameters: int | float | None) -> Graph:
    """Draw a graph of a family by name; a parameter that is None counts as not given and gets its default."""
    name = family.replace("_", "-").lower()
    if name not in FAMILIES:
        raise TopologyError(f"unknown family {brief(family)}; known are {', '.join(FAMILIES)}")
    takes = inspect.signature(FAMILIES[name]).parameters
    given = {key: value for key, value in parameters.items() if value is not None}
    for key in given:
        if key not in takes:
            raise TopologyError(f"the family {name} takes no {key.replace('_', ' ')}; leave it out")
    defaults = _DEFAULTS[name](node_count(nodes)) if name in _DEFAULTS else {}
    arguments = {"nodes": nodes, "rng": rng, **defaults, **given}
    return FAMILIES[name](**{key: value for key, value in arguments.items() if key in takes})


def _threshold(nodes: int) -> float:
    """The edge probability ln(n)/n around which an Erdős–Rényi graph becomes connected."""
    return math.log(nodes) / nodes


def _refuse_hopeless(nodes: int, chance: float, max_redraws: int) -> None:
    isolated = nodes * (1.0 - chance) ** (nodes - 1) if nodes > 1 else 0.0
    # The number of isolated nodes is close to Poisson, so a draw has none of them with probability exp(-isolated).
    # Hopeless: even all the redraws together find such a draw less than once in a million times.
    hopeless = isolated > math.log(max_redraws + 1) + math.log(1e6)
    if hopeless or (chance == 0.0 and nodes > 1):
        raise TopologyError(
            f"{nodes} nodes with edge probability {chance:g} are almost never connected, about {isolated:.0f} would "
            f"have no neighbour; raise the edge probability, ln(n)/n = {_threshold(nodes):.4g} is a sensible minimum"
        )


def _first_connected(
    draw: Callable[[], Iterable[Edge] | None],
    nodes: int,
    family: str,
    parameters: Mapping[str, int | float],
    *,
    max_redraws: int,
    advice: str,
) -> Graph:
    """Draw until the graph is connected; `draw` returns None for what it already knows to be unusable."""
    for redraws in range(max_redraws + 1):
        edges = draw()
        if edges is None:
            continue
        graph = Graph.of(nodes, edges, family=family, parameters=tuple(parameters.items()), redraws=redraws)
        if graph.is_connected():
            return graph
    raise TopologyError(f"none of {max_redraws + 1} {family} draws of {nodes} nodes was connected; {advice}")


def _grid_shape(rows: int | None, columns: int | None, nodes: int | None) -> tuple[int, int]:
    """Nodes and columns of a lattice, from whichever of the three numbers were given."""
    height = None if rows is None else whole("rows", rows, 1)
    width = None if columns is None else whole("columns", columns, 1)
    if nodes is None:
        if height is None or width is None:
            raise TopologyError("a grid needs both rows and columns, or a number of nodes")
        return node_count(height * width), width
    count = node_count(nodes)
    if height is not None and width is not None and height * width != count:
        raise TopologyError(f"{height} rows of {width} are {height * width} nodes, not {count}; leave one number out")
    if width is None:
        width = -(-count // height) if height is not None else math.isqrt(count - 1) + 1
    if width > count or (height is not None and -(-count // width) != height):
        shape = f"{height} rows" if height is not None else f"rows of {width}"
        raise TopologyError(f"{count} nodes do not make {shape}; change one of the numbers or leave one out")
    return count, width


def _refuse_too_many_edges(edges: int) -> None:
    if edges > MAX_EDGES:
        raise TopologyError(f"that makes about {edges} edges, at most {MAX_EDGES} are possible; make it sparser")

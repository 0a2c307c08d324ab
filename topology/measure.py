"""Hop counts and what follows from them: diameter, balls, power graphs, clique covers.

A message of lifetime γ reaches the ball of radius γ around its origin, so the agents that hear each other are the
edges of the power graph G_γ. The paper bounds the group regret by the clique covering number of G_γ, the least number
of cliques that together hold every agent; it is NP-hard, and a greedy cover bounds it from above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from topology.graph import Graph, require_connected
from topology.validation import TopologyError, whole

MAX_MEASURED_NODES = 4096
"""Larger graphs are not measured: their table of all hop counts would take more than 64 MiB."""

Neighbours = Sequence[Sequence[int]]
"""Of each node."""

Distances = NDArray[np.int32]
"""Hops from each node to each node; -1 where there is no way."""

_WORD = 64
_GATHERED_WORDS = 1 << 20  # bounds the memory of one step of the search: 8 MiB


@dataclass(frozen=True, slots=True)
class PowerMeasures:
    """What one lifetime γ means on a graph."""

    gamma: int
    mean_ball_size: float  # agents that hear a message, its origin included
    clique_cover: int  # upper bound of the clique covering number of the power graph


@dataclass(frozen=True, slots=True)
class Measures:
    """What is worth knowing about a graph before agents run on it; None where only a connected one has it."""

    nodes: int
    edges: int
    min_degree: int
    mean_degree: float
    max_degree: int
    connected: bool
    diameter: int | None
    radius: int | None
    mean_distance: float | None
    powers: tuple[PowerMeasures, ...]

    def as_json(self) -> dict[str, object]:
        """The same as plain dicts, lists and numbers."""
        return {**asdict(self), "powers": [asdict(power) for power in self.powers]}


def measure(graph: Graph, gamma: int | None = None) -> Measures:
    """Measure a graph, for one lifetime γ or for each from 1 to the diameter."""
    hops = distances(graph)
    lifetimes = range(1, int(hops.max()) + 1) if gamma is None else (whole("gamma", gamma, 0),)
    degrees = graph.degrees()
    connected = bool(hops.min() >= 0)
    return Measures(
        nodes=graph.nodes,
        edges=len(graph.edges),
        min_degree=min(degrees),
        mean_degree=2 * len(graph.edges) / graph.nodes,
        max_degree=max(degrees),
        connected=connected,
        diameter=diameter(hops) if connected else None,
        radius=radius(hops) if connected else None,
        mean_distance=mean_distance(hops) if connected else None,
        powers=tuple(_measure_power(hops, lifetime) for lifetime in lifetimes),
    )


def distances(graph: Graph) -> Distances:
    """Hops between all pairs of a graph."""
    return distances_among([graph.neighbours(node) for node in range(graph.nodes)])


def distances_among(neighbours: Neighbours) -> Distances:
    """Hops between all pairs, found by widening everyone's ball one hop at a time."""
    nodes = len(neighbours)
    if nodes > MAX_MEASURED_NODES:
        raise TopologyError(f"{nodes} nodes are too many to measure; at most {MAX_MEASURED_NODES} are")
    hops = np.full((nodes, nodes), -1, dtype=np.int32)
    np.fill_diagonal(hops, 0)
    balls = _packed(hops == 0)
    listeners, starts = _neighbourhoods(neighbours)
    for hop in range(1, nodes):
        wider = _union(balls, listeners, starts)
        fresh = wider & ~balls
        if not fresh.any():
            break
        _mark(hops, fresh, hop)
        balls = wider
    return hops


def diameter_bounds(neighbours: Neighbours) -> tuple[int, int]:
    """The least and the most that the diameter of a connected graph can be, from three searches.

    From anywhere to who is farthest, from there to who is farthest again, and from the middle of that way: the second
    is a distance that there is, and everybody reaches everybody through the middle.
    """
    far = max(range(len(neighbours)), key=_hops_from(neighbours, 0).__getitem__)
    hops = _hops_from(neighbours, far)
    longest = max(hops)
    middle = hops.index(longest)
    while hops[middle] > longest // 2:
        middle = next(near for near in neighbours[middle] if hops[near] < hops[middle])
    around = max(_hops_from(neighbours, middle))
    return max(longest, around), 2 * around


def _hops_from(neighbours: Neighbours, start: int) -> list[int]:
    hops = [-1] * len(neighbours)
    hops[start] = 0
    reached = [start]
    for node in reached:  # grows while it is walked: breadth first
        for near in neighbours[node]:
            if hops[near] < 0:
                hops[near] = hops[node] + 1
                reached.append(near)
    return hops


def diameter(graph: Graph | Distances) -> int:
    """The most hops any message has to make."""
    return int(_connected_hops(graph).max())


def radius(graph: Graph | Distances) -> int:
    """The most hops from the best placed node."""
    return int(_connected_hops(graph).max(axis=1).min())


def mean_distance(graph: Graph | Distances) -> float:
    """Mean hops over pairs of different nodes; 0 where there is only one."""
    hops = _connected_hops(graph)
    nodes = len(hops)
    return float(hops.sum(dtype=np.int64) / (nodes * (nodes - 1))) if nodes > 1 else 0.0


def balls(hops: Distances, gamma: int) -> NDArray[np.bool_]:
    """Row m marks the nodes at most γ hops from m, itself included."""
    return (hops >= 0) & (hops <= whole("gamma", gamma, 0))


def ball_sizes(hops: Distances, gamma: int) -> NDArray[np.int64]:
    """How many nodes hear each node's messages of lifetime γ, itself included."""
    sizes: NDArray[np.int64] = balls(hops, gamma).sum(axis=1, dtype=np.int64)
    return sizes


def power_graph(hops: Distances, gamma: int) -> NDArray[np.bool_]:
    """Adjacency of G_γ: an edge where two different nodes are at most γ hops apart."""
    return balls(hops, gamma) & (hops > 0)


def clique_cover(power_adjacency: NDArray[np.bool_]) -> list[list[int]]:
    """Split the nodes into cliques of a graph; their number bounds its clique covering number from above.

    This colours the complement by saturation (DSATUR): next comes the node that fits into the fewest of the cliques
    begun so far, among those the one with the fewest neighbours, and it joins the first clique that takes it.
    """
    nodes = len(power_adjacency)
    cliques: list[list[int]] = []
    fits = np.zeros((nodes, nodes), dtype=np.bool_)  # row c: the nodes next to every member of clique c
    urgency = nodes - power_adjacency.sum(axis=1, dtype=np.int64)
    for _ in range(nodes):
        node = int(urgency.argmax())
        near = power_adjacency[node]
        open_to_node = fits[: len(cliques), node].nonzero()[0]
        if len(open_to_node):
            row = fits[open_to_node[0]]
            cliques[open_to_node[0]].append(node)
        else:
            row = fits[len(cliques)]
            row[:] = True
            cliques.append([node])
        urgency[row & ~near] += nodes + 1  # one clique fewer to choose from outweighs every difference in degree
        urgency[node] = np.iinfo(np.int64).min // 2  # placed: far below anything, and stays there
        row &= near
    return [sorted(clique) for clique in cliques]


def _measure_power(hops: Distances, gamma: int) -> PowerMeasures:
    cover = clique_cover(power_graph(hops, gamma))
    return PowerMeasures(gamma, float(ball_sizes(hops, gamma).mean()), len(cover))


def _connected_hops(graph: Graph | Distances) -> Distances:
    hops = distances(require_connected(graph)) if isinstance(graph, Graph) else graph
    if hops.min() < 0:
        raise TopologyError("the graph is not connected, so some of its distances are infinite; join its components")
    return hops


def _packed(marks: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Sets of nodes as rows of 64-bit words, bit b of word w for the node 64w + b."""
    padding = -marks.shape[1] % _WORD
    bits = np.packbits(np.pad(marks, ((0, 0), (0, padding))), axis=1, bitorder="little")
    return bits.view("<u8").astype(np.uint64, copy=False)


def _neighbourhoods(neighbours: Neighbours) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Everyone's neighbours and itself in one list, and where each node's part of it begins."""
    around = [member for node, near in enumerate(neighbours) for member in (node, *near)]
    sizes = np.array([len(near) + 1 for near in neighbours], dtype=np.intp)
    return np.array(around, dtype=np.intp), np.concatenate([[0], np.cumsum(sizes)[:-1]])


def _union(sets: NDArray[np.uint64], members: NDArray[np.intp], starts: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Row m is the union of the sets of the m-th group of members, a bounded number of rows at a time."""
    result = np.empty_like(sets)
    at_once = max(1, _GATHERED_WORDS // sets.shape[1])
    first = 0
    while first < len(starts):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + at_once, side="right")) - 1)
        end = int(starts[last]) if last < len(starts) else len(members)
        gathered = sets[members[starts[first] : end]]
        result[first:last] = np.bitwise_or.reduceat(gathered, starts[first:last] - starts[first], axis=0)
        first = last
    return result


def _mark(hops: Distances, fresh: NDArray[np.uint64], hop: int) -> None:
    """Write `hop` where a bit of `fresh` is set; only words with a set bit are looked at, most have none."""
    flat = fresh.ravel()
    at = np.flatnonzero(flat)
    bits = np.unpackbits(flat[at].astype("<u8").view(np.uint8), bitorder="little").view(np.bool_)
    which, bit = np.divmod(np.flatnonzero(bits), _WORD)
    row, word = np.divmod(at[which], fresh.shape[1])
    hops[row, word * _WORD + bit] = hop

"""Random edge sets, before anyone asks whether they are connected."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from topology.graph import Edge

_DRAWS_AT_ONCE = 1 << 20  # bounds the memory of one draw; the result does not depend on it

PAIRWISE_NODES = 4096
"""Up to so many nodes every pair has a uniform number of its own; beyond, their number would be all the work."""

_GAPS_AT_ONCE = 1 << 16  # uniform numbers drawn at once; part of what a seed means, as the last ones are thrown away
_TABLE_GAPS = 4  # how long the table of gaps is, in mean gaps


def ordered(i: int, j: int) -> Edge:
    """The edge between two nodes, lower one first."""
    return (i, j) if i < j else (j, i)


def all_pairs(nodes: int) -> Iterator[Edge]:
    """Every edge there can be, ascending."""
    return ((i, j) for i in range(nodes) for j in range(i + 1, nodes))


def bernoulli_pairs(nodes: int, probability: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Each pair with the same probability, as two rows of lower and higher nodes."""
    pairs = nodes * (nodes - 1) // 2
    if nodes > PAIRWISE_NODES:
        at = _skipped(pairs, probability, rng)
    else:
        chosen = [
            start + np.flatnonzero(rng.random(min(_DRAWS_AT_ONCE, pairs - start)) < probability)
            for start in range(0, pairs, _DRAWS_AT_ONCE)
        ]
        at = np.concatenate([np.zeros(0, dtype=np.int64), *chosen])
    rows = np.arange(nodes, dtype=np.int64)
    starts = rows * (2 * nodes - rows - 1) // 2  # where each row of the upper triangle begins, read row by row
    lower = np.searchsorted(starts[:-1], at, side="right") - 1  # the last row is empty
    return np.stack([lower, at - starts[lower] + lower + 1])


def _skipped(pairs: int, probability: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Which of so many pairs are chosen, from one uniform number per chosen pair instead of one per pair.

    From one chosen pair to the next, k pairs or more are passed over with chance (1 - p)^k; these powers are multiplied
    up in a table, so that no logarithm of some machine's decides. What is longer than the table goes on after its end.
    """
    if probability == 0.0:
        return np.zeros(0, dtype=np.int64)
    longest = min(pairs, int(_TABLE_GAPS / probability) + 1)
    reached = np.cumprod(np.full(longest, 1.0 - probability))[::-1]
    found, at = [np.zeros(0, dtype=np.int64)], -1
    while at < pairs:
        passed = longest - np.searchsorted(reached, rng.random(_GAPS_AT_ONCE), side="right")
        steps = np.cumsum(np.minimum(passed + 1, longest)) + at
        found.append(steps[passed < longest])
        at = int(steps[-1])
    places = np.concatenate(found)
    return places[places < pairs]


def paired_stubs(nodes: int, degree: int, rng: np.random.Generator) -> set[Edge] | None:
    """Pair `degree` stubs per node, pair the stubs of loops and duplicates again; None when stuck."""
    edges: set[Edge] = set()
    stubs = np.repeat(np.arange(nodes), degree)
    while len(stubs):
        rng.shuffle(stubs)
        left: list[int] = []
        for i, j in stubs.reshape(-1, 2).tolist():
            if i == j or ordered(i, j) in edges:
                left += (i, j)
            else:
                edges.add(ordered(i, j))
        if len(left) == len(stubs) and not _can_pair(left, edges):
            return None
        stubs = np.array(left, dtype=stubs.dtype)
    return edges


def _can_pair(stubs: list[int], edges: set[Edge]) -> bool:
    free = sorted(set(stubs))
    return any((i, j) not in edges for at, i in enumerate(free) for j in free[at + 1 :])


def rewired_ring(nodes: int, reach: int, probability: float, rng: np.random.Generator) -> set[Edge]:
    """Join everyone to the `reach` nodes on either side, then move the far end of some edges elsewhere."""
    edges = {ordered(i, (i + hop) % nodes) for i in range(nodes) for hop in range(1, reach + 1)}
    degrees = [2 * reach] * nodes
    for hop in range(1, reach + 1):
        for i in np.flatnonzero(rng.random(nodes) < probability).tolist():
            if degrees[i] == nodes - 1:
                continue  # next to everyone already: there is nowhere to move this edge to
            far = _stranger(i, nodes, edges, rng)
            near = (i + hop) % nodes  # only i ever moves the edge to its own far side, so it is still there
            edges.remove(ordered(i, near))
            edges.add(ordered(i, far))
            degrees[near] -= 1
            degrees[far] += 1
    return edges


def _stranger(node: int, nodes: int, edges: set[Edge], rng: np.random.Generator) -> int:
    while True:
        other = int(rng.integers(nodes))
        if other != node and ordered(node, other) not in edges:
            return other


def preferential(nodes: int, attach: int, rng: np.random.Generator) -> list[Edge]:
    """Start from a star of attach + 1 nodes; each newcomer joins `attach` others, drawn by their degrees."""
    edges = [(0, i) for i in range(1, attach + 1)]
    # Every node stands here once per edge it has, so that a uniform draw from it is a draw by degree.
    ends = [end for edge in edges for end in edge]
    for newcomer in range(attach + 1, nodes):
        hosts: set[int] = set()
        while len(hosts) < attach:
            hosts.add(ends[int(rng.integers(len(ends)))])
        edges.extend((host, newcomer) for host in sorted(hosts))
        ends.extend(sorted(hosts))
        ends.extend([newcomer] * attach)
    return edges

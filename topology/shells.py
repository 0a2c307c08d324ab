"""Who is how many hops away from whom, without a table of all pairs: shells around nodes, found breadth first.

The shell of hop d around a node is who is exactly d hops away. Shells up to a reach are found once and kept, as one
long list per hop, where they fit `STORED_BYTES`; where they do not, they are searched for again whenever somebody asks.
Either way the cost follows from edges and shells, never from the square of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Nodes = NDArray[np.int32]
Floats = NDArray[np.float64]

STORED_BYTES = 1 << 30
"""Memory for shells that are kept: a quarter of as many (node, node) pairs."""

_MARKS = 1 << 20  # (source, node) pairs that one search keeps track of, four bytes each
_AT_ONCE = 1 << 18  # members of shells that are handed out at once


class Adjacency(NamedTuple):
    """Everyone's neighbours in one list, and where each node's part of it begins; the last start is its end."""

    starts: Ints
    others: Nodes

    @classmethod
    def of(cls, neighbours: Sequence[Sequence[int]]) -> Adjacency:
        """From the neighbours of each node."""
        degrees = np.array([len(near) for near in neighbours], dtype=np.int64)
        others = np.fromiter((one for near in neighbours for one in near), dtype=np.int32, count=int(degrees.sum()))
        return cls(_starts(degrees), others)

    @property
    def nodes(self) -> int:
        return len(self.starts) - 1


class Members(NamedTuple):
    """Shells of some nodes side by side."""

    nodes: Nodes
    sizes: Ints


class Shells:
    """The shells of hops 1…reach around every node; a reach beyond the diameter is cut to what there is."""

    def __init__(self, adjacency: Adjacency, reach: int, stored_bytes: int | None = None) -> None:
        self._adjacency = adjacency
        self._bits = max(1, (adjacency.nodes - 1).bit_length())
        self._marks = np.zeros(0, dtype=np.int32)
        room = (STORED_BYTES if stored_bytes is None else stored_bytes) // np.dtype(np.int32).itemsize
        self._kept: list[Adjacency] | None = None
        self.sizes = self._survey(reach, room)
        """How large each shell is: hops down, nodes across."""

    @property
    def reach(self) -> int:
        """The largest hop at which anybody has anybody."""
        return len(self.sizes)

    @property
    def stored(self) -> bool:
        """Whether the shells are kept."""
        return self._kept is not None

    def of(self, hop: int, origins: Ints) -> Members:
        """The shells of one hop around some nodes, one after the other."""
        sizes = self.sizes[hop - 1][origins]
        if self._kept is None:
            return Members(self._searched(hop, origins), sizes)
        starts, members = self._kept[hop - 1]
        return Members(members[_ranges(starts[origins], sizes)], sizes)

    def _of_following(self, hop: int, origins: Ints) -> Members:
        """The same of nodes that follow each other: then nothing is copied of what is kept."""
        if self._kept is None:
            return self.of(hop, origins)
        starts, members = self._kept[hop - 1]
        first, last = int(origins[0]), int(origins[-1]) + 1
        return Members(members[starts[first] : starts[last]], self.sizes[hop - 1][first:last])

    def pieces(self, hop: int, origins: Ints) -> Iterator[slice]:
        """Split some nodes so that the shells of each part are a bounded number of members, or a single shell."""
        ends = np.cumsum(self.sizes[hop - 1][origins])
        first = 0
        while first < len(origins):
            before = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + _AT_ONCE, side="right")))
            yield slice(first, last)
            first = last

    def sums(self, hop: int, values: Floats) -> Floats:
        """For every node the sum of the values of its shell, exact as long as they are integers below 2^53."""
        everybody = np.arange(self._adjacency.nodes, dtype=np.int64)
        total = np.zeros(len(everybody))
        for part in self.pieces(hop, everybody):
            members, sizes = self._of_following(hop, everybody[part])
            some = sizes.nonzero()[0]
            if len(some):
                total[part][some] = np.add.reduceat(values[members], _starts(sizes)[some])
        return total

    def _survey(self, reach: int, room: int) -> Ints:
        """Search around everybody once: the sizes, and the shells themselves as long as there is room."""
        nodes = self._adjacency.nodes
        found: list[Ints] = []
        kept: list[list[Nodes]] | None = []
        for first in range(0, nodes, self._sources):
            sources = np.arange(first, min(nodes, first + self._sources), dtype=np.int64)
            for hop, keys in enumerate(self._widening(sources, reach)):
                if hop == len(found):
                    found.append(np.zeros(nodes, dtype=np.int64))
                found[hop][sources] = np.bincount(keys >> self._bits, minlength=len(sources))
                room -= len(keys)
                kept = _with(kept, hop, self._members(keys)) if room >= 0 else None
        if kept is not None:
            self._kept = [
                Adjacency(_starts(sizes), np.concatenate(parts)) for sizes, parts in zip(found, kept, strict=True)
            ]
        return np.array(found, dtype=np.int64).reshape(len(found), nodes)

    @property
    def _sources(self) -> int:
        """Around how many nodes it is searched at once."""
        return max(1, _MARKS >> self._bits)

    def _searched(self, hop: int, origins: Ints) -> Nodes:
        parts = [np.zeros(0, dtype=np.int32)]
        for first in range(0, len(origins), self._sources):
            found = list(self._widening(origins[first : first + self._sources], hop))
            if len(found) == hop:
                parts.append(self._members(found[-1]))
        return np.concatenate(parts)

    def _members(self, keys: Ints) -> Nodes:
        return (keys & ((1 << self._bits) - 1)).astype(np.int32)

    def _widening(self, sources: Ints, reach: int) -> Iterator[Ints]:
        """Hop by hop who is that far away, in the order of the sources; a key is a source's number above a node's."""
        if len(self._marks) < len(sources) << self._bits:
            self._marks = np.full(self._sources << self._bits, -1, dtype=np.int32)
        frontier = (np.arange(len(sources), dtype=np.int64) << self._bits) + sources
        touched = [frontier]
        self._marks[frontier] = 0
        for _ in range(reach):
            frontier = self._next(frontier)
            if not len(frontier):
                break
            touched.append(frontier)
            yield frontier
        for keys in touched:
            self._marks[keys] = -1

    def _next(self, frontier: Ints) -> Ints:
        starts, others = self._adjacency
        node = frontier & ((1 << self._bits) - 1)
        degrees = starts[node + 1] - starts[node]
        keys = np.repeat(frontier - node, degrees) + others[_ranges(starts[node], degrees)]
        keys = keys[self._marks[keys] < 0]
        turn = np.arange(len(keys), dtype=np.int32)
        self._marks[keys] = turn  # of several ways to a node the last one written stays
        fresh: Ints = keys[self._marks[keys] == turn]
        return fresh


def _with(kept: list[list[Nodes]] | None, hop: int, members: Nodes) -> list[list[Nodes]] | None:
    """What is kept, and one part more of a hop; nothing, once something did not fit."""
    if kept is None:
        return None
    if hop == len(kept):
        kept.append([])
    kept[hop].append(members)
    return kept


def _starts(sizes: Ints) -> Ints:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)])


def _ranges(starts: Ints, sizes: Ints) -> Ints:
    """start, start + 1, … of each, one after the other."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    ranges: Ints = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - sizes), sizes)
    return ranges

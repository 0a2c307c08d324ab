"""Where to draw the nodes of a graph: as far apart in the plane as they are in hops, as nearly as it can be done.

Each pair is a spring whose length is its hop count and whose strength falls with the square of it. The total stress is
minimised by majorisation, which never overshoots, from a start on a circle: no random number is drawn, so the same
graph always looks the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topology.graph import Graph
from topology.measure import distances

Positions = NDArray[np.float64]
"""One row (x, y) per node."""

MAX_ARRANGED_NODES = 1500
"""Larger graphs stay on the circle: nobody could read their picture, and the springs cost the square of this."""

_TURNS = 200
_NUDGE = 0.01  # hops
_WORK = 40_000  # steps times nodes: larger graphs get fewer steps, and look much the same
_GAP_HOPS = 2  # between components, beyond the longest distance inside one
_CLOSEST = 0.8  # hops: nodes this far apart are never pushed, or a bent line would be crumpled
_ELBOW_ROOM = 0.62  # least distance between nodes, as a share of the side of a square with one node's part of the page
_ROUND = 1.2  # variance along over variance across up to which a shape is left as it lies
_LATTICE = 0.5  # how well edges agree on two directions before the picture is turned by them


def arrange(graph: Graph) -> Positions:
    """Place the nodes so that hops look like distances; one hop is about one unit, y grows downwards."""
    start = circle(graph.nodes)
    if not 1 < graph.nodes <= MAX_ARRANGED_NODES:
        return start
    hops = distances(graph).astype(np.float64)
    hops[hops < 0] = hops.max() + _GAP_HOPS
    steps = max(30, min(120, _WORK // graph.nodes))
    relaxed = _relax(_principal_plane(hops, start), hops, steps)
    return _begin_top_left(_level(_separate(relaxed, steps // 2), graph))


def circle(nodes: int) -> Positions:
    """Nodes evenly on a circle, the first at the top, clockwise on a page; neighbours are one unit apart."""
    angles = 2 * np.pi * np.arange(nodes) / nodes
    return np.column_stack([np.sin(angles), -np.cos(angles)]) * (nodes / (2 * np.pi))


def _principal_plane(hops: NDArray[np.float64], start: Positions) -> Positions:
    """The two directions in which the graph is longest, turned up from the start by repeated multiplication.

    Where the graph has no longest direction (a ring, a star, everyone next to everyone) the start survives, and a
    circle is how one wants to see these.
    """
    squares = hops**2
    inner = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    plane = start
    for _ in range(_TURNS):
        plane = _orthonormal(inner @ plane)
    # Nodes with the same neighbours have come to the same point, where no force would part them: add a little circle.
    return np.asarray(plane * (hops.mean() * np.sqrt(len(hops))) + _NUDGE * start / np.linalg.norm(start[0]))


def _orthonormal(plane: Positions) -> Positions:
    first = plane[:, 0] / max(float(np.linalg.norm(plane[:, 0])), 1e-12)
    second = plane[:, 1] - first * (first @ plane[:, 1])
    return np.column_stack([first, second / max(float(np.linalg.norm(second)), 1e-12)])


def _relax(positions: Positions, hops: NDArray[np.float64], steps: int) -> Positions:
    """Lower the stress Σ (|x_i - x_j| - hops)² / hops² by majorisation."""
    nodes = len(hops)
    strength = 1.0 / (hops + np.eye(nodes)) ** 2 - np.eye(nodes)  # nobody pulls itself
    laplacian = np.diag(strength.sum(axis=1)) - strength
    inverse = np.linalg.inv(laplacian + 1.0 / nodes)  # the shift fills in the direction in which everyone moves alike
    for _ in range(steps):
        pull = strength * hops / _apart(positions)
        positions = inverse @ (pull.sum(axis=1)[:, None] * positions - pull @ positions)
    return positions


def _separate(positions: Positions, steps: int) -> Positions:
    """Push nodes apart that would cover each other; the others stay where they are."""
    share = float(np.sqrt(np.prod(np.ptp(positions, axis=0)) / len(positions)))
    least = min(_ELBOW_ROOM * share, _CLOSEST)
    for _ in range(steps):
        push = np.maximum(least / _apart(positions) - 1.0, 0.0) / 4  # half the gap, from both sides
        np.fill_diagonal(push, 0.0)
        positions = positions + push.sum(axis=1)[:, None] * positions - push @ positions
    return positions


def _apart(positions: Positions) -> NDArray[np.float64]:
    """Distances between all pairs, never quite zero."""
    lengths = (positions**2).sum(axis=1)
    squares = lengths[:, None] + lengths[None, :] - 2 * positions @ positions.T
    return np.asarray(np.sqrt(np.maximum(squares, 1e-12)))


def _level(positions: Positions, graph: Graph) -> Positions:
    """Turn a lattice upright and anything else so that its longest direction is horizontal, pages being wide."""
    if graph.edges:
        first, second = np.array(graph.edges).T
        x, y = (positions[first] - positions[second]).T
        cross = np.mean(np.exp(4j * np.arctan2(y, x)))  # directions a quarter turn apart count as the same
        if abs(cross) > _LATTICE:
            upright = _turned(positions, float(np.angle(cross)) / 4)
            return upright if np.ptp(upright[:, 0]) >= np.ptp(upright[:, 1]) else _turned(upright, np.pi / 2)
    spread = np.cov(positions.T)
    across, along = np.linalg.eigvalsh(spread)
    if along <= _ROUND * across:
        return positions
    return _turned(positions, 0.5 * float(np.arctan2(2 * spread[0, 1], spread[0, 0] - spread[1, 1])))


def _turned(positions: Positions, angle: float) -> Positions:
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.asarray(positions @ np.array([[cosine, -sine], [sine, cosine]]))


def _begin_top_left(positions: Positions) -> Positions:
    """Mirror the picture so that node 0 is in the top left quarter, where reading begins."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    beyond = positions[0] > low + 0.55 * (high - low)  # a node in the middle, like a star's centre, decides nothing
    return np.asarray(positions * np.where(beyond, -1.0, 1.0))

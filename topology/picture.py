"""A graph as a picture: one SVG file that needs nothing else.

Colours are of the Okabe–Ito palette, which people with any colour vision tell apart; highlighted nodes differ in
outline too.
"""

from __future__ import annotations

from collections.abc import Collection
from xml.sax.saxutils import escape

import numpy as np

from topology.graph import Graph
from topology.placement import Positions, arrange

WIDTH = 960
"""Pixels across; the height follows from the shape of the graph."""

_MARGIN = 40
_TITLE_HEIGHT = 44
_LOWEST, _HIGHEST = 0.35, 0.85  # height of the drawing as a share of its width
_SMALLEST_FONT = 4.5  # pixels; below it labels are noise

_PAPER = "#fbfaf7"
_INK = "#2b2f33"
_EDGE = "#5f6b76"
_NODE = "#0072b2"
_HIGHLIGHT = "#d55e00"


def draw(graph: Graph, *, labels: bool = True, highlight: Collection[int] = frozenset(), title: str = "") -> str:
    """Draw a graph; the nodes of `highlight` stand out."""
    top = _TITLE_HEIGHT if title else 0
    positions, height = _fit(arrange(graph), top)
    size = _node_radius(positions)
    name = f"{title}: {_count(graph)}" if title else _count(graph)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" font-family="system-ui, Helvetica, Arial, sans-serif">',
        f"<title>{_safe(name)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="{_PAPER}"/>',
        *_heading(graph, title),
        *_edges(graph, positions, size),
        *_nodes(positions, size, frozenset(highlight)),
        *(_labels(positions, size) if labels else ()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _fit(positions: Positions, top: int) -> tuple[Positions, int]:
    """Scale the positions to pixels below `top`, shape kept and centred, and say how high the picture is."""
    low, span = positions.min(axis=0), np.ptp(positions, axis=0)
    wide = WIDTH - 2 * _MARGIN
    share = span[1] / span[0] if span[0] > 0 else 0.0
    high = round(wide * float(np.clip(share, _LOWEST, _HIGHEST)))
    room = np.array([wide, high])
    scale = float(np.min(room / np.maximum(span, 1e-9)))
    shift = np.array([_MARGIN, _MARGIN + top]) + (room - span * scale) / 2
    return (positions - low) * scale + shift, high + 2 * _MARGIN + top


def _node_radius(positions: Positions) -> float:
    """Nodes as large as the closest of them leave room for, within what looks right."""
    if len(positions) == 1:
        return 20.0
    apart = np.linalg.norm(positions[:, None, :] - positions[None, :, :], axis=2)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.min(axis=1)
    return float(np.clip(min(0.45 * np.quantile(nearest, 0.05), 0.34 * np.median(nearest)), 1.5, 20.0))


def _heading(graph: Graph, title: str) -> list[str]:
    if not title:
        return []
    y = _TITLE_HEIGHT - 8
    return [
        f'<text x="{_MARGIN}" y="{y}" font-size="20" font-weight="600" fill="{_INK}">{_safe(title)}</text>',
        f'<text x="{WIDTH - _MARGIN}" y="{y}" font-size="14" text-anchor="end" fill="{_EDGE}">{_count(graph)}</text>',
    ]


def _edges(graph: Graph, positions: Positions, size: float) -> list[str]:
    if not graph.edges:
        return []
    at = [f"{x:.1f} {y:.1f}" for x, y in positions.tolist()]
    # One path for all edges: where lines cross they do not darken each other, so that dense parts stay legible.
    lines = "".join(f"M{at[i]}L{at[j]}" for i, j in graph.edges)
    crowding = len(graph.edges) / graph.nodes
    opacity = float(np.clip(1.4 / crowding**0.6, 0.18, 0.8))
    width = float(np.clip(size / 8 / max(1.0, crowding / 3) ** 0.5, 0.5, 2.0))
    style = f'fill="none" stroke="{_EDGE}" stroke-width="{width:.2f}" stroke-opacity="{opacity:.2f}"'
    return [f'<path d="{lines}" {style}/>']


def _nodes(positions: Positions, size: float, highlight: frozenset[int]) -> list[str]:
    plain = f'<g fill="{_NODE}" stroke="{_PAPER}" stroke-width="{max(1.0, size / 9):.2f}">'
    loud = f'<g fill="{_HIGHLIGHT}" stroke="{_INK}" stroke-width="{max(1.2, size / 6):.2f}">'
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"/>' for x, y in positions.tolist()]
    quiet = [dot for node, dot in enumerate(dots) if node not in highlight]
    shown = [dot for node, dot in enumerate(dots) if node in highlight]
    return [plain, *quiet, "</g>", *([loud, *shown, "</g>"] if shown else [])]


def _labels(positions: Positions, size: float) -> list[str]:
    digits = len(str(len(positions) - 1))
    font = min(1.1 * size, 2.5 * size / digits)
    if font < _SMALLEST_FONT:
        return []
    texts = (f'<text x="{x:.1f}" y="{y:.1f}" dy=".36em">{n}</text>' for n, (x, y) in enumerate(positions.tolist()))
    return [f'<g fill="#ffffff" font-size="{font:.1f}" font-weight="600" text-anchor="middle">', *texts, "</g>"]


def _count(graph: Graph) -> str:
    nodes = "1 node" if graph.nodes == 1 else f"{graph.nodes} nodes"
    return f"{nodes}, 1 edge" if len(graph.edges) == 1 else f"{nodes}, {len(graph.edges)} edges"


def _safe(text: str) -> str:
    """Text for XML, which has no way to write most control characters."""
    return escape("".join(char if char.isprintable() else " " for char in text))

"""Regret curves drawn by hand, without any plotting library, so that every run directory gets its picture.

Coordinates are pixels, y grows downwards.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from agentd.plot.curves import (
    ERROR_NOTE,
    REGRET_LABEL,
    ROUND_LABEL,
    Curve,
    log_ticks,
    need_curves,
    number_text,
    ranked,
    ticks,
    wrapped,
    x_range,
    y_bottom,
    y_top,
)
from agentd.plot.plain_events import event_lines, event_list

_WIDTH, _HEIGHT = 860, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 620, 76, 400
_SUBTITLE_LIMIT = 116  # characters that fit
_FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"


def plain_svg(
    curves: Sequence[Curve],
    title: str,
    subtitle: str = "",
    *,
    x_label: str = ROUND_LABEL,
    y_label: str = REGRET_LABEL,
    events: Sequence[tuple[int, str]] = (),
    log_y: bool = False,
) -> str:
    """The text of an SVG with axes, lines, error bands, events and a legend, made without any plotting library."""
    need_curves(curves)
    plane = _Plane(*x_range(curves), y_top(curves), y_bottom(curves) if log_y else 0.0)
    ordered = [(colour, curve.thinned()) for colour, curve in ranked(curves)]
    legend, legend_end = _legend_of(ordered)
    listed, list_end = event_list(events, _RIGHT + 54, legend_end)
    height = max(_HEIGHT, list_end + 10 if events else legend_end)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" role="img" font-family="{_FONT}" font-size="12" fill="#333333">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#FFFFFF"/>',
        f'<clipPath id="agentd-plot"><rect x="{_LEFT}" y="{_TOP}" width="{_RIGHT - _LEFT}" '
        f'height="{_BOTTOM - _TOP}"/></clipPath>',
        _text(_LEFT, 32, title, 'font-size="17" font-weight="600" fill="#111111"'),
        _text(_LEFT, 53, textwrap.shorten(subtitle, _SUBTITLE_LIMIT, placeholder=" …"), 'fill="#666666"'),
        *_axes_of(plane, x_label, y_label),
        '<g clip-path="url(#agentd-plot)">',
        *event_lines(events, plane.x, _TOP, _BOTTOM),
        *(_band_of(plane, curve, colour) for colour, curve in ordered if curve.stderr is not None),
        *(_line_of(plane, curve, colour) for colour, curve in ordered),
        "</g>",
        *legend,
        *listed,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Plane:
    """Where values lie in the picture; the y scale begins at zero, or is logarithmic from `y_low` on."""

    x_low: float
    x_high: float
    y_high: float
    y_low: float = 0.0

    def x(self, value: float) -> float:
        return _LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (_RIGHT - _LEFT)

    def y(self, value: float) -> float:
        share = value / self.y_high
        if self.y_low:
            share = math.log(max(value, self.y_low / 10.0) / self.y_low) / math.log(self.y_high / self.y_low)
        return _BOTTOM - share * (_BOTTOM - _TOP)

    def y_ticks(self) -> list[float]:
        if not self.y_low:
            return ticks(0.0, self.y_high)
        return log_ticks(self.y_low, self.y_high)

    def points(self, x: Iterable[float], y: Iterable[float]) -> str:
        """The finite points of a line; what lies far outside is pulled to just outside, where the clip hides it."""
        pairs = (
            (a, min(max(b, -self.y_high), 2.0 * self.y_high)) for a, b in zip(x, y, strict=True) if math.isfinite(b)
        )
        return " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in pairs)


def _text(x: float, y: float, words: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(words)}</text>'


def _axes_of(plane: _Plane, x_label: str, y_label: str) -> list[str]:
    parts = []
    for value in plane.y_ticks():
        y = plane.y(value)
        parts.append(f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#E4E4E4"/>')
        parts.append(_text(_LEFT - 8, y + 4, number_text(value), 'text-anchor="end"'))
    for value in ticks(plane.x_low, plane.x_high):
        x = plane.x(value)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_BOTTOM}" y2="{_BOTTOM + 5}" stroke="#666666"/>')
        parts.append(_text(x, _BOTTOM + 20, number_text(value), 'text-anchor="middle"'))
    parts.append(f'<path d="M{_LEFT},{_TOP} V{_BOTTOM} H{_RIGHT}" fill="none" stroke="#666666"/>')
    parts.append(_text((_LEFT + _RIGHT) / 2, _BOTTOM + 44, x_label, 'text-anchor="middle"'))
    middle = (_TOP + _BOTTOM) / 2
    parts.append(_text(20, middle, y_label, f'text-anchor="middle" transform="rotate(-90 20 {middle:.1f})"'))
    return parts


def _line_of(plane: _Plane, curve: Curve, colour: str) -> str:
    points = plane.points(curve.x.tolist(), curve.mean.tolist())
    if len(curve.x) == 1:
        x, y = plane.x(float(curve.x[0])), plane.y(curve.last)
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
    dash = ' stroke-dasharray="6 4"' if curve.dashed else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"{dash}/>'


def _band_of(plane: _Plane, curve: Curve, colour: str) -> str:
    upper = plane.points(curve.x.tolist(), (curve.mean + curve.band).tolist())
    lower = plane.points(curve.x[::-1].tolist(), (curve.mean - curve.band)[::-1].tolist())
    return f'<polygon points="{upper} {lower}" fill="{colour}" fill-opacity="0.18"/>'


def _legend_of(ordered: Sequence[tuple[str, Curve]]) -> tuple[list[str], int]:
    """One entry per curve, to the right of the plot: its name and where it ends; and the height of it all."""
    parts, y = [], _TOP + 8
    for colour, curve in ordered:
        dash = ' stroke-dasharray="6 4"' if curve.dashed else ""
        parts.append(
            f'<line x1="{_RIGHT + 20}" x2="{_RIGHT + 46}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" '
            f'stroke-width="2.5"{dash}/>'
        )
        for line in wrapped(curve.label, 26).split("\n"):
            parts.append(_text(_RIGHT + 54, y, line))
            y += 16
        error = "" if curve.stderr is None else f" ± {number_text(float(f'{curve.band[-1]:.3g}'))}"
        parts.append(
            _text(_RIGHT + 54, y, f"ends at {number_text(curve.last)}{error}", 'font-size="11" fill="#777777"')
        )
        y += 24
    if any(curve.stderr is not None for _, curve in ordered):
        parts.append(_text(_RIGHT + 54, y, f"shaded: {ERROR_NOTE}", 'font-size="11" fill="#777777"'))
    return parts, y + 20

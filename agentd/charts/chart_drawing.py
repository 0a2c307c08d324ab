"""A chart as SVG, drawn by hand: for pages, where a style sheet has the colours, and for files that stand alone.

Coordinates are pixels, y grows downwards. Every text is escaped here and nowhere before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

import numpy as np

from agentd.charts.chart import BARS, Chart, Series
from agentd.charts.chart_paint import Paint
from agentd.plot.curves import (
    PALETTE,
    Curve,
    far_apart,
    log_ticks,
    number_text,
    ticks,
    x_range,
    y_bottom,
    y_top,
)

_MARK_ROWS, _MARK_HEIGHT, _MARK_WIDTH = 2, 11, 16
_LABEL_WIDTH, _WIDEST_BAR = 34, 48.0
_LEAST = 1e-300
"""Below it the arithmetic of scales loses its footing."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the axes lie in a picture."""

    width: int
    height: int
    left: int = 56
    right: int = 22
    top: int = 26
    bottom: int = 42
    points: int = 500
    """Of a line: more than pixels only make files large."""

    @property
    def across(self) -> int:
        return self.width - self.left - self.right

    @property
    def floor(self) -> int:
        return self.height - self.bottom


ACROSS, WIDE, NARROW = Frame(1080, 330), Frame(520, 280, points=300), Frame(350, 250, left=50, points=200)
"""For a desk, across it or one of two, and for a phone: so that words are as large in each."""


def drawn(chart: Chart, frame: Frame, paint: Paint, key: str = "") -> list[str]:
    """The elements of a chart: axes, marks, lines or bars; without title and legend.

    `key` tells its parts from those of other pictures on the same page.
    """
    return _bars_of(chart, frame, paint) if chart.kind == BARS else _lines_of(chart, frame, paint, key)


def dash_of(series: Series, place: int) -> str:
    """How a line is broken: a reference, or one of so many that colours come twice."""
    if series.dashed:
        return ' stroke-dasharray="6 4"'
    return ' stroke-dasharray="2 3"' if place >= len(PALETTE) else ""


def words_at(x: float, y: float, text: str, attributes: str) -> str:
    """A text in a picture."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>'


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to pixels; upwards from zero, or by powers of ten from `y_low` on."""

    frame: Frame
    x_low: float
    x_high: float
    y_high: float
    y_low: float = 0.0

    def x(self, value: float) -> float:
        return self.frame.left + (value - self.x_low) / (self.x_high - self.x_low) * self.frame.across

    def y(self, value: float) -> float:
        if self.y_low:
            share = math.log(max(value, self.y_low) / self.y_low) / math.log(self.y_high / self.y_low)
        else:
            share = value / self.y_high
        return self.frame.floor - min(max(share, 0.0), 1.5) * (self.frame.floor - self.frame.top)

    def y_ticks(self) -> list[float]:
        return log_ticks(self.y_low, self.y_high) if self.y_low else ticks(0.0, self.y_high)


def _lines_of(chart: Chart, frame: Frame, paint: Paint, key: str) -> list[str]:
    curves = [curve for one in chart.series if (curve := _curve(one)) is not None]
    if not curves:
        return [words_at(frame.left, frame.height / 2, "nothing to show yet", paint.words)]
    low, high = x_range(curves)
    bottom = y_bottom(curves) if far_apart(curves) else 0.0
    scale = _Scale(frame, low, high, max(y_top(curves), _LEAST), bottom)
    inside = escape(f"plot-{key}{chart.name}-{frame.width}")
    corners = f'x="{frame.left}" y="{frame.top}" width="{frame.across}" height="{frame.floor - frame.top}"'
    parts = _upright(chart, scale, paint)
    for value in ticks(low, high):
        parts.append(
            words_at(scale.x(value), frame.floor + 16, number_text(value), f'{paint.words} text-anchor="middle"')
        )
    parts += _marks(chart, scale, paint)
    parts.append(f'<clipPath id="{inside}"><rect {corners}/></clipPath><g clip-path="url(#{inside})">')
    # The first is what it is all about, so it is drawn last.
    parts += [_line(one, place, scale, paint) for place, one in reversed(list(enumerate(chart.series)))]
    return [*parts, "</g>"]


def _curve(series: Series) -> Curve | None:
    x, y = np.array(series.x, dtype=np.float64), np.array(series.y, dtype=np.float64)
    there = np.isfinite(y) & np.isfinite(x)
    return Curve(series.label, x[there], y[there], dashed=series.dashed) if there.any() else None


def _line(series: Series, place: int, scale: _Scale, paint: Paint) -> str:
    name = f"<title>{escape(series.label)}</title>"
    pieces = [piece for piece in _pieces(_thinned(series, scale.frame.points), scale) if piece]
    drawn = []
    for piece in pieces:
        if len(piece) == 1:
            x, y = piece[0].split(",")
            drawn.append(f'<circle {paint.bar(place)} cx="{x}" cy="{y}" r="3">{name}</circle>')
        else:
            dash = dash_of(series, place)
            drawn.append(f'<polyline {paint.line(place)}{dash} points="{" ".join(piece)}">{name}</polyline>')
    return "".join(drawn)


def _thinned(series: Series, most: int) -> Iterable[tuple[float, float]]:
    pairs = list(zip(series.x, series.y, strict=True))
    if len(pairs) <= most:
        return pairs
    keep = np.unique(np.linspace(0, len(pairs) - 1, most).round().astype(np.int64))
    return [pairs[place] for place in keep.tolist()]


def _pieces(pairs: Iterable[tuple[float, float]], scale: _Scale) -> list[list[str]]:
    """The points of a line, apart where a value is missing."""
    pieces: list[list[str]] = [[]]
    for x, y in pairs:
        if math.isfinite(y):
            pieces[-1].append(f"{scale.x(x):.1f},{scale.y(y):.1f}")
        elif pieces[-1]:
            pieces.append([])
    return pieces


def _upright(chart: Chart, scale: _Scale, paint: Paint) -> list[str]:
    """The axes, and what stands upwards."""
    frame = scale.frame
    parts = []
    for value in scale.y_ticks():
        y = scale.y(value)
        parts.append(
            f'<line {paint.grid} x1="{frame.left}" x2="{frame.left + frame.across}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(words_at(frame.left - 6, y + 4, short_number(value), f'{paint.words} text-anchor="end"'))
    upwards = f"{chart.y_label}, logarithmic" if scale.y_low else chart.y_label
    parts.append(words_at(4, 12, upwards, paint.words))
    parts.append(f'<path {paint.axis} d="M{frame.left},{frame.floor} h{frame.across}"/>')
    middle = frame.left + frame.across / 2
    parts.append(words_at(middle, frame.height - 6, chart.x_label, f'{paint.words} text-anchor="middle"'))
    return parts


def short_number(value: float) -> str:
    """A number that fits beside an axis: 25k, 3M."""
    for power, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= power:
            unit = 1e3 if letter == "k" else power
            return f"{value / unit:g}{letter}"
    return number_text(value)


def _marks(chart: Chart, scale: _Scale, paint: Paint) -> list[str]:
    """What happened, numbered as in the list that stands with it; numbers that would touch go one row down."""
    frame, parts = scale.frame, []
    ends = [-math.inf] * _MARK_ROWS
    for number, mark in enumerate(chart.marks, start=1):
        if not scale.x_low <= mark.at <= scale.x_high:
            continue
        x = scale.x(mark.at)
        title = f"<title>{escape(f'{number}: {mark.text}')}</title>"
        parts.append(f'<line {paint.mark} x1="{x:.1f}" x2="{x:.1f}" y1="{frame.top}" y2="{frame.floor}">{title}</line>')
        row = next((row for row, end in enumerate(ends) if end <= x), None)
        if row is not None:
            ends[row] = x + _MARK_WIDTH
            parts.append(words_at(x + 2, frame.top + 9 + row * _MARK_HEIGHT, str(number), paint.mark_words))
    return parts


def _bars_of(chart: Chart, frame: Frame, paint: Paint) -> list[str]:
    """Bars side by side, series upon series."""
    slots = sorted({x for one in chart.series for x in one.x})
    place_of = {x: place for place, x in enumerate(slots)}
    bars = list(_stacked(chart, place_of))
    top = max((high for _, _, _, high in bars), default=0.0)
    scale = _Scale(frame, 0.0, float(max(1, len(slots))), 1.06 * top if top > _LEAST else 1.0)
    parts = _upright(chart, scale, paint)
    step = max(1, math.ceil(len(slots) / (frame.across / _LABEL_WIDTH)))
    for place in range(0, len(slots), step):
        middle = f'{paint.words} text-anchor="middle"'
        parts.append(words_at(scale.x(place + 0.5), frame.floor + 16, number_text(slots[place]), middle))
    thick = max(min(0.8 * frame.across / max(1, len(slots)), _WIDEST_BAR), 0.5)
    for number, slot, low, high in bars:
        left, y = scale.x(slot + 0.5) - thick / 2, scale.y(high)
        told = f"{chart.x_label} {number_text(slots[slot])}: {number_text(high - low)} {chart.series[number].label}"
        parts.append(
            f'<rect {paint.bar(number, weak=chart.series[number].dashed)} x="{left:.1f}" y="{y:.1f}" '
            f'width="{thick:.1f}" height="{scale.y(low) - y:.1f}">'
            f"<title>{escape(told)}</title></rect>"
        )
    return parts


def _stacked(chart: Chart, place_of: dict[float, int]) -> Iterator[tuple[int, int, float, float]]:
    """Every bar: its series, its slot, where it begins and where it ends."""
    reached = [0.0] * len(place_of)
    for number, one in enumerate(chart.series):
        for x, y in zip(one.x, one.y, strict=True):
            if math.isfinite(y) and y > 0.0:
                slot = place_of[x]
                low, reached[slot] = reached[slot], reached[slot] + y
                yield number, slot, low, reached[slot]

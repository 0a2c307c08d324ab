"""A chart as files for papers: an SVG that stands alone, and its points as CSV."""

from __future__ import annotations

import csv
import io
import math
from html import escape

from agentd.charts.chart import BARS, Chart
from agentd.charts.chart_drawing import Frame, dash_of, drawn, words_at
from agentd.charts.chart_paint import Ink
from agentd.plot.curves import number_text

_FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
_ROW = 18
_RISKY = ("=", "+", "-", "@")
"""What a spreadsheet takes for the beginning of a formula."""


def svg_of(chart: Chart, frame: Frame | None = None) -> str:
    """The text of an SVG with title, legend and what happened; on white, for a paper."""
    frame, paint = frame or Frame(720, 340), Ink()
    rows = [(place, one.label, one.last) for place, one in enumerate(chart.series) if one.x]
    height = 32 + frame.height + _ROW * (len(rows) + len(chart.marks)) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {frame.width} {height}" width="{frame.width}" '
        f'height="{height}" role="img" font-family="{_FONT}" font-size="12">',
        f"<title>{escape(chart.title)}</title>",
        f"<desc>{escape(chart.note)}</desc>",
        f'<rect width="{frame.width}" height="{height}" fill="#FFFFFF"/>',
        words_at(4, 20, chart.title, paint.strong),
        '<g transform="translate(0 32)">',
        *drawn(chart, frame, paint),
        "</g>",
    ]
    y = 32 + frame.height + _ROW
    for place, label, last in rows:
        parts.append(_key(chart, place, frame.left, y, paint))
        ends = "" if chart.kind == BARS or math.isnan(last) else f", ends at {number_text(last)}"
        parts.append(words_at(frame.left + 34, y, f"{label}{ends}", paint.words))
        y += _ROW
    for number, mark in enumerate(chart.marks, start=1):
        parts.append(words_at(frame.left, y, f"{number}  round {number_text(mark.at)}: {mark.text}", paint.mark_words))
        y += _ROW
    return "\n".join([*parts, "</svg>"]) + "\n"


def _key(chart: Chart, place: int, x: int, y: int, paint: Ink) -> str:
    if chart.kind == BARS:
        weak = chart.series[place].dashed
        return f'<rect {paint.bar(place, weak=weak)} x="{x}" y="{y - 10}" width="26" height="11"/>'
    dash = dash_of(chart.series[place], place)
    return f'<line {paint.line(place)}{dash} x1="{x}" x2="{x + 26}" y1="{y - 4}" y2="{y - 4}"/>'


def csv_of(chart: Chart) -> str:
    """Its points: a column for each series, a row for each place on the axis; empty where there is no value."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow([chart.x_label, *(_label(one.label) for one in chart.series)])
    values = [dict(zip(one.x, one.y, strict=True)) for one in chart.series]
    for x in sorted({x for one in chart.series for x in one.x}):
        writer.writerow([_cell(x), *(_cell(each.get(x, math.nan)) for each in values)])
    return written.getvalue()


def marks_csv(chart: Chart) -> str:
    """What happened, by round."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(["round", "what"])
    writer.writerows([_cell(mark.at), _label(mark.text)] for mark in chart.marks)
    return written.getvalue()


def _cell(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.10g}"


def _label(text: str) -> str:
    """A text that no spreadsheet computes."""
    return f"'{text}" if text.startswith(_RISKY) else text

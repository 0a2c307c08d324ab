"""The pieces of a report as HTML: every text goes through `escape` here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from agentd.charts.chart import BARS, Chart
from agentd.charts.chart_drawing import ACROSS, NARROW, WIDE, Frame, dash_of, drawn
from agentd.charts.chart_paint import Paint
from agentd.charts.comparing import value_text
from agentd.charts.run_facts import text
from agentd.plot.curves import number_text

MOST_ROWS = 1_000
"""Of a table; a page of more is no page."""
_DEEPEST = 3
_PAINT = Paint()


def figure(chart: Chart, *, key: str, first: bool = False) -> str:
    """A chart with its legend; once for a desk and once for a phone. `key` tells it from others on the page."""
    wide = ' class="first"' if first else ""
    frames = ((ACROSS if first else WIDE, "wide"), (NARROW, "narrow"))
    pictures = "".join(_picture(chart, frame, kind, key) for frame, kind in frames)
    note = f'<p class="note">{escape(chart.note)}</p>' if chart.note else ""
    title = f"<figcaption><h3>{escape(chart.title)}</h3></figcaption>"
    return f"<figure{wide}>{title}{pictures}{_legend(chart)}{note}</figure>"


def _picture(chart: Chart, frame: Frame, kind: str, key: str) -> str:
    told = f"{chart.title}. {chart.y_label} by {chart.x_label}. " + "; ".join(_spoken(chart))
    inside = "".join(drawn(chart, frame, _PAINT, f"{key}-"))
    return (
        f'<svg class="{kind}" viewBox="0 0 {frame.width} {frame.height}" role="img" '
        f'aria-label="{escape(told[:600])}">{inside}</svg>'
    )


def _spoken(chart: Chart) -> list[str]:
    """What a chart says, for who does not see it."""
    if chart.kind == BARS:
        sums = [(one.label, math.fsum(y for y in one.y if math.isfinite(y))) for one in chart.series]
        return [f"{label}: {number_text(total)} in all" for label, total in sums]
    return [f"{one.label} ends at {number_text(one.last)}" for one in chart.series if math.isfinite(one.last)]


def _legend(chart: Chart) -> str:
    entries = []
    for place, one in enumerate(chart.series):
        if not one.x:  # its place keeps the colours of the others
            continue
        if chart.kind == BARS:
            swatch = f'<rect {_PAINT.bar(place, weak=one.dashed)} width="24" height="10"/>'
            ends = f"{number_text(math.fsum(y for y in one.y if math.isfinite(y)))} in all"
            ends = "" if chart.name == "epsilon" else ends
        else:
            swatch = f'<line {_PAINT.line(place)}{dash_of(one, place)} x1="0" x2="24" y1="5" y2="5"/>'
            ends = number_text(one.last) if math.isfinite(one.last) else ""
        key = f'<svg viewBox="0 0 24 10" aria-hidden="true">{swatch}</svg>'
        entries.append(f"<li>{key}<span>{escape(one.label)} <b>{escape(ends)}</b></span></li>")
    return f'<ul class="legend">{"".join(entries)}</ul>'


def charts(some: Sequence[Chart], key: str) -> str:
    """Charts in a grid, the first across it."""
    shown = "".join(figure(chart, key=key, first=not place) for place, chart in enumerate(some))
    return f'<div class="charts">{shown}</div>'


def marks(chart: Chart | None) -> str:
    """What was done to a run, numbered as in its charts."""
    if chart is None or not chart.marks:
        return ""
    entries = "".join(f"<li>round {number_text(mark.at)}: {escape(mark.text)}</li>" for mark in chart.marks)
    return f'<h2>What was done to it</h2><ol class="marks">{entries}</ol>'


def cards(figures: Iterable[tuple[str, str, str]]) -> str:
    """What matters most: a name, a value, and a word about it."""
    told = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>"
        for name, value, more in figures
    )
    return f'<dl class="figures">{told}</dl>'


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, label: str, numbers: bool = False) -> str:
    """A table whose first column names its rows; `label` is for who does not see it."""
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in headings)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows[:MOST_ROWS]
    )
    more = f'<p class="note">and {len(rows) - MOST_ROWS:,} more</p>' if len(rows) > MOST_ROWS else ""
    kind = ' class="numbers"' if numbers else ""
    scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">'
    return f"{scroll}<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"


def pairs(values: Mapping[str, Any]) -> str:
    """Names and values of an object, those inside it by their path."""
    told = [f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in flat(values)[:MOST_ROWS]]
    return f'<dl class="pairs">{"".join(told)}</dl>'


def flat(values: Mapping[str, Any], before: str = "", depth: int = 0) -> list[tuple[str, str]]:
    """Every value with its path, as text; lists of objects are left to who reads the file."""
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        path = f"{before}{text(name).replace('_', ' ')}"
        if isinstance(value, dict) and depth < _DEEPEST:
            found += flat(value, f"{path}: ", depth + 1)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            found.append((path, f"{len(value)} entries"))
        else:
            found.append((path, value_text(value)))
    return found

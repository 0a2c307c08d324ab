"""What happened during a run, as numbered lines in a plain SVG and as a list beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from agentd.plot.curves import number_text, wrapped

COLOUR = "#9A3B3B"
_LISTED = 16
_LINES_LIMIT = 200
"""Lines that can still be told apart, about; more would only blacken the plot."""
_FLAG_WIDTH, _FLAG_HEIGHT, _FLAG_ROWS = 17, 12, 4


def event_lines(events: Sequence[tuple[int, str]], x_of: Callable[[float], float], top: int, bottom: int) -> list[str]:
    """One dashed line per event with its number above; numbers that would touch are set one below the other."""
    parts: list[str] = []
    row_ends = [float("-inf")] * _FLAG_ROWS
    for number, (round_, _) in enumerate(_ordered(events)[:_LINES_LIMIT], start=1):
        x = x_of(round_)
        row = next((row for row, end in enumerate(row_ends) if end <= x), None)
        y = top + _FLAG_HEIGHT * (row if row is not None else _FLAG_ROWS - 1) + 10
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="{COLOUR}" stroke-width="1" '
            f'stroke-dasharray="3 3" stroke-opacity="0.65"/>'
        )
        if row is not None:  # where there is no room the list has the round
            row_ends[row] = x + _FLAG_WIDTH
            parts.append(f'<text x="{x + 3:.1f}" y="{y}" font-size="10" fill="{COLOUR}">{number}</text>')
    return parts


def event_list(events: Sequence[tuple[int, str]], x: int, y: int) -> tuple[list[str], int]:
    """The events in words, from (x, y) down; and where the list ends."""
    parts: list[str] = []
    for number, (round_, what) in enumerate(_ordered(events)[:_LISTED], start=1):
        first, *more = wrapped(f"{number_text(round_)}: {what}", 30).split("\n")
        parts.append(f'<text x="{x - 4}" y="{y}" font-size="11" fill="{COLOUR}" text-anchor="end">{number}</text>')
        for line in (first, *more[:2]):
            parts.append(f'<text x="{x}" y="{y}" font-size="11" fill="#555555">{escape(line)}</text>')
            y += 14
    if len(events) > _LISTED:
        rest = len(events) - _LISTED
        parts.append(f'<text x="{x}" y="{y}" font-size="11" fill="#555555">and {rest} more, see faults.jsonl</text>')
        y += 14
    return parts, y


def _ordered(events: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    return sorted(events, key=lambda event: event[0])

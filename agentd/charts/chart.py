"""What a chart is: lines or bars over one axis, what happened meanwhile, and a note; plain values, to JSON and back.

A value that is not there is NaN here and null in JSON. No series has more points than a screen shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_POINTS = 1_000
LINES, BARS = "lines", "bars"
"""Over time, or side by side: one for each agent or run."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or the bars of one colour."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    """NaN where there is no value."""
    dashed: bool = False
    """A line to compare with; bars of what is not used up."""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"the series {self.label!r} needs as many values as places")

    @property
    def last(self) -> float:
        """The last value that is there; NaN where none is."""
        return next((value for value in reversed(self.y) if math.isfinite(value)), math.nan)


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened, at a place on the axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart."""

    name: str
    """As in the names of files: regret, share, epsilon."""
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    note: str = ""
    """What has to be known to read it."""
    kind: str = LINES

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "title": self.title,
            "x_label": self.x_label,
            "y_label": self.y_label,
            "series": [
                {"label": one.label, "x": list(one.x), "y": list(map(_or_null, one.y)), "dashed": one.dashed}
                for one in self.series
            ],
            "marks": [{"at": mark.at, "text": mark.text} for mark in self.marks],
            "note": self.note,
            "kind": self.kind,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Chart:
        """The chart that `as_json` described; ValueError where it cannot be."""
        try:
            series = tuple(_series(each) for each in data["series"])
            marks = tuple(Mark(_number(each["at"]), _text(each["text"])) for each in data["marks"])
            words = {name: _text(data[name]) for name in ("name", "title", "x_label", "y_label", "note")}
            if data["kind"] not in (LINES, BARS):
                raise ValueError("it is of no known kind")
            return cls(series=series, marks=marks, kind=data["kind"], **words)
        except (KeyError, TypeError, AttributeError) as fault:
            raise ValueError(f"it is no chart: {fault}") from None


def series_of(label: str, x: NDArray[Any], y: NDArray[Any], *, dashed: bool = False) -> Series:
    """A series of arrays, with no more points than a screen shows; both ends are kept."""
    if len(x) > MOST_POINTS:
        keep = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).round().astype(np.int64))
        x, y = x[keep], y[keep]
    values = np.where(np.isfinite(y), y, np.nan)
    return Series(label, tuple(float(each) for each in x), tuple(float(each) for each in values), dashed)


def _or_null(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _series(data: Mapping[str, Any]) -> Series:
    y = tuple(math.nan if value is None else _number(value) for value in data["y"])
    return Series(_text(data["label"]), tuple(map(_number, data["x"])), y, bool(data["dashed"]))


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError("not a number")
    return float(value)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("not a text")
    return value

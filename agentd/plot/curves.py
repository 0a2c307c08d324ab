"""What a curve is, and what all its pictures share: colours, ranges, words.

Measured curves decide the scale. A theoretical bound is often ten times above them; it is drawn as far as it fits and
said to be off scale where it does not, so that it never flattens what was measured.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
"""The colours of Okabe and Ito that are readable on white; safe for the common kinds of colour blindness."""

ROUND_LABEL = "round (pulls per agent)"
REGRET_LABEL = "cumulative group regret (reward units)"
ERROR_NOTE = "± 2 standard errors"

FAR_APART = 12.0
"""Between the highest and the lowest end of measured curves, where a linear scale still shows both."""

_POINTS_LIMIT = 600  # more points than pixels only make files large
_BAND_ERRORS = 2.0  # bands and bars show ± 2 standard errors, about 95 %
_HEADROOM = 1.06


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One line of a picture: a mean over repetitions at each x, with its standard error where there are several."""

    label: str
    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    stderr: NDArray[np.float64] | None = None
    dashed: bool = False

    def __post_init__(self) -> None:
        if self.x.ndim != 1 or len(self.x) == 0 or self.x.shape != self.mean.shape:
            raise ValueError(f"curve {self.label!r} needs as many values as places, and at least one")
        if self.stderr is not None and self.stderr.shape != self.mean.shape:
            raise ValueError(f"curve {self.label!r} needs one standard error per value")
        if np.isnan(self.mean).any():
            raise ValueError(f"curve {self.label!r} holds a value that is not a number")

    @property
    def band(self) -> NDArray[np.float64]:
        """How far the error band reaches on either side."""
        return np.zeros(len(self.x)) if self.stderr is None else _BAND_ERRORS * self.stderr

    @property
    def last(self) -> float:
        return float(self.mean[-1])

    def thinned(self) -> Curve:
        """The same line with no more points than a screen shows; both ends are kept."""
        if len(self.x) <= _POINTS_LIMIT:
            return self
        keep = np.unique(np.linspace(0, len(self.x) - 1, _POINTS_LIMIT).round().astype(np.int64))
        stderr = None if self.stderr is None else self.stderr[keep]
        return replace(self, x=self.x[keep], mean=self.mean[keep], stderr=stderr)


def need_curves(curves: Sequence[Curve]) -> None:
    """Refuse a picture of nothing."""
    if not curves:
        raise ValueError("a picture needs at least one curve")


def ranked(curves: Sequence[Curve], labels: Sequence[str] | None = None) -> list[tuple[str, Curve]]:
    """Curves with their colours, the highest at the end first: the legend reads in the order of the lines.

    Colours follow the order of the curves, or of the `labels` that several pictures share.
    """
    order = labels if labels is not None else [curve.label for curve in curves]
    coloured = [(PALETTE[order.index(curve.label) % len(PALETTE)], curve) for curve in curves]
    return sorted(coloured, key=lambda pair: -pair[1].last)


def x_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """The ends of the horizontal scale, never the same."""
    low, high = min(float(curve.x[0]) for curve in curves), max(float(curve.x[-1]) for curve in curves)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def y_top(curves: Sequence[Curve]) -> float:
    """The upper end of the scale: room for every measured curve and its band, or for bounds if that is all."""
    measured = [curve for curve in curves if not curve.dashed] or curves
    tops = np.concatenate([curve.mean + curve.band for curve in measured])
    return _HEADROOM * float(tops[np.isfinite(tops)].max(initial=0.0)) or 1.0


def far_apart(curves: Sequence[Curve]) -> bool:
    """Whether the ends of measured curves are so far apart that a linear scale would press some of them flat."""
    ends = [curve.last for curve in curves if not curve.dashed and 0.0 < curve.last < math.inf]
    return bool(ends) and max(ends) > FAR_APART * min(ends)


def y_bottom(curves: Sequence[Curve]) -> float:
    """The lower end of a logarithmic scale: the power of ten below every measured value that is not zero."""
    values = np.concatenate([curve.mean for curve in curves if not curve.dashed] or [np.ones(1)])
    least = float(values[(values > 0.0) & np.isfinite(values)].min(initial=y_top(curves)))
    return 10.0 ** math.floor(math.log10(least))


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers from low to high."""
    raw = (high - low) / 5.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    return [step * number for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers of a logarithmic scale: powers of ten, and where there are few of these, numbers between them."""
    least, most = math.floor(math.log10(low)), math.floor(math.log10(high))
    steps = (1.0,) if most - least > 2 else (1.0, 2.0, 5.0)
    numbers = [step * 10.0**power for power in range(least, most + 1) for step in steps]
    return [number for number in numbers if low <= number <= high]


def wrapped(label: str, width: int = 34) -> str:
    """A label in short lines; `ε = 1` stays on one of them."""
    return textwrap.fill(label.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"), width)


def number_text(value: float) -> str:
    """A number for people: thousands apart, no decimals that say nothing."""
    if not math.isfinite(value):
        return "∞"
    if abs(value) >= 1000 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"

"""Regret curves as pictures: with matplotlib for the figures, by hand for the run directory.

The same data gives the same bytes: no dates, no random identifiers, no window system. matplotlib is imported only when
a figure is drawn; `plain_svg` needs nothing at all, so every run directory gets its `regret.svg`.

Measured curves decide the scale. A theoretical bound is often ten times above them; it is drawn as far as it fits and
said to be off scale where it does not, so that it never flattens what was measured.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.errors import SettingsError

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
"""The colours of Okabe and Ito that are readable on white; safe for the common kinds of colour blindness."""

ROUND_LABEL = "round (pulls per agent)"
REGRET_LABEL = "cumulative group regret (reward units)"
GAMMA_LABEL = "lifetime γ (hops)"
FINAL_REGRET_LABEL = "group regret at the last round (reward units)"

_POINTS_LIMIT = 600  # more points than pixels only make files large
_BAND_ERRORS = 2.0  # bands and bars show ± 2 standard errors, about 95 %
_BOUND_COLOUR = "#8A8A8A"
_HEADROOM = 1.06
_VISIBLE_SHARE = 0.1  # a bound that leaves the picture sooner is only named
_ERROR_NOTE = "± 2 standard errors"
_STYLE = {
    "svg.hashsalt": "agentd",
    "svg.fonttype": "path",
    "font.family": ["DejaVu Sans"],
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
}


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One line of a picture: a mean over trials at each x, with its standard error where there is more than one."""

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
        """The value at the last x."""
        return float(self.mean[-1])

    def thinned(self) -> Curve:
        """The same line with no more points than a screen shows; both ends are kept."""
        if len(self.x) <= _POINTS_LIMIT:
            return self
        keep = np.unique(np.linspace(0, len(self.x) - 1, _POINTS_LIMIT).round().astype(np.int64))
        stderr = None if self.stderr is None else self.stderr[keep]
        return replace(self, x=self.x[keep], mean=self.mean[keep], stderr=stderr)


def plot_regret(
    curves: Sequence[Curve],
    path_svg: Path,
    path_png: Path | None = None,
    *,
    title: str,
    subtitle: str = "",
    bounds: Sequence[Curve] = (),
    events: Sequence[tuple[int, str]] = (),
    log_y: bool = False,
) -> None:
    """Draw regret over rounds: error bands, bounds in grey, and a numbered line wherever something happened."""
    _need_curves(curves)

    def draw(axes: Any) -> None:
        _set_scale(axes, curves, log_y=log_y)
        _draw_lines(axes, curves)
        _draw_bounds(axes, bounds)
        _draw_events(axes, events)
        axes.set_xlim(*_x_range(curves))
        _dress(axes, title, subtitle, ROUND_LABEL, REGRET_LABEL)
        _annotate_errors(axes, curves, f"shaded: {_ERROR_NOTE}")

    _save(draw, path_svg, path_png)


def plot_sweep(
    curves: Sequence[Curve],
    path_svg: Path,
    path_png: Path | None = None,
    *,
    title: str,
    subtitle: str = "",
    x_label: str = GAMMA_LABEL,
    y_label: str = FINAL_REGRET_LABEL,
    log_y: bool = False,
) -> None:
    """Draw a final value against a parameter, by default regret against γ, with error bars."""
    _need_curves(curves)

    def draw(axes: Any) -> None:
        _set_scale(axes, curves, log_y=log_y)
        _draw_bars(axes, curves)
        if all((curve.x == curve.x.round()).all() for curve in curves):
            axes.xaxis.get_major_locator().set_params(integer=True)
        _dress(axes, title, subtitle, x_label, y_label)
        _annotate_errors(axes, curves, f"bars: {_ERROR_NOTE}")

    _save(draw, path_svg, path_png)


def _need_curves(curves: Sequence[Curve]) -> None:
    if not curves:
        raise ValueError("a picture needs at least one curve")


def _ranked(curves: Sequence[Curve]) -> list[tuple[str, Curve]]:
    """Curves with their colours, the highest at the end first: the legend reads in the order of the lines."""
    coloured = [(PALETTE[index % len(PALETTE)], curve) for index, curve in enumerate(curves)]
    return sorted(coloured, key=lambda pair: -pair[1].last)


def _x_range(curves: Sequence[Curve]) -> tuple[float, float]:
    low, high = min(float(curve.x[0]) for curve in curves), max(float(curve.x[-1]) for curve in curves)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _y_top(curves: Sequence[Curve]) -> float:
    """The upper end of the scale: room for every measured curve and its band, or for bounds if that is all."""
    measured = [curve for curve in curves if not curve.dashed] or curves
    tops = np.concatenate([curve.mean + curve.band for curve in measured])
    return _HEADROOM * float(tops[np.isfinite(tops)].max(initial=0.0)) or 1.0


def _save(draw: Callable[[Any], None], path_svg: Path, path_png: Path | None) -> None:
    """Make a figure in a style of our own, whatever the user's matplotlib is set to, and write it."""
    try:
        style = import_module("matplotlib.style")
        make_figure = import_module("matplotlib.figure").Figure  # not pyplot: no windows, no state left behind
    except ImportError:
        raise SettingsError("figures need matplotlib, which is not installed: install agentd[analysis]") from None
    with style.context(["default", _STYLE]):
        figure = make_figure(figsize=(9.2, 4.8), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(path_svg, format="svg", metadata={"Date": None, "Creator": "agentd"})
        if path_png is not None:
            figure.savefig(path_png, format="png", dpi=150, metadata={"Software": "agentd"})


def _set_scale(axes: Any, curves: Sequence[Curve], *, log_y: bool) -> None:
    if log_y and any((curve.mean > 0.0).any() for curve in curves):  # all zeros have no place on a log scale
        axes.set_yscale("log", nonpositive="clip")
    else:
        axes.set_ylim(0.0, _y_top(curves))
    axes.yaxis.set_major_formatter(lambda value, _: _number(value))
    axes.xaxis.set_major_formatter(lambda value, _: _number(value))


def _draw_lines(axes: Any, curves: Sequence[Curve]) -> None:
    for colour, curve in _ranked([curve.thinned() for curve in curves]):
        axes.plot(
            curve.x, curve.mean, "--" if curve.dashed else "-", color=colour, label=_wrapped(curve.label), linewidth=1.8
        )
        if curve.stderr is not None:
            low, high = curve.mean - curve.band, curve.mean + curve.band
            axes.fill_between(curve.x, low, high, color=colour, alpha=0.18, linewidth=0.0)


def _draw_bars(axes: Any, curves: Sequence[Curve]) -> None:
    markers = dict(zip(PALETTE, "osD^vPX", strict=True))  # a second sign of identity, for prints in grey
    for colour, curve in _ranked(curves):
        axes.errorbar(
            curve.x,
            curve.mean,
            None if curve.stderr is None else curve.band,
            label=_wrapped(curve.label),
            color=colour,
            marker=markers[colour],
            markersize=5.5,
            linestyle="--" if curve.dashed else "-",
            capsize=3.0,
        )


def _draw_bounds(axes: Any, bounds: Sequence[Curve]) -> None:
    """Draw each bound as far as the scale of the measured curves reaches, and say so where it does not."""
    dashes = ((0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (8, 3)))
    top = math.inf if axes.get_yscale() == "log" else axes.get_ylim()[1]
    for index, bound in enumerate(bound.thinned() for bound in bounds):
        visible = np.isfinite(bound.mean) & (bound.mean <= top)
        shown = visible.mean() >= _VISIBLE_SHARE
        label = bound.label if shown else f"{bound.label} ({_beyond(bound)})"
        x, mean = (bound.x[visible], bound.mean[visible]) if shown else ([], [])
        axes.plot(x, mean, color=_BOUND_COLOUR, linestyle=dashes[index % len(dashes)], label=_wrapped(label))


def _wrapped(label: str, width: int = 34) -> str:
    """A label in short lines; `ε = 1` stays on one of them."""
    return textwrap.fill(label.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"), width)


def _beyond(bound: Curve) -> str:
    return f"off scale: {_number(bound.last)}" if math.isfinite(bound.last) else "infinite"


def _draw_events(axes: Any, events: Sequence[tuple[int, str]]) -> None:
    """Number the events on the axis and name them in the legend, where no name can cover a curve."""
    for number, (place, name) in enumerate(sorted(events), start=1):
        label = f"{number}  round {place:,}: {name}"
        axes.axvline(place, color="#555555", linewidth=0.9, linestyle=":", label=_wrapped(label))
        box = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": "#555555", "linewidth": 0.8}
        at = {"xy": (place, 1.0), "xycoords": axes.get_xaxis_transform(), "fontsize": 7.5, "bbox": box}
        axes.annotate(str(number), **at, ha="center", va="center", annotation_clip=False)


def _dress(axes: Any, title: str, subtitle: str, x_label: str, y_label: str) -> None:
    """Title, axes and a legend beside the plot, where it covers nothing."""
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", pad=30 if subtitle else 14)
    above = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(subtitle, (0.0, 1.0), xytext=(0, 13), **above, color="#555555", fontsize=9.5)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9.5, handlelength=2.4)


def _annotate_errors(axes: Any, curves: Sequence[Curve], note: str) -> None:
    if any(curve.stderr is not None for curve in curves):
        below = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right", "va": "top"}
        axes.annotate(note, (1.0, 0.0), xytext=(0, -24), **below, color="#777777", fontsize=8)


def _number(value: float) -> str:
    """A number for people: thousands apart, no decimals that say nothing."""
    if not math.isfinite(value):
        return "∞"
    if abs(value) >= 1000 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


# The rest draws the same kind of picture by hand. Coordinates are pixels, y grows downwards.

_WIDTH, _HEIGHT = 860, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 620, 76, 400
_FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"


def plain_svg(
    curves: Sequence[Curve],
    title: str,
    subtitle: str = "",
    *,
    x_label: str = ROUND_LABEL,
    y_label: str = REGRET_LABEL,
) -> str:
    """The text of an SVG with axes, lines, error bands and a legend, made without any plotting library."""
    _need_curves(curves)
    plane = _Plane(*_x_range(curves), _y_top(curves))
    ranked = [(colour, curve.thinned()) for colour, curve in _ranked(curves)]
    legend, legend_end = _legend_of(ranked)
    height = max(_HEIGHT, legend_end)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" role="img" font-family="{_FONT}" font-size="12" fill="#333333">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#FFFFFF"/>',
        f'<clipPath id="agentd-plot"><rect x="{_LEFT}" y="{_TOP}" width="{_RIGHT - _LEFT}" '
        f'height="{_BOTTOM - _TOP}"/></clipPath>',
        _text(_LEFT, 32, title, 'font-size="17" font-weight="600" fill="#111111"'),
        _text(_LEFT, 53, subtitle, 'fill="#666666"'),
        *_axes_of(plane, x_label, y_label),
        '<g clip-path="url(#agentd-plot)">',
        *(_band_of(plane, curve, colour) for colour, curve in ranked if curve.stderr is not None),
        *(_line_of(plane, curve, colour) for colour, curve in ranked),
        "</g>",
        *legend,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Plane:
    """Where values lie in the picture; the y scale begins at zero."""

    x_low: float
    x_high: float
    y_high: float

    def x(self, value: float) -> float:
        return _LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (_RIGHT - _LEFT)

    def y(self, value: float) -> float:
        return _BOTTOM - value / self.y_high * (_BOTTOM - _TOP)

    def points(self, x: Iterable[float], y: Iterable[float]) -> str:
        """The finite points of a line; what lies far outside is pulled to just outside, where the clip hides it."""
        pairs = (
            (a, min(max(b, -self.y_high), 2.0 * self.y_high)) for a, b in zip(x, y, strict=True) if math.isfinite(b)
        )
        return " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in pairs)


def _text(x: float, y: float, words: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(words)}</text>'


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers from low to high."""
    raw = (high - low) / 5.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    return [step * number for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _axes_of(plane: _Plane, x_label: str, y_label: str) -> list[str]:
    parts = []
    for value in _ticks(0.0, plane.y_high):
        y = plane.y(value)
        parts.append(f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#E4E4E4"/>')
        parts.append(_text(_LEFT - 8, y + 4, _number(value), 'text-anchor="end"'))
    for value in _ticks(plane.x_low, plane.x_high):
        x = plane.x(value)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_BOTTOM}" y2="{_BOTTOM + 5}" stroke="#666666"/>')
        parts.append(_text(x, _BOTTOM + 20, _number(value), 'text-anchor="middle"'))
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


def _legend_of(ranked: Sequence[tuple[str, Curve]]) -> tuple[list[str], int]:
    """One entry per curve, to the right of the plot: its name and where it ends; and the height of it all."""
    parts, y = [], _TOP + 8
    for colour, curve in ranked:
        dash = ' stroke-dasharray="6 4"' if curve.dashed else ""
        parts.append(
            f'<line x1="{_RIGHT + 20}" x2="{_RIGHT + 46}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" '
            f'stroke-width="2.5"{dash}/>'
        )
        for line in _wrapped(curve.label, 26).split("\n"):
            parts.append(_text(_RIGHT + 54, y, line))
            y += 16
        error = "" if curve.stderr is None else f" ± {_number(float(f'{curve.band[-1]:.3g}'))}"
        parts.append(_text(_RIGHT + 54, y, f"ends at {_number(curve.last)}{error}", 'font-size="11" fill="#777777"'))
        y += 24
    if any(curve.stderr is not None for _, curve in ranked):
        parts.append(_text(_RIGHT + 54, y, f"shaded: {_ERROR_NOTE}", 'font-size="11" fill="#777777"'))
    return parts, y + 20

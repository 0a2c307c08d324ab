"""Curves drawn with matplotlib, which is imported only when a figure is drawn; `plain_svg` does without it.

The same data gives the same bytes: no dates, no random identifiers, no window system.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from agentd.errors import SettingsError, install_with
from agentd.files import replacing
from agentd.plot.curves import (
    ERROR_NOTE,
    PALETTE,
    REGRET_LABEL,
    ROUND_LABEL,
    Curve,
    need_curves,
    number_text,
    ranked,
    wrapped,
    x_range,
    y_top,
)

GAMMA_LABEL = "lifetime γ (hops)"
FINAL_REGRET_LABEL = "group regret at the last round (reward units)"

_PANELS_IN_A_ROW = 4
_LEAST_WIDTH = 7.6  # inches: a title fits
_NAME_WIDTH = 2.1  # inches, in a legend
_CHARACTERS_PER_INCH = 13.5  # of small print

_BOUND_COLOUR = "#8A8A8A"
_VISIBLE_SHARE = 0.1  # a bound that leaves the picture sooner is only named
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
    need_curves(curves)

    def draw(axes: Any) -> None:
        _set_scale(axes, curves, log_y=log_y)
        _draw_lines(axes, curves)
        _draw_bounds(axes, bounds)
        _draw_events(axes, events)
        axes.set_xlim(*x_range(curves))
        _dress(axes, title, subtitle, ROUND_LABEL, REGRET_LABEL)
        _annotate_errors(axes, curves, f"shaded: {ERROR_NOTE}")

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
    need_curves(curves)

    def draw(axes: Any) -> None:
        _set_scale(axes, curves, log_y=log_y)
        _draw_bars(axes, curves)
        if all((curve.x == curve.x.round()).all() for curve in curves):
            axes.xaxis.get_major_locator().set_params(integer=True)
        _dress(axes, title, subtitle, x_label, y_label)
        _annotate_errors(axes, curves, f"bars: {ERROR_NOTE}")

    _save(draw, path_svg, path_png)


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One of several plots side by side over the same parameter."""

    title: str
    y_label: str
    curves: Sequence[Curve]


def plot_panels(
    panels: Sequence[Panel],
    path_svg: Path,
    path_png: Path | None = None,
    *,
    title: str,
    subtitle: str,
    x_label: str,
    log_x: bool = True,
) -> None:
    """Draw several values against one parameter, on logarithmic scales, with one legend for all."""
    for panel in panels:
        need_curves(panel.curves)

    def draw(figure: Any) -> None:
        columns = min(len(panels), _PANELS_IN_A_ROW)
        rows = -(-len(panels) // columns)
        figure.set_size_inches(max(4.3 * columns, _LEAST_WIDTH), 4.9 if rows == 1 else 1.2 + 3.7 * rows)
        places = figure.subplots(rows, columns, squeeze=False).ravel()
        labels = list(dict.fromkeys(curve.label for panel in panels for curve in panel.curves))
        for axes in places[len(panels) :]:
            axes.set_axis_off()
        for axes, panel in zip(places, panels, strict=False):
            _set_scale(axes, panel.curves, log_y=True)
            axes.set_xscale("log" if log_x else "linear")
            axes.xaxis.set_major_formatter(lambda value, _: number_text(value))
            axes.set_xticks(panel.curves[0].x)
            axes.minorticks_off()
            _draw_bars(axes, panel.curves, labels)
            axes.set_title(panel.title, loc="left", fontsize=10.5)
            axes.set_xlabel(x_label)
            axes.set_ylabel(panel.y_label)
        handles, names = places[0].get_legend_handles_labels()
        side_by_side = min(len(names), int(figure.get_figwidth() / _NAME_WIDTH))
        figure.legend(handles, names, loc="outside lower center", ncols=side_by_side, frameon=False, fontsize=9.5)
        small = wrapped(f"{subtitle}; bars: {ERROR_NOTE}", int(_CHARACTERS_PER_INCH * figure.get_figwidth()))
        figure.suptitle(title + "\n" * (1 + small.count("\n")), x=0.01, ha="left", fontsize=13, fontweight="bold")
        below = 1.0 - 0.24 / figure.get_figheight()
        figure.text(0.01, below, small, color="#555555", fontsize=9.5, va="top")

    _save_figure(draw, path_svg, path_png)


def _save(draw: Callable[[Any], None], path_svg: Path, path_png: Path | None) -> None:
    """Make a picture of one plot."""
    _save_figure(lambda figure: draw(figure.add_subplot()), path_svg, path_png)


def _save_figure(draw: Callable[[Any], None], path_svg: Path, path_png: Path | None) -> None:
    """Make a figure in a style of our own, whatever the user's matplotlib is set to, and write it."""
    try:
        style = import_module("matplotlib.style")
        make_figure = import_module("matplotlib.figure").Figure  # not pyplot: no windows, no state left behind
    except ImportError:
        raise SettingsError(f"figures need matplotlib, which is not installed: {install_with('analysis')}") from None
    with style.context(["default", _STYLE]):
        figure = make_figure(figsize=(9.2, 4.8), layout="constrained")
        draw(figure)
        with replacing(path_svg) as file:
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "agentd"})
        if path_png is not None:
            with replacing(path_png) as file:
                figure.savefig(file, format="png", dpi=150, metadata={"Software": "agentd"})


def _set_scale(axes: Any, curves: Sequence[Curve], *, log_y: bool) -> None:
    if log_y and any((curve.mean > 0.0).any() for curve in curves):  # all zeros have no place on a log scale
        axes.set_yscale("log", nonpositive="clip")
    else:
        axes.set_ylim(0.0, y_top(curves))
    axes.yaxis.set_major_formatter(lambda value, _: number_text(value))
    axes.xaxis.set_major_formatter(lambda value, _: number_text(value))


def _draw_lines(axes: Any, curves: Sequence[Curve]) -> None:
    for colour, curve in ranked([curve.thinned() for curve in curves]):
        axes.plot(
            curve.x, curve.mean, "--" if curve.dashed else "-", color=colour, label=wrapped(curve.label), linewidth=1.8
        )
        if curve.stderr is not None:
            low, high = curve.mean - curve.band, curve.mean + curve.band
            axes.fill_between(curve.x, low, high, color=colour, alpha=0.18, linewidth=0.0)


def _draw_bars(axes: Any, curves: Sequence[Curve], labels: Sequence[str] | None = None) -> None:
    markers = dict(zip(PALETTE, "osD^vPX", strict=True))  # a second sign of identity, for prints in grey
    for colour, curve in ranked(curves, labels):
        axes.errorbar(
            curve.x,
            curve.mean,
            None if curve.stderr is None else curve.band,
            label=wrapped(curve.label),
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
        axes.plot(x, mean, color=_BOUND_COLOUR, linestyle=dashes[index % len(dashes)], label=wrapped(label))


def _beyond(bound: Curve) -> str:
    return f"off scale: {number_text(bound.last)}" if math.isfinite(bound.last) else "infinite"


def _draw_events(axes: Any, events: Sequence[tuple[int, str]]) -> None:
    """Number the events on the axis and name them in the legend, where no name can cover a curve."""
    for number, (place, name) in enumerate(sorted(events), start=1):
        label = f"{number}  round {place:,}: {name}"
        axes.axvline(place, color="#555555", linewidth=0.9, linestyle=":", label=wrapped(label))
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

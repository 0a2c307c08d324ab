"""The picture of a sweep: regret per agent along one axis, a line for each combination of the others."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentd.errors import SettingsError
from agentd.files import replace_text
from agentd.plot.curves import Curve
from agentd.plot.plain_svg import plain_svg
from agentd.plot.with_matplotlib import plot_sweep
from agentd.sweeps.measuring import Row

PICTURE = "sweep.svg"
_Y = "regret per agent (reward units)"
_TITLE = "Regret per agent"
MOST_LINES = 7
"""As many as there are colours."""


def draw_sweep(place: Path, rows: Sequence[Row], axis: str, varied: Sequence[str]) -> Path:
    """Draw it, by hand where matplotlib is not installed."""
    others = [name for name in varied if name != axis]
    values = list(dict.fromkeys(row[axis] for row in rows))
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    at = {value: float(value) if numbers else float(place) for place, value in enumerate(values, start=1)}
    label = axis if numbers else f"{axis}: " + ", ".join(f"{place} = {value}" for place, value in enumerate(values, 1))
    subtitle = f"{len({row['repetition'] for row in rows})} repetitions"
    if len({tuple(row[name] for name in others) for row in rows}) > MOST_LINES:
        kept = ["algorithm"] if "algorithm" in others else others[:1]
        subtitle += f", mean over {', '.join(name for name in others if name not in kept)}"
        others = kept
    shown = _curves(rows, axis, others, at)[:MOST_LINES]
    path = place / PICTURE
    with contextlib.suppress(SettingsError):
        plot_sweep(shown, path, title=_TITLE, subtitle=subtitle, x_label=label, y_label=_Y, log_y=_wide(shown))
        return path
    replace_text(path, plain_svg(shown, _TITLE, subtitle, x_label=label, y_label=_Y))
    return path


def _curves(rows: Sequence[Row], axis: str, others: Sequence[str], at: Mapping[Any, float]) -> list[Curve]:
    lines: dict[tuple[Any, ...], dict[float, list[float]]] = {}
    for row in rows:
        line = lines.setdefault(tuple(row[name] for name in others), {})
        line.setdefault(at[row[axis]], []).append(row["regret_per_agent"])
    curves = []
    for key, line in lines.items():
        places = sorted(line)
        means = np.array([float(np.mean(line[place])) for place in places])
        errors = np.array([_standard_error(line[place]) for place in places])
        label = ", ".join(f"{name} {value}" for name, value in zip(others, key, strict=True)) or "regret"
        curves.append(Curve(label, np.array(places), means, errors if errors.any() else None))
    return curves


def _standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _wide(curves: Sequence[Curve]) -> bool:
    """Whether the lines are so far apart that only a logarithmic scale shows them all."""
    means = np.concatenate([curve.mean for curve in curves])
    return bool(means.min() > 0 and means.max() > 30 * means.min())

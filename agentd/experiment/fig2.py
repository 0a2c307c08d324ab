"""fig2: what is read off its runs, and how it is drawn: regret, messages and bytes against the composed ε."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from agentd.experiment.figures import Figure, Measured, over_repetitions, subtitle_of
from agentd.experiment.repeated_runs import Setup
from agentd.experiment.result_cache import Floats
from agentd.plot.curves import Curve
from agentd.plot.with_matplotlib import Panel, plot_panels

EPSILON_LABEL = "composed ε of each reward"

Reading = Callable[[Measured], Floats]
"""One value per repetition of a series."""


def draw(figure: Figure, setup: Setup, measured: Sequence[Measured], *, path_svg: Path, path_png: Path) -> None:
    """Write the picture, twice."""
    subtitle = subtitle_of(figure, setup)
    plot_panels(panels_of(measured), path_svg, path_png, title=figure.title, subtitle=subtitle, x_label=EPSILON_LABEL)


def panels_of(measured: Sequence[Measured]) -> list[Panel]:
    """Regret, messages and bytes; who sends nothing is left out of the last two."""
    telling = [one for one in measured if one.messages[-1].any()]
    return [
        Panel("Regret", "group regret at the last round", curves_of(measured, lambda one: one.final[-1])),
        Panel(
            "Messages", "messages sent by all agents (millions)", curves_of(telling, lambda one: one.messages[-1] / 1e6)
        ),
        Panel(
            "Bytes, with those of empty frames",
            "bytes sent by all agents (GB)",
            curves_of(telling, lambda one: one.bytes[-1] / 1e9),
        ),
    ]


def curves_of(measured: Sequence[Measured], read: Reading) -> list[Curve]:
    """One line per algorithm: over the composed ε where it makes a promise, level and dashed where it makes none."""
    groups: dict[str, list[Measured]] = {}
    for one in measured:
        groups.setdefault(one.series.label, []).append(one)
    promises = sorted({one.series.promise for one in measured if one.series.promise is not None})
    return [_curve(label, group, promises, read) for label, group in groups.items()]


def _curve(label: str, group: Sequence[Measured], promises: Sequence[float], read: Reading) -> Curve:
    level = group[0].series.promise is None
    values = np.array([read(one) for one in group]).T
    mean, stderr = over_repetitions(values)
    x = np.array(promises if level else [one.series.promise for one in group], dtype=np.float64)
    errors = None if np.isnan(stderr).any() else stderr
    if level:
        mean, errors = np.full(len(x), mean[0]), None if errors is None else np.full(len(x), errors[0])
    return Curve(label, x, mean, errors, dashed=level)

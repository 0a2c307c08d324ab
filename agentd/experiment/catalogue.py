"""Every figure by its name, and who draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from agentd.experiment import fig2, fig3, fig4, figures
from agentd.experiment.figures import Axis, Figure, Knobs, Measured
from agentd.experiment.repeated_runs import Setup
from agentd.experiment.theory import Bound

FIGURES: Mapping[str, Callable[[Knobs], Figure]] = MappingProxyType(
    {
        "fig1a": figures.fig1a,
        "fig1b": figures.fig1b,
        "fig1c": figures.fig1c,
        "fig2": figures.fig2,
        "fig3": fig3.fig3,
        "fig4": fig4.fig4,
    }
)
"""Every figure by its name on the command line."""

_PAINTERS = {Axis.EPSILON: fig2.draw, Axis.LIARS: fig3.draw, Axis.PROMISE: fig4.draw}


def draw(
    figure: Figure,
    setup: Setup,
    measured: Sequence[Measured],
    bounds: Mapping[str, Bound],
    *,
    path_svg: Path,
    path_png: Path,
) -> None:
    """Write the picture of a figure, twice."""
    if (paint := _PAINTERS.get(figure.axis)) is not None:
        paint(figure, setup, measured, path_svg=path_svg, path_png=path_png)
        return
    curves = [figures.curve_of(one, figure.axis) for one in measured]
    figures.draw(figure, setup, curves, bounds, path_svg=path_svg, path_png=path_png)

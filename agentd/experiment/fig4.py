"""fig4: what privacy costs an honest agent, with and without the shield; how it is described and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentd.core.policy import PolicySettings
from agentd.experiment import fig2
from agentd.experiment.fig3 import HONEST_REGRET, PRIVATE
from agentd.experiment.figures import ARMS, COMPOSED_EPSILONS, Axis, Figure, Knobs, Measured, subtitle_of
from agentd.experiment.repeated_runs import Lifetime, Series, Setup
from agentd.plot.with_matplotlib import Panel, plot_panels


def fig4(knobs: Knobs) -> Figure:
    """Privacy with a shield: final regret of honest agents over ε; among nobody but them, unless liars are asked for.

    coop-thompson is the same rule without privacy: what ε costs is to be read off against that one.
    """
    share, attack = knobs.liars or 0.0, (knobs.attacks or ("both",))[0]
    private = [
        Series(
            f"{name}-{epsilon:g}",
            name,
            name,
            PolicySettings(arms=ARMS, epsilon=epsilon),
            Lifetime.FULL,
            liars=share,
            attack=attack,
            promise=epsilon,
        )
        for name in PRIVATE
        for epsilon in COMPOSED_EPSILONS
    ]
    open_one = Series(
        "coop-thompson",
        "coop-thompson, not private",
        "coop-thompson",
        PolicySettings(arms=ARMS),
        Lifetime.FULL,
        liars=share,
        attack=attack,
    )
    among = f"{share:.0%} liars, {attack}" if share else "nobody lies"
    return Figure(
        name="fig4",
        title="What privacy costs, with and without the shield",
        setting=f"arms uniform on [0, 1], γ = diameter, {among}",
        series=(*private, open_one),
        axis=Axis.PROMISE,
        log_y=True,
    )


def draw(figure: Figure, setup: Setup, measured: Sequence[Measured], *, path_svg: Path, path_png: Path) -> None:
    """Write the picture, twice."""
    curves = fig2.curves_of(measured, lambda one: one.honest[-1])
    plot_panels(
        [Panel("", HONEST_REGRET, curves)],
        path_svg,
        path_png,
        title=figure.title,
        subtitle=subtitle_of(figure, setup),
        x_label="ε of each reward, for all that leaves an agent",
    )

"""fig3: what an honest agent loses among liars, against their share, attack by attack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from agentd.core.estimate import ESTIMATORS
from agentd.core.policy import PolicySettings
from agentd.experiment.figures import ARMS, Axis, Figure, Knobs, Measured, over_repetitions, subtitle_of
from agentd.experiment.repeated_runs import Lifetime, Series, Setup
from agentd.plot.curves import Curve
from agentd.plot.with_matplotlib import Panel, plot_panels

ATTACKS = ("promote-worst", "demote-best", "both", "adaptive-leader")
"""Shown where nobody asks for others."""
PRIVATE = ("sealed", "shielded")
SHARES = (0.1, 0.2, 0.3, 0.4)
HONEST_REGRET = "regret of an honest agent at the last round"
LIARS_LABEL = "liars (%)"


def fig3(knobs: Knobs) -> Figure:
    """Liars: final regret of honest agents against the share of liars, a panel for every attack.

    byzantine-ucb is told the true share, which nobody knows outside of an experiment; shielded always goes by its own.
    """
    shares = SHARES if knobs.liars is None else (knobs.liars,)
    players = [_private(name, knobs.epsilon) for name in PRIVATE]
    players += [_robust(estimator) for estimator in ESTIMATORS]
    among_liars = [
        _among(player, share, attack) for player in players for attack in _attacks(knobs) for share in shares if share
    ]
    alone = Series("ucb1", "ucb1, every agent alone", "ucb1", PolicySettings(arms=ARMS), Lifetime.NONE)
    return Figure(
        name="fig3",
        title="Among liars: regret of an honest agent against the share of liars",
        setting=f"arms uniform on [0, 1], γ = diameter, ε = {knobs.epsilon:g} with sealed and shielded; byzantine-ucb "
        "knows the share",
        series=(*players, *among_liars, alone),
        axis=Axis.LIARS,
        log_y=True,
    )


def _attacks(knobs: Knobs) -> tuple[str, ...]:
    return knobs.attacks or ATTACKS


def _private(name: str, epsilon: float) -> Series:
    return Series(name, name, name, PolicySettings(arms=ARMS, epsilon=epsilon), Lifetime.FULL)


def _robust(estimator: str) -> Series:
    label = f"byzantine-ucb, {estimator}"
    policy = PolicySettings(arms=ARMS, contamination=0.0, estimator=estimator)
    return Series(f"byzantine-ucb-{estimator}", label, "byzantine-ucb", policy, Lifetime.FULL)


def _among(player: Series, share: float, attack: str) -> Series:
    policy = replace(player.policy, contamination=share) if player.algorithm == "byzantine-ucb" else player.policy
    return replace(player, name=f"{player.name}-{attack}-{share:.0%}", policy=policy, liars=share, attack=attack)


def draw(figure: Figure, setup: Setup, measured: Sequence[Measured], *, path_svg: Path, path_png: Path) -> None:
    """Write the picture, twice."""
    plot_panels(
        panels_of(measured),
        path_svg,
        path_png,
        title=figure.title,
        subtitle=subtitle_of(figure, setup),
        x_label=LIARS_LABEL,
        log_x=False,
    )


def panels_of(measured: Sequence[Measured]) -> list[Panel]:
    """A panel for every attack; where nobody lies all of them begin alike."""
    attacks = list(dict.fromkeys(one.series.attack for one in measured if one.series.liars))
    shares = sorted({one.series.liars for one in measured})
    return [Panel(attack, HONEST_REGRET, _curves(attack, measured, shares)) for attack in attacks]


def _curves(attack: str, measured: Sequence[Measured], shares: Sequence[float]) -> list[Curve]:
    groups: dict[str, list[Measured]] = {}
    for one in measured:
        if not one.series.liars or one.series.attack == attack:
            groups.setdefault(one.series.label, []).append(one)
    return [_curve(label, group, shares) for label, group in groups.items()]


def _curve(label: str, group: Sequence[Measured], shares: Sequence[float]) -> Curve:
    """Over the shares; level and dashed for who hears nobody, and so no liar."""
    level = group[0].series.lifetime is Lifetime.NONE
    mean, stderr = over_repetitions(np.array([one.honest[-1] for one in group]).T)
    x = 100.0 * np.array(shares if level else [one.series.liars for one in group])
    errors = None if np.isnan(stderr).any() else stderr
    if level:
        mean, errors = np.full(len(x), mean[0]), None if errors is None else np.full(len(x), errors[0])
    return Curve(label, x, mean, errors, dashed=level)

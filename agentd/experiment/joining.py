"""Algorithms that join a figure at its user's wish: a line more, under the conditions of the figure's first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentd.core.policy import ALGORITHMS, Algorithm, PolicySettings
from agentd.errors import SettingsError
from agentd.experiment.figures import ARMS, Axis, Figure
from agentd.experiment.repeated_runs import Lifetime, Series


def joined_by(figure: Figure, names: Sequence[str]) -> Figure:
    """The figure with more lines; refused where one could not be compared with the others."""
    shown = {series.algorithm for series in figure.series}
    if again := [name for place, name in enumerate(names) if name in shown or name in names[:place]]:
        raise SettingsError(f"--algorithm {again[0]}: {figure.name} shows it already")
    lines = [line for name in names for line in _lines(figure, ALGORITHMS[name])]
    return replace(figure, series=(*figure.series, *lines))


def _lines(figure: Figure, algorithm: Algorithm) -> list[Series]:
    if figure.axis is Axis.EPSILON:
        return _at_equal_promises(figure, algorithm)
    first = figure.series[0]
    label = first.label.replace(first.algorithm, algorithm.name, 1)
    if not algorithm.noised and not first.liars:
        label = f"{algorithm.name}, not private"
    alone = algorithm.tells is None and figure.axis is not Axis.GAMMA
    lifetime = Lifetime.NONE if alone else first.lifetime
    return [replace(first, name=algorithm.name, label=label, algorithm=algorithm.name, lifetime=lifetime)]


def _at_equal_promises(figure: Figure, algorithm: Algorithm) -> list[Series]:
    name, lifetime = algorithm.name, Lifetime.NONE if algorithm.tells is None else Lifetime.FULL
    if not algorithm.noised:
        label = f"{name}, not private"
        return [Series(name, label, name, PolicySettings(arms=ARMS), lifetime, bytes_too=True)]
    if not algorithm.disjoint:
        raise SettingsError(
            f"--algorithm {name}: {figure.name} compares at the same composed ε, and {name} does not say (`disjoint`) "
            "that each reward enters one release only, so that its ε is the composed one"
        )
    promises = sorted({series.promise for series in figure.series if series.promise is not None})
    policies = [(promise, PolicySettings(arms=ARMS, epsilon=promise)) for promise in promises]
    return [
        Series(f"{name}-{promise:g}", name, name, policy, lifetime, promise=promise, bytes_too=True)
        for promise, policy in policies
    ]

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
    if figure.axis in (Axis.EPSILON, Axis.PROMISE):
        return _at_equal_promises(figure, algorithm)
    first = figure.series[0]
    if figure.axis is Axis.LIARS:
        return _among_liars(figure, first, algorithm)
    label = first.label.replace(first.algorithm, algorithm.name, 1)
    if not algorithm.noised and not first.liars:
        label = f"{algorithm.name}, not private"
    alone = algorithm.tells is None and figure.axis is not Axis.GAMMA
    lifetime = Lifetime.NONE if alone else first.lifetime
    return [replace(first, name=algorithm.name, label=label, algorithm=algorithm.name, lifetime=lifetime)]


def _among_liars(figure: Figure, first: Series, algorithm: Algorithm) -> list[Series]:
    """Under every attack that the first meets, at every share."""
    if algorithm.tells is None:
        return [
            replace(first, name=algorithm.name, label=algorithm.name, algorithm=algorithm.name, lifetime=Lifetime.NONE)
        ]
    return [
        replace(
            series,
            name=series.name.replace(first.name, algorithm.name, 1),
            label=algorithm.name,
            algorithm=algorithm.name,
        )
        for series in figure.series
        if series.label == first.label
    ]


def _at_equal_promises(figure: Figure, algorithm: Algorithm) -> list[Series]:
    first = figure.series[0]
    lies = {"liars": first.liars, "attack": first.attack, "bytes_too": first.bytes_too}
    name, lifetime = algorithm.name, Lifetime.NONE if algorithm.tells is None else Lifetime.FULL
    if not algorithm.noised:
        label = f"{name}, not private"
        return [replace(Series(name, label, name, PolicySettings(arms=ARMS), lifetime), **lies)]  # type: ignore[arg-type]
    if not algorithm.disjoint:
        raise SettingsError(
            f"--algorithm {name}: {figure.name} compares at the same composed ε, and {name} does not say (`disjoint`) "
            "that each reward enters one release only, so that its ε is the composed one"
        )
    promises = sorted({series.promise for series in figure.series if series.promise is not None})
    policies = [(promise, PolicySettings(arms=ARMS, epsilon=promise)) for promise in promises]
    return [
        replace(Series(f"{name}-{promise:g}", name, name, policy, lifetime, promise=promise), **lies)  # type: ignore[arg-type]
        for promise, policy in policies
    ]

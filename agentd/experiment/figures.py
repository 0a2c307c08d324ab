"""The paper's figures: what each one runs, what is read off the runs, and how it is drawn.

A figure is a frozen description. Adding one means describing its series and putting it into `catalogue.FIGURES`;
nothing else knows figures by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from agentd.core.policy import PolicySettings
from agentd.core.privacy.calibrate import nominal_interval, nominal_private
from agentd.experiment import theory
from agentd.experiment.repeated_runs import Lifetime, Repetitions, Series, Setup, Unit
from agentd.experiment.result_cache import Floats, UnitResult
from agentd.experiment.theory import Bound
from agentd.plot.curves import Curve
from agentd.plot.with_matplotlib import plot_regret, plot_sweep
from agentd.runs.spec import Network

ARMS = 5
"""K in all of the paper's experiments."""

NARROW = (0.3, 0.7)
"""Where the means of the arms are drawn from, with liars."""

CountCliques = Callable[[Network, int], int]
"""How many cliques cover the power graph G_γ of a network."""


class Axis(Enum):
    """What a figure shows regret against; the value names the column of its table."""

    ROUND = "round"
    GAMMA = "gamma"
    EPSILON = "composed_epsilon"
    LIARS = "liars_percent"
    """The regret of an honest agent against the share of those who are not."""
    PROMISE = "epsilon"
    """The regret of an honest agent against the ε that a reward is promised."""


@dataclass(frozen=True, slots=True)
class Instance:
    """What a theorem needs to know about one repetition."""

    means: tuple[float, ...]
    agents: int
    gamma: int
    clique_cover: int


@dataclass(frozen=True, slots=True)
class BoundLine:
    """A theorem about one series, averaged over the repetitions."""

    label: str
    series: Series
    theorem: Callable[[Instance], Bound]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the paper."""

    name: str
    title: str
    setting: str
    """What all series have in common beyond the setup, in words."""
    series: tuple[Series, ...]
    axis: Axis = Axis.ROUND
    log_y: bool = False
    """Whether its curves are orders of magnitude apart."""
    bounds: tuple[BoundLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Knobs:
    """What the operator may turn in the figures."""

    epsilon: float = 1.0
    """Nominal privacy rate of the noised algorithms."""
    contamination: float = 1e-3
    """How often liars lie, and what byzantine-ucb prepares for."""
    rounds: int = 1000
    """Pulls of each agent: how long a composed ε has to last."""
    attacks: tuple[str, ...] = ()
    """What liars say in fig3, a panel each, and in fig4; empty: as usual."""
    liars: float | None = None
    """The share of liars in fig3, beside none, and in fig4; None: as usual."""


def fig1a(knobs: Knobs) -> Figure:
    """Privacy: regret over time of private-ucb against its solo and its open rivals."""
    policy = PolicySettings(arms=ARMS, epsilon=knobs.epsilon)
    nominal = f"nominal ε = {knobs.epsilon:g}"
    private = Series("private-ucb", f"private-ucb, {nominal}", "private-ucb", policy)
    return Figure(
        name="fig1a",
        title="Private cooperation: group regret over time",
        setting="arms uniform on [0, 1], γ = ⌈diameter/2⌉",
        series=(
            private,
            Series("ucb1", "ucb1, every agent alone", "ucb1", policy, Lifetime.NONE),
            Series("dp-ucb-int", f"dp-ucb-int, every agent alone, {nominal}", "dp-ucb-int", policy, Lifetime.NONE),
            Series("coop-ucb", "coop-ucb, not private", "coop-ucb", policy),
        ),
        log_y=True,
        bounds=(
            BoundLine("upper bound of private-ucb", private, _private_theorem(knobs.epsilon)),
            BoundLine("lower bound of any group", private, lambda repetition: theory.lower(repetition.means)),
        ),
    )


def fig1b(knobs: Knobs) -> Figure:
    """Lies: regret over time of byzantine-ucb against ucb1 and itself among honest agents."""
    honest = PolicySettings(arms=ARMS, contamination=0.0)
    return Figure(
        name="fig1b",
        title="Cooperation among liars: group regret over time",
        setting="arms uniform on [0.3, 0.7], γ = ⌈diameter/2⌉",
        series=(
            _byzantine(knobs.contamination, Lifetime.HALF, f"every agent lies at rate {knobs.contamination:g}"),
            Series("ucb1", "ucb1, every agent alone", "ucb1", honest, Lifetime.NONE, NARROW),
            Series(
                "byzantine-ucb-honest",
                "byzantine-ucb with ε = 0, nobody lies",
                "byzantine-ucb",
                honest,
                arm_range=NARROW,
            ),
        ),
        log_y=True,
    )


def fig1c(knobs: Knobs) -> Figure:
    """Reach: final regret of both algorithms as messages live longer."""
    policy = PolicySettings(arms=ARMS, epsilon=knobs.epsilon)
    label = f"private-ucb, nominal ε = {knobs.epsilon:g}, arms on [0, 1]"
    lies = f"lies at rate {knobs.contamination:g}, arms on [0.3, 0.7]"
    return Figure(
        name="fig1c",
        title="Reach: group regret against the lifetime of messages",
        setting="beyond a graph's diameter γ changes nothing",
        series=(
            Series("private-ucb", label, "private-ucb", policy, Lifetime.SWEEP),
            _byzantine(knobs.contamination, Lifetime.SWEEP, lies),
        ),
        axis=Axis.GAMMA,
    )


COMPOSED_EPSILONS = (0.1, 0.3, 1.0, 3.0)
"""What fig2 promises for each reward."""


def fig2(knobs: Knobs) -> Figure:
    """Privacy at equal promises: final regret and traffic of the noised algorithms at the same composed ε.

    Of sealed that is the ε of the whole transcript; of private-ucb of its noised sums only, given pulls, which leak.
    coop-thompson is sealed's rule without privacy: what privacy costs is to be read off against that one.
    """
    public = PolicySettings(arms=ARMS)
    private = [
        _promised(name, composed, rate(composed, knobs.rounds), lifetime)
        for name, rate, lifetime in (
            ("sealed", lambda composed, _rounds: composed, Lifetime.FULL),
            ("private-ucb", nominal_private, Lifetime.FULL),
            ("dp-ucb-int", nominal_interval, Lifetime.NONE),
        )
        for composed in COMPOSED_EPSILONS
    ]
    return Figure(
        name="fig2",
        title="Equal promises: regret and traffic at the same composed ε",
        setting="arms uniform on [0, 1], γ = diameter; only with sealed ε covers all that leaves",
        series=(
            *private,
            Series("ucb1", "ucb1, every agent alone", "ucb1", public, Lifetime.NONE, bytes_too=True),
            Series("coop-ucb", "coop-ucb, not private", "coop-ucb", public, Lifetime.FULL, bytes_too=True),
            Series(
                "coop-thompson", "coop-thompson, not private", "coop-thompson", public, Lifetime.FULL, bytes_too=True
            ),
        ),
        axis=Axis.EPSILON,
        log_y=True,
    )


def _promised(name: str, composed: float, nominal: float, lifetime: Lifetime) -> Series:
    policy = PolicySettings(arms=ARMS, epsilon=nominal)
    return Series(f"{name}-{composed:g}", name, name, policy, lifetime, promise=composed, bytes_too=True)


def _byzantine(contamination: float, lifetime: Lifetime, lies: str) -> Series:
    policy = PolicySettings(arms=ARMS, contamination=contamination)
    return Series("byzantine-ucb", f"byzantine-ucb, {lies}", "byzantine-ucb", policy, lifetime, NARROW, liars=1.0)


def _private_theorem(epsilon: float) -> Callable[[Instance], Bound]:
    def theorem(repetition: Instance) -> Bound:
        return theory.private(
            repetition.means,
            agents=repetition.agents,
            gamma=repetition.gamma,
            clique_cover=repetition.clique_cover,
            epsilon=epsilon,
        )

    return theorem


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What the runs of one series gave; rows of `final` and of the others are points, columns repetitions."""

    series: Series
    points: range
    final: Floats
    honest: Floats
    curve: Floats
    """Regret over time at the last point, repetition × round."""
    epsilon: Floats
    epsilon_at_delta: Floats
    fallbacks: Floats
    messages: Floats
    bytes: Floats
    message_bytes: Floats
    seconds: float
    """Work in all, on however many cores."""


def gather(figure: Figure, repetitions: Repetitions, results: Mapping[Unit, UnitResult]) -> list[Measured]:
    """Put the results together, series by series; in whatever order they were made, the result is the same."""
    place = {
        (unit.series, unit.gamma, repetition): (result, row)
        for unit, result in results.items()
        for row, repetition in enumerate(unit.repetitions)
    }
    return [_gather_series(series, repetitions, results, place) for series in figure.series]


def _gather_series(
    series: Series,
    repetitions: Repetitions,
    results: Mapping[Unit, UnitResult],
    place: Mapping[tuple[Series, int, int], tuple[UnitResult, int]],
) -> Measured:
    points = repetitions.points(series)
    rows = [
        [
            place[series, repetitions.gamma(series, repetition, point), repetition]
            for repetition in range(repetitions.setup.repetitions)
        ]
        for point in points
    ]
    return Measured(
        series=series,
        points=points,
        final=np.array([[result.final[row] for result, row in runs] for runs in rows]),
        honest=np.array([[result.honest[row] for result, row in runs] for runs in rows]),
        curve=np.array([result.curve[row] for result, row in rows[-1]]),
        epsilon=np.array([[result.epsilon[row] for result, row in runs] for runs in rows]),
        epsilon_at_delta=np.array([[result.epsilon_at_delta[row] for result, row in runs] for runs in rows]),
        fallbacks=np.array([[result.fallbacks[row] for result, row in runs] for runs in rows]),
        messages=np.array([[result.messages[row] for result, row in runs] for runs in rows]),
        bytes=np.array([[result.bytes[row] for result, row in runs] for runs in rows]),
        message_bytes=np.array([[result.message_bytes[row] for result, row in runs] for runs in rows]),
        seconds=math.fsum(result.seconds for unit, result in results.items() if unit.series == series),
    )


def over_repetitions(values: Floats) -> tuple[Floats, Floats]:
    """Mean and standard error over the first axis, the repetitions; a single repetition has no error, NaN."""
    count = values.shape[0]
    mean: Floats = values.mean(axis=0)
    if count == 1:
        return mean, np.full(mean.shape, math.nan)
    return mean, values.std(axis=0, ddof=1) / math.sqrt(count)


def curve_of(measured: Measured, axis: Axis) -> Curve:
    """The line of a series: over rounds, or over γ."""
    if axis is Axis.ROUND:
        x, (mean, stderr) = np.arange(1.0, measured.curve.shape[1] + 1.0), over_repetitions(measured.curve)
    elif axis is Axis.GAMMA:
        x, (mean, stderr) = np.array(measured.points, dtype=np.float64), over_repetitions(measured.final.T)
    elif axis is Axis.LIARS:
        x, (mean, stderr) = np.array([100.0 * measured.series.liars]), over_repetitions(measured.honest.T)
    else:
        final = measured.honest if axis is Axis.PROMISE else measured.final
        x, (mean, stderr) = np.array([measured.series.promise or math.inf]), over_repetitions(final.T)
    return Curve(measured.series.label, x, mean, None if np.isnan(stderr).any() else stderr)


def average_bounds(figure: Figure, repetitions: Repetitions, count_cliques: CountCliques) -> dict[str, Bound]:
    """The figure's theorems by their labels, each averaged over the repetitions."""
    return {line.label: _average_bound(line, repetitions, count_cliques) for line in figure.bounds}


def _average_bound(line: BoundLine, repetitions: Repetitions, count_cliques: CountCliques) -> Bound:
    instances = (
        _instance(line.series, repetitions, repetition, count_cliques)
        for repetition in range(repetitions.setup.repetitions)
    )
    bounds = [line.theorem(instance) for instance in instances]
    slope, constant = np.mean([bound.slope for bound in bounds]), np.mean([bound.constant for bound in bounds])
    return Bound(float(slope), float(constant))


def _instance(series: Series, repetitions: Repetitions, repetition: int, count_cliques: CountCliques) -> Instance:
    gamma = repetitions.gamma(series, repetition, repetitions.points(series)[-1])
    cliques = count_cliques(repetitions.network(repetition), gamma)
    return Instance(repetitions.arms(series, repetition).means, repetitions.setup.agents, gamma, cliques)


def subtitle_of(figure: Figure, setup: Setup) -> str:
    """What was measured, in one line."""
    drawn = f"{setup.agents} agents, {ARMS} Bernoulli arms, {setup.graphs}"
    return f"{drawn}, {setup.repetitions} repetitions; {figure.setting}"


def draw(
    figure: Figure,
    setup: Setup,
    curves: Sequence[Curve],
    bounds: Mapping[str, Bound],
    *,
    path_svg: Path,
    path_png: Path,
) -> None:
    """Write the picture, twice."""
    subtitle = subtitle_of(figure, setup)
    if figure.axis is Axis.GAMMA:
        plot_sweep(curves, path_svg, path_png, title=figure.title, subtitle=subtitle, log_y=figure.log_y)
        return
    rounds = np.arange(1, setup.rounds + 1)
    lines = [Curve(label, rounds.astype(np.float64), bound.curve(rounds)) for label, bound in bounds.items()]
    plot_regret(curves, path_svg, path_png, title=figure.title, subtitle=subtitle, bounds=lines, log_y=figure.log_y)

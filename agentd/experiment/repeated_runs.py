"""The runs that a figure needs, cut into units of work that can be done in any order, by anybody, once.

Repetition i of a figure has the seed `base + i`: every series of the figure meets the same graph, the same arms and the
same reward streams in it, so series are compared pair by pair. A run is a (series, repetition, γ); where a sweep of γ
goes beyond the diameter of a repetition's graph, the run at the diameter is the same run and is not repeated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from agentd import plugins
from agentd.core.chance import Purpose, stream
from agentd.core.lies import Attack
from agentd.core.policy import PolicySettings
from agentd.experiment.result_cache import Floats, UnitResult
from agentd.runs.arms import Arms
from agentd.runs.proofs import source_digest
from agentd.runs.regret import group_regret, honest_regret, regret_curve
from agentd.runs.spec import Network, Outcome, RunSpec, draw_liars
from agentd.simulation.either_engine import bytes_of, run_each

SIDE_BY_SIDE = 4
"""Runs that the vectorised engine carries at once; measured: about the fastest per core for 200 agents."""

_GRAPHS_BYTES = 1 << 26  # memory for drawn graphs, whose bulk is the table of distances

DrawNetwork = Callable[[int], Network]
"""The graph of a seed."""


class Lifetime(Enum):
    """How γ follows from the diameter of a repetition's graph."""

    NONE = "0"
    HALF = "⌈diameter/2⌉"
    FULL = "diameter"
    SWEEP = "1 … diameter"

    def points(self, largest_diameter: int) -> range:
        """The places on the γ axis; a single one, without meaning, where γ is not swept."""
        return range(1, max(1, largest_diameter) + 1) if self is Lifetime.SWEEP else range(1)

    def gamma(self, diameter: int, point: int) -> int:
        """The γ of a repetition at one of the points."""
        if self is Lifetime.SWEEP:
            return min(point, max(1, diameter))
        return {Lifetime.NONE: 0, Lifetime.HALF: math.ceil(diameter / 2), Lifetime.FULL: diameter}[self]


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a figure: who plays what, against which arms."""

    name: str
    """In tables and files; unique within a figure."""
    label: str
    """In the legend."""
    algorithm: str
    policy: PolicySettings
    lifetime: Lifetime = Lifetime.HALF
    arm_range: tuple[float, float] = (0.0, 1.0)
    liars: float = 0.0
    """The share of agents that lie, each with the policy's contamination."""
    attack: str = "worst"
    promise: float | None = None
    """The composed ε that its nominal one was chosen for; None where that was not the point."""
    bytes_too: bool = False
    """Whether the bytes it sends are counted."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What all series of an experiment share."""

    agents: int
    rounds: int
    repetitions: int
    seed: int
    graphs: str
    """What graphs are drawn, in words; part of what a finished unit is recognised by."""
    made_by: str
    """The version of the program; its parts are not mixed with those of another."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A few repetitions of one series at one γ, run side by side."""

    series: Series
    gamma: int
    repetitions: tuple[int, ...]


class Repetitions:
    """The graphs, arms and runs behind an experiment, all from its seed."""

    def __init__(self, setup: Setup, draw: DrawNetwork) -> None:
        self.setup = setup
        # Units come in the order of their repetitions: where not all graphs fit, the latest few are needed next.
        self._draw = lru_cache(maxsize=max(2 * SIDE_BY_SIDE, _GRAPHS_BYTES // (4 * setup.agents**2)))(draw)
        self.diameters = [self.network(repetition).known_diameter() for repetition in range(setup.repetitions)]

    def network(self, repetition: int) -> Network:
        return self._draw(self.setup.seed + repetition)

    def arms(self, series: Series, repetition: int) -> Arms:
        source = stream(self.setup.seed + repetition, Purpose.ARMS)
        return Arms.random(series.policy.arms, source, *series.arm_range)

    def points(self, series: Series) -> range:
        """The places of a series on the γ axis."""
        return series.lifetime.points(max(self.diameters))

    def gamma(self, series: Series, repetition: int, point: int) -> int:
        """The γ of a repetition at a point."""
        return series.lifetime.gamma(self.diameters[repetition], point)

    def units(self, all_series: Sequence[Series]) -> list[Unit]:
        """Every run once, in the order of repetitions: what is done early is then a fair sample of what remains."""
        units = [unit for series in all_series for unit in self._units_of(series)]
        return sorted(units, key=lambda unit: unit.repetitions[-1])

    def specs(self, unit: Unit) -> list[RunSpec]:
        series, agents = unit.series, self.setup.agents
        return [
            RunSpec(
                network=self.network(repetition),
                arms=self.arms(series, repetition),
                algorithm=series.algorithm,
                rounds=self.setup.rounds,
                gamma=unit.gamma,
                policy=series.policy,
                seed=self.setup.seed + repetition,
                liars=draw_liars(self.setup.seed + repetition, agents, round(series.liars * agents)),
                attack=Attack.parse(series.attack),
            )
            for repetition in unit.repetitions
        ]

    def describe(self, unit: Unit) -> dict[str, Any]:
        """All that decides the numbers of a unit, and nothing that does not."""
        series = unit.series
        return {
            "made_by": self.setup.made_by,
            "agents": self.setup.agents,
            "rounds": self.setup.rounds,
            "graphs": self.setup.graphs,
            "seeds": [self.setup.seed + repetition for repetition in unit.repetitions],
            "gamma": unit.gamma,
            "algorithm": series.algorithm,
            "policy": asdict(series.policy),
            "arm_range": list(series.arm_range),
            "liars": series.liars,
            "attack": series.attack if series.liars else None,
            "bytes_too": series.bytes_too,
            **({"source": source} if (source := source_digest(series.algorithm)) else {}),
        }

    def _units_of(self, series: Series) -> Iterator[Unit]:
        repetitions = range(self.setup.repetitions)
        runs = {
            (self.gamma(series, repetition, point), repetition)
            for point in self.points(series)
            for repetition in repetitions
        }
        for gamma in sorted({gamma for gamma, _ in runs}):
            mine = sorted(repetition for lifetime, repetition in runs if lifetime == gamma)
            for first in range(0, len(mine), SIDE_BY_SIDE):
                yield Unit(series, gamma, tuple(mine[first : first + SIDE_BY_SIDE]))


def measure(specs: Sequence[RunSpec], *, bytes_too: bool = False) -> UnitResult:
    """Carry out a unit's runs."""
    started = time.perf_counter()
    outcomes = list(run_each(specs, SIDE_BY_SIDE))
    means = [spec.arms.means for spec in specs]
    return UnitResult(
        final=np.array([group_regret(outcome.arm, mean) for outcome, mean in zip(outcomes, means, strict=True)]),
        honest=np.array(
            [
                honest_regret(outcome.arm, spec.arms.means, spec.liars)
                for spec, outcome in zip(specs, outcomes, strict=True)
            ]
        ),
        curve=np.array([regret_curve(outcome.arm, mean) for outcome, mean in zip(outcomes, means, strict=True)]),
        epsilon=np.array([_worst(outcome.epsilon) for outcome in outcomes]),
        epsilon_at_delta=np.array([_worst(outcome.epsilon_at_delta) for outcome in outcomes]),
        fallbacks=np.array([_fallbacks(outcome) for outcome in outcomes]),
        messages=np.array([float(outcome.messages) for outcome in outcomes]),
        bytes=_bytes(specs, outcomes, headers=True) if bytes_too else np.full(len(specs), math.nan),
        message_bytes=_bytes(specs, outcomes, headers=False) if bytes_too else np.full(len(specs), math.nan),
        seconds=time.perf_counter() - started,
    )


def measure_unit(task: tuple[Unit, list[RunSpec]]) -> tuple[Unit, UnitResult]:
    """One unit, in a worker."""
    plugins.load()  # another process knows none of them yet
    unit, specs = task
    return unit, measure(specs, bytes_too=unit.series.bytes_too)


def _bytes(specs: Sequence[RunSpec], outcomes: Sequence[Outcome], *, headers: bool) -> Floats:
    pairs = zip(specs, outcomes, strict=True)
    counted = (bytes_of(spec, outcome, headers=headers) for spec, outcome in pairs)
    return np.array([math.nan if size is None else float(size) for size in counted])


def _worst(of_agents: Floats | None) -> float:
    return math.nan if of_agents is None else float(of_agents.max())


def _fallbacks(outcome: Outcome) -> float:
    return outcome.fallbacks / outcome.estimates if outcome.estimates else math.nan

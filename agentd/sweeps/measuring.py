"""One configuration of a sweep, all its repetitions: from settings to rows of the table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from agentd.experiment import theory
from agentd.runs.regret import group_regret
from agentd.runs.scenario import make_scenario
from agentd.runs.spec import Outcome, RunSpec
from agentd.simulation.either_engine import bytes_of, run_each
from agentd.simulation.engine import has_twin, lies_beyond_engine, run_vector
from agentd.sweeps.combinations import Configuration

SIDE_BY_SIDE = 8
"""Repetitions that the vectorised engine carries at once, at most."""
AGENTS_AT_ONCE = 1_000
"""All their agents together: beyond, columns no longer fit the cache."""

Row = dict[str, Any]
FIGURES = (
    *("repetition", "seed", "gamma_hops", "diameter", "group_regret", "regret_per_agent", "best_arm_share"),
    *("messages", "bytes", "composed_epsilon", "alone_per_agent", "lower_bound_per_agent"),
)
"""What a row has beside the settings; the last two are what its regret is held against."""
MOST_WORK = 2_000_000
"""Agents × rounds × arms of a run that is also played alone; there it costs a fifth more at most."""


def measure(configuration: Configuration, repetitions: int) -> list[Row]:
    """Carry out every repetition; the same rows wherever and whenever that is done."""
    return list(rows_of(configuration, range(repetitions)))


def rows_of(configuration: Configuration, repetitions: Iterable[int]) -> Iterator[Row]:
    """The rows of some repetitions, each as soon as it is there."""
    numbers = list(repetitions)
    for start in range(0, len(numbers), SIDE_BY_SIDE):
        part = numbers[start : start + SIDE_BY_SIDE]
        specs = [make_scenario(configuration.repetition(number)).spec for number in part]
        together = max(1, min(SIDE_BY_SIDE, AGENTS_AT_ONCE // specs[0].network.agents))
        alone = _alone(specs)
        for place, (number, outcome) in enumerate(zip(part, run_each(specs, together), strict=True)):
            yield _row(configuration, number, specs[place], outcome) | _held_against(specs[place], alone[place])


def uses_core_agents(configuration: Configuration) -> bool:
    """Whether the vectorised engine cannot carry it out."""
    settings = configuration.settings
    lies_beyond = bool(settings.byzantine) and lies_beyond_engine(settings.algorithm, settings.attack) is not None
    return not has_twin(settings.algorithm, settings.half_life) or bool(settings.policies) or lies_beyond


def _row(configuration: Configuration, number: int, spec: RunSpec, outcome: Outcome) -> Row:
    regret = group_regret(outcome.arm, spec.arms.means)
    best = int(np.argmax(spec.arms.means))
    told = configuration.settings.to_json()
    settings = {name: told[name] for name in SETTINGS}
    return settings | {
        "repetition": number,
        "seed": spec.seed,
        "gamma_hops": spec.gamma,
        "diameter": spec.network.diameter,
        "group_regret": round(regret, 9),
        "regret_per_agent": round(regret / spec.network.agents, 9),
        "best_arm_share": round(float((outcome.arm == best).mean()), 9),
        "messages": outcome.messages,
        "bytes": bytes_of(spec, outcome),
        "composed_epsilon": _epsilon(outcome),
    }


def _alone(specs: Sequence[RunSpec]) -> list[float | None]:
    """Group regret of the same arms, seeds and rounds where every agent plays ucb1 for itself; None: too much work."""
    first = specs[0]
    if first.network.agents * first.rounds * first.arms.count > MOST_WORK:
        return [None] * len(specs)
    honest = [replace(spec, algorithm="ucb1", gamma=0, liars=frozenset(), overrides={}) for spec in specs]
    return [group_regret(outcome.arm, spec.arms.means) for spec, outcome in zip(specs, run_vector(honest), strict=True)]


def _held_against(spec: RunSpec, alone: float | None) -> Row:
    agents = spec.network.agents
    bound = theory.lower(spec.arms.means).at(spec.rounds) if spec.arms.are_coins else math.inf
    return {
        "alone_per_agent": None if alone is None else round(alone / agents, 9),
        "lower_bound_per_agent": round(bound / agents, 9) if math.isfinite(bound) else None,
    }


def _epsilon(outcome: Outcome) -> float | None:
    """Of the agent that spent most; nothing where no noise was added."""
    if outcome.epsilon is None:
        return None
    largest = float(outcome.epsilon.max())
    return largest if math.isfinite(largest) else None


SETTINGS = (
    *("algorithm", "agents", "edge_probability", "topology", "rounds", "gamma", "random_arms", "reward"),
    *("epsilon", "v", "rule", "byzantine", "contamination", "attack"),
)
"""The settings that every row names, varied or not, so that tables of several sweeps can be put together."""
COLUMNS = (*SETTINGS, *FIGURES)

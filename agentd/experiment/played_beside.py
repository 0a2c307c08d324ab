"""The same run played by others: alone, and sharing every pull without privacy; simulated once, when a run is over.

Nobody lies in it, nothing fails, and all agents run the same: a reference is what could be had, not what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.experiment import theory
from agentd.runs.regret import NOT_PULLED, regret_curve, rounds_made
from agentd.runs.spec import RunSpec
from agentd.runs.yardstick import SIMULATED, Yardstick
from agentd.simulation.engine import run_vector

LIMIT = 2_000_000
"""Agents × rounds × arms that are simulated: a few seconds of a core; 200 agents, 1,000 rounds and 5 arms are half."""
_PLAYERS = {
    "alone": ("ucb1", False),
    "alone_thompson": ("coop-thompson", False),
    "coop_thompson": ("coop-thompson", True),
}
"""Who plays a reference, and whether messages live as long as in the run or are not sent."""
_COINS_ONLY = "the bound is that of Bernoulli arms"

Floats = NDArray[np.float64]


class _Stopped(Exception):
    """Somebody wants to leave."""


def play_beside(
    spec: RunSpec, arm: NDArray[np.integer[Any]], stop: Callable[[], bool] = lambda: False, *, limit: int = LIMIT
) -> Yardstick:
    """Hold the arms that a run pulled (agents × rounds) against what others would have; `stop` is asked each round."""
    made = rounds_made(arm)
    if not made:
        return Yardstick(
            spec.network.agents, 0, left_out=dict.fromkeys((*SIMULATED, "lower_bound"), "no pull was made")
        )
    curves, left_out = _simulated(replace(spec, rounds=made), arm[:, :made], stop, limit)
    if spec.arms.are_coins:
        curves["lower_bound"] = theory.lower(spec.arms.means).curve(np.arange(1, made + 1))
    else:
        left_out["lower_bound"] = _COINS_ONLY
    return Yardstick(spec.network.agents, made, curves, left_out)


def _simulated(
    spec: RunSpec, arm: NDArray[np.integer[Any]], stop: Callable[[], bool], limit: int
) -> tuple[dict[str, Floats], dict[str, str]]:
    work = arm.size * spec.arms.count
    if work > limit:
        why = f"{spec.network.agents} agents × {spec.rounds:,} rounds × {spec.arms.count} arms are more than {limit:,}"
        return {}, dict.fromkeys(SIMULATED, why)
    curves: dict[str, Floats] = {}
    for name, (algorithm, speaks) in _PLAYERS.items():
        honest = replace(spec, algorithm=algorithm, liars=frozenset(), overrides={}, gamma=spec.gamma if speaks else 0)
        try:
            curves[name] = _regret(honest, arm, stop)
        except _Stopped:
            missing = [each for each in SIMULATED if each not in curves]
            return curves, dict.fromkeys(missing, "it was interrupted")
    return curves, {}


def _regret(spec: RunSpec, arm: NDArray[np.integer[Any]], stop: Callable[[], bool]) -> Floats:
    """Of the pulls that the run made; what it did not pull costs a reference nothing either."""

    def go_on(_trial: int) -> None:
        if stop():
            raise _Stopped

    played = run_vector([spec], progress=go_on)[0].arm
    return regret_curve(np.where(arm == NOT_PULLED, NOT_PULLED, played), spec.arms.means)

"""What shielding costs where nobody lies; seeds and tolerances are fixed."""

from __future__ import annotations

import numpy as np
import pytest

from agentd.runs.regret import group_regret
from agentd.runs.scenario import make_scenario
from agentd.settings import TestbedSettings
from agentd.simulation.engine import run_vector


def regrets(algorithm: str, agents: int, edges: float, rounds: int, seeds: range) -> np.ndarray:
    common = {"algorithm": algorithm, "agents": agents, "edge_probability": edges, "rounds": rounds, "gamma": "full"}
    specs = [make_scenario(TestbedSettings(**common, seed=seed)).spec for seed in seeds]
    played = zip(run_vector(specs), specs, strict=True)
    return np.array([group_regret(outcome.arm, spec.arms.means) / agents for outcome, spec in played])


def at_least(found: np.ndarray) -> float:
    """The mean less one standard error."""
    return float(found.mean() - found.std(ddof=1) / np.sqrt(len(found)))


def test_where_nobody_lies_a_small_group_loses_little_by_shielding() -> None:
    sealed, shielded = (regrets(name, 20, 0.3, 150, range(7000, 7004)) for name in ("sealed", "shielded"))
    assert at_least(shielded) < 1.6 * sealed.mean()


@pytest.mark.long
@pytest.mark.parametrize(("agents", "edges", "most"), [(50, 0.12, 1.4), (200, 0.1, 1.3)])
def test_where_nobody_lies_shielding_costs_at_most_a_part_more_than_sealed(
    agents: int, edges: float, most: float
) -> None:
    seeds = range(7000, 7020 if agents == 50 else 7006)
    sealed, shielded = (regrets(name, agents, edges, 1000, seeds) for name in ("sealed", "shielded"))
    assert at_least(shielded) < most * sealed.mean()

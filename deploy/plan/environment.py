"""What the environment of a testbed is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the processes that read these values back need neither
    from agentd.run.scenario import Scenario
    from deploy.plan.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPlan:
    """Plain values, because they travel to another process."""

    listen: str
    arms: Mapping[str, Any]
    agents: int
    rounds: int
    seed: int
    run: bytes
    run_dir: str


def plan_environment(scenario: Scenario, plan: Plan, run_dir: str) -> EnvironmentPlan:
    """What the environment of this plan is told; `run_dir` is the run directory as it sees it."""
    spec = scenario.spec
    return EnvironmentPlan(
        listen=plan.environment,
        arms=spec.arms.to_json(),
        agents=spec.network.agents,
        rounds=spec.rounds,
        seed=spec.seed,
        run=plan.run,
        run_dir=run_dir,
    )

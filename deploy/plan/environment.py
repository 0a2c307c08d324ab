"""What the environment of a testbed is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the processes that read these values back need none of it
    from agentd.core.terms import Terms
    from agentd.runs.scenario import Scenario
    from deploy.plan.plan import Plan

_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPlan:
    """Plain values, because they travel to another process."""

    listen: str
    arms: Mapping[str, Any]
    agents: int
    rounds: int
    seed: int
    run: bytes
    terms: Mapping[str, Any]
    """A draft of what the run is agreed on: the environment draws what differs from run to run."""
    run_dir: str
    seats: str | None
    """Where the hashes of the agents' secrets are; None: each draws its own, and the first to come has the seat."""
    keying: Mapping[str, str | None] = field(default_factory=dict)
    """Where its keys and the roster are, and whose signature counts; empty: there are none."""


def plan_environment(scenario: Scenario, plan: Plan, run_dir: str) -> EnvironmentPlan:
    """What the environment of this plan is told; `run_dir` is the run directory as it sees it."""
    from agentd.terms_file import terms_to_json
    from deploy.plan.plan import NOT_DRAWN, SEAT_HASHES

    spec = scenario.spec
    return EnvironmentPlan(
        listen=plan.environment,
        arms=spec.arms.to_json(),
        agents=spec.network.agents,
        rounds=spec.rounds,
        seed=spec.seed,
        run=plan.run,
        terms=terms_to_json(draft_terms(scenario, plan)),
        run_dir=run_dir,
        # Hashes are of one run: whoever has drawn its id has drawn the agents' secrets.
        seats=f"{run_dir}/{SEAT_HASHES}" if plan.run != NOT_DRAWN and plan.keys is None else None,
        keying=plan.keying,
    )


def draft_terms(scenario: Scenario, plan: Plan) -> Terms:
    """What the agents of a plan agree on, but for the run's id, when it began and, unless it is seeded, its beacon."""
    from agentd.core.terms import BEACON_BYTES, Clock
    from agentd.runs.agreed_terms import beacon_of_seed, terms_of

    clock = Clock[plan.agents[0].clock.upper()]
    seed = scenario.settings.seed
    return terms_of(
        scenario.spec,
        clock=clock,
        interval_us=int(plan.agents[0].interval_s * _MICROSECONDS) if clock is Clock.FREE else 0,
        beacon=bytes(BEACON_BYTES) if seed is None else beacon_of_seed(seed),
    )

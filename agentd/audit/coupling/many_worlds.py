"""Many worlds, on all cores, and what they say together.

Equal runs are worth what unequal ones would have shown: in how many worlds the other reward is seen when no noise is
shifted is the power of the test, and stands beside every verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from agentd.audit.coupling.compare import Outcome, compared
from agentd.audit.coupling.worlds import TARGET, world_of
from agentd.audit.planted_faults import planted_policy
from agentd.audit.workers import Workers
from agentd.core.policy import ALGORITHMS, Algorithm, PolicySettings
from agentd.core.policy.base import Restorable
from agentd.core.policy.coins import KeyedCoins

PORTION = 5
"""Worlds that a worker makes at once."""
Portion = tuple[int, int, int, str, str | None, bool]
"""Seed, first world, how many, algorithm, fault, whether its policy can be restored."""


def is_coupled(algorithm: Algorithm) -> bool:
    """Whether an algorithm claims a privacy that the coupling can test."""
    return algorithm.noised or algorithm.transcript_private


@dataclass(frozen=True, slots=True)
class Equality:
    """What a number of worlds showed."""

    algorithm: str
    fault: str | None
    seed: int
    first_world: int
    worlds: int
    """That were looked at: all that were asked for, or fewer where the first difference was enough."""
    differing: int
    """Worlds in which something is another though the noise of one release was shifted."""
    differing_composed: int
    """The same with that of every release that holds the reward."""
    shown: int
    """Worlds in which something is another where no noise was shifted."""
    unrepeatable: int
    """Worlds that were not even equal to themselves."""
    lives: int
    observables: int
    """That were compared, of one input each."""
    example: Outcome | None
    """The first world in which something differs."""
    wall_s: float

    @property
    def verdict(self) -> str:
        if self.differing:
            return "differs"
        return "identical" if self.shown else "cannot tell"

    @property
    def power(self) -> float:
        """The share of worlds in which a mistake could have shown."""
        return self.shown / self.worlds if self.worlds else 0.0

    def to_json(self) -> dict[str, Any]:
        disjoint = ALGORITHMS[self.algorithm].disjoint
        return {**asdict(self), "verdict": self.verdict, "power": self.power, "one_release_per_reward": disjoint}


def work(portion: Portion) -> list[Outcome]:
    """Compare some worlds."""
    seed, first, count, algorithm, fault, restorable = portion
    numbers = range(first, first + count)
    return [compared(world_of(seed, number, algorithm, fault=fault, restorable=restorable)) for number in numbers]


def portions(worlds: int) -> int:
    """In how many portions so many worlds are worked."""
    return -(-worlds // PORTION)


def couple(
    algorithm: str,
    worlds: int,
    team: Workers,
    advance: Callable[[], None] = lambda: None,
    *,
    seed: int = 0,
    first_world: int = 0,
    fault: str | None = None,
    one_is_enough: bool = False,
) -> Equality:
    """Compare so many worlds, from a number on; where one difference is enough, no more than it takes to find one."""
    started = time.perf_counter()
    restorable = _is_restorable(algorithm, fault)
    todo: list[Portion] = [
        (seed, first, min(PORTION, first_world + worlds - first), algorithm, fault, restorable)
        for first in range(first_world, first_world + worlds, PORTION)
    ]
    outcomes: list[Outcome] = []
    for done in team.carry_out(work, todo):
        outcomes += done
        advance()
        if one_is_enough and any(outcome.differs for outcome in done):
            break
    outcomes.sort(key=lambda outcome: outcome.number)
    return Equality(
        algorithm,
        fault,
        seed,
        first_world,
        len(outcomes),
        sum(outcome.differs is not None for outcome in outcomes),
        sum(outcome.differs_composed is not None for outcome in outcomes),
        sum(outcome.shows for outcome in outcomes),
        sum(not outcome.repeats for outcome in outcomes),
        sum(outcome.lives for outcome in outcomes),
        sum(outcome.observables for outcome in outcomes),
        next((outcome for outcome in outcomes if outcome.differs), None),
        time.perf_counter() - started,
    )


def _is_restorable(algorithm: str, fault: str | None) -> bool:
    policy = planted_policy(fault, algorithm, PolicySettings(arms=2), KeyedCoins(0, TARGET))
    return isinstance(policy, Restorable) and policy.ledger is not None

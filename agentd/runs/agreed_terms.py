"""The terms that follow from a run's spec: the same for whoever declares them, in memory or by an environment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from agentd.core.attacks.basis.honest_pool import HonestPool
from agentd.core.attacks.basis.scheme import Known
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.shielding import duty_by
from agentd.core.terms import RUN_BYTES, Clock, PolicyTerms, Terms, id_ranges
from agentd.runs.spec import RunSpec


def terms_of(
    spec: RunSpec,
    *,
    run: bytes = bytes(RUN_BYTES),
    clock: Clock = Clock.LOCKSTEP,
    interval_us: int = 0,
    start_ms: int = 0,
    beacon: bytes | None = None,
) -> Terms:
    """What the agents of this run agree on; it is closed: nobody takes part whom the spec does not have.

    Without a beacon it is that of the spec's seed.
    """
    return Terms(
        arms=spec.arms.count,
        lifetime=spec.gamma,
        run=run,
        horizon=spec.rounds,
        clock=clock,
        interval_us=interval_us,
        start_ms=start_ms,
        beacon=beacon_of_seed(spec.seed) if beacon is None else beacon,
        policies=_policies(spec),
    )


def _policies(spec: RunSpec) -> tuple[PolicyTerms, ...]:
    algorithms = {agent: spec.algorithm_of(agent) for agent in range(spec.network.agents)}
    return policy_terms(algorithms, spec.policy.epsilon, spec.policy.v)


def policy_terms(algorithms: Mapping[int, str], epsilon: float, v: float) -> tuple[PolicyTerms, ...]:
    """What agents do, one entry per algorithm, in the order of the first agent that runs it."""
    members: dict[str, list[int]] = {}
    for agent in sorted(algorithms):
        members.setdefault(algorithms[agent], []).append(agent)
    return tuple(_policy(name, epsilon, v, agents) for name, agents in members.items())


def beacon_of_seed(seed: int) -> bytes:
    """The public chance of a reproducible run."""
    return hashlib.sha256(f"agentd beacon {seed}".encode()).digest()


def _policy(name: str, epsilon: float, v: float, agents: list[int]) -> PolicyTerms:
    algorithm = ALGORITHMS[name]
    return PolicyTerms(
        algorithm=name,
        tag=0 if algorithm.tells is None else algorithm.tells.tag,
        epsilon=epsilon if algorithm.noised else None,
        # Where each reward enters one release only, noise does not grow with the pulls.
        v=v if algorithm.noised and not algorithm.disjoint else None,
        ids=id_ranges(agents),
    )


def known_to(spec: RunSpec, liar: int, pool: HonestPool | None = None) -> Known:
    """What a liar of a run is given to know."""
    duty = duty_by(spec.algorithm_of(liar), beacon_of_seed(spec.seed), liar, spec.arms.count)
    return Known(liar, tuple(spec.arms.means), duty, pool)

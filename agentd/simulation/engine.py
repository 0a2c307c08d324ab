"""The vectorised engine: runs of one algorithm side by side, a round of all their agents at a time.

It is exact, not approximate: the same spec gives the same arms and rewards as core agents on the in-memory network.
It does what the paper's experiments need, fault-free lockstep with every agent running the same policy; the rest is the
in-memory network's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies import SAMPLE, SEALED
from agentd.core.chance import Purpose
from agentd.core.grid import UNIT
from agentd.core.lies import Attack
from agentd.core.policy import ALGORITHMS
from agentd.core.privacy.ledger import Ledger, Release, composed_epsilons
from agentd.core.privacy.sealing import Weighting
from agentd.errors import SettingsError
from agentd.runs.regret import NO_REWARD, NOT_PULLED, rounds_made
from agentd.runs.spec import Outcome, RunSpec, scheduled_at_delta
from agentd.simulation.draws import UniformsPerTrial
from agentd.simulation.spread import MOST_BY_MATRICES
from agentd.simulation.traffic import count_messages
from agentd.simulation.vector_policies import (
    Alone,
    AlonePrivate,
    Ints,
    Layout,
    Together,
    TogetherPrivate,
    VectorPolicy,
    release_pulls,
    release_scales,
)
from agentd.simulation.vector_robust import TogetherRobust
from agentd.simulation.vector_sealed import TogetherSealed, TogetherThompson
from agentd.simulation.vector_shielded import TogetherShielded

_COLUMN_POLICIES: dict[str, Callable[[Layout], VectorPolicy]] = {
    "ucb1": Alone,
    "dp-ucb-int": AlonePrivate,
    "coop-ucb": Together,
    "coop-thompson": TogetherThompson,
    "private-ucb": TogetherPrivate,
    "byzantine-ucb": TogetherRobust,
    "sealed": TogetherSealed,
    "shielded": TogetherShielded,
}

Progress = Callable[[int], None]


def run_vector(
    specs: Sequence[RunSpec], progress: Progress | None = None, stop: Callable[[], bool] = lambda: False
) -> list[Outcome]:
    """Carry out runs that differ in seed, graph, γ, arms and liars, but not in size, algorithm or attack.

    Asked to stop, it makes no further round; what was not pulled is marked, as of agents that are down.
    """
    refuse_what_needs_agents(specs)
    layout = Layout(specs)
    policy = _COLUMN_POLICIES[specs[0].algorithm](layout)
    dealer, teller = _Dealer(layout), _Teller(layout)
    arms = np.full((layout.rounds, layout.width), NOT_PULLED, dtype=np.uint16)
    rewards = np.full((layout.rounds, layout.width), NO_REWARD, dtype=np.int32)
    agents = np.arange(layout.width)
    for trial in range(1, layout.rounds + 1):
        arm = policy.choose(trial)
        place = arm * layout.width + agents
        reward = dealer.deal(trial, arm, place)
        policy.observe(trial, arm, place, reward, teller.tell(trial, reward))
        arms[trial - 1], rewards[trial - 1] = arm, reward
        if progress:
            progress(trial)
        if stop():
            break
    outcomes = [_outcome(layout, policy, run, arms, rewards) for run in range(layout.runs)]
    for spec, outcome in zip(specs, outcomes, strict=True):
        outcome.messages = count_messages(*spoken(spec, outcome))
    if isinstance(policy, TogetherPrivate | AlonePrivate):
        _charge(outcomes, specs[0], policy.released_pulls().reshape(layout.arms, layout.runs, layout.agents))
    return outcomes


def spoken(spec: RunSpec, outcome: Outcome) -> tuple[RunSpec, NDArray[np.bool_] | None]:
    """What traffic follows from: the run as far as it came, and who created a message in it."""
    made = rounds_made(outcome.arm)
    return replace(spec, rounds=made), None if outcome.sent is None else outcome.sent[:, :made]


def has_twin(algorithm: str, half_life: int | None = None) -> bool:
    """Whether this engine knows the algorithm; what fades, or comes from elsewhere, runs on core agents only."""
    return algorithm in _COLUMN_POLICIES and (half_life is None or algorithm != "sealed")


def lies_beyond_engine(algorithm: str, attack: Attack | str) -> str | None:
    """Why this engine does not know what liars say who attack an algorithm so; None: it does."""
    attack = Attack.parse(attack) if isinstance(attack, str) else attack
    if attack.on_relay:
        return "the vector engine cannot corrupt messages on their way"
    if attack.forges and ALGORITHMS[algorithm].tells not in (None, SAMPLE, SEALED):
        return f"the vector engine forges no messages of {algorithm}"
    return None


def what_needs_agents(spec: RunSpec) -> str | None:
    """Why this engine cannot carry out a run that core agents can, as a whole sentence; None: it can."""
    if not has_twin(spec.algorithm):
        return f"{spec.algorithm} has no vectorised twin"
    if not has_twin(spec.algorithm, spec.policy.half_life):
        return "the vector engine forgets nothing, as --half-life asks"
    if spec.algorithm == "shielded" and spec.network.agents > MOST_BY_MATRICES:
        return f"with shielded the vector engine keeps what each holds of each: up to {MOST_BY_MATRICES} agents"
    if spec.overrides:
        return "the vector engine runs one algorithm for all agents, without --policy overrides"
    return lies_beyond_engine(spec.algorithm, spec.attack) if spec.liars else None


def refuse_what_needs_agents(specs: Sequence[RunSpec]) -> None:
    """Raise for runs that this engine cannot carry out; cheap, so that a command can ask before it begins."""
    shapes = {(s.network.agents, s.arms.count, s.rounds, s.algorithm, s.policy, s.arms.kind, s.attack) for s in specs}
    if len(shapes) != 1:
        raise ValueError("runs side by side must agree in agents, arms, rounds, algorithm, its settings and the attack")
    if (why := next(filter(None, map(what_needs_agents, specs)), None)) is not None:
        raise SettingsError(f"{why}; use --engine agents")


class _Dealer:
    """Rewards for all agents of all runs."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        keys = [(spec.seed, agent) for spec in layout.specs for agent in range(layout.agents)]
        self._uniforms = UniformsPerTrial(keys, Purpose.REWARD)
        means = np.array([spec.arms.means for spec in layout.specs])
        self._means = np.repeat(means.T, layout.agents, axis=1).ravel()
        self._coins = layout.specs[0].arms.are_coins

    def deal(self, trial: int, arm: Ints, place: Ints) -> Ints:
        u = self._uniforms.at(trial)[0]
        if self._coins:  # one comparison for all runs; the same that Arms.deal makes
            coins: Ints = (u < self._means[place]) * np.int64(UNIT)
            return coins
        runs = zip(self._layout.specs, self._layout.per_run(arm), self._layout.per_run(u), strict=True)
        return np.concatenate([spec.arms.deal(arms, draws) for spec, arms, draws in runs])


class _Teller:
    """What is told of each reward: the truth, except by liars."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        lying = [] if layout.specs[0].attack.forges else layout.specs  # who forges tells nothing of its rewards
        liars = [(run, agent) for run, spec in enumerate(lying) for agent in sorted(spec.liars)]
        self._places = np.array([run * layout.agents + agent for run, agent in liars], dtype=np.int64)
        self._uniforms = UniformsPerTrial([(layout.specs[run].seed, a) for run, a in liars], Purpose.LIE, 2)

    def tell(self, trial: int, reward: Ints) -> Ints:
        if not len(self._places):
            return reward
        spec = self._layout.specs[0]
        told = reward.copy()
        honest = reward[self._places]
        told[self._places] = spec.attack.told(honest, spec.policy.contamination, self._uniforms.at(trial))
        return told


def _outcome(
    layout: Layout, policy: VectorPolicy, run: int, arms: NDArray[np.uint16], rewards: NDArray[np.int32]
) -> Outcome:
    mine = slice(run * layout.agents, (run + 1) * layout.agents)
    outcome = Outcome(np.ascontiguousarray(arms[:, mine].T), np.ascontiguousarray(rewards[:, mine].T))
    if isinstance(policy, TogetherSealed):
        outcome.sent = np.ascontiguousarray(policy.sent[:, mine].T)
        outcome.releases = int(policy.releases[mine].sum())
        outcome.epsilon = np.where(policy.releases[mine] > 0, _one_release(layout.specs[run]), 0.0)
        outcome.epsilon_at_delta = _at_delta(layout.specs[run], layout.agents)
    if isinstance(policy, TogetherShielded):
        outcome.distrusted = policy.distrusted(run)
    if isinstance(policy, TogetherRobust):
        outcome.sent = policy.sent_by(mine)
        outcome.fallbacks = int(policy.fallbacks[run])
        outcome.estimates = policy.estimates
    return outcome


def _one_release(spec: RunSpec) -> float:
    """What a reward costs that enters one release only."""
    ledger = Ledger(disjoint=True)
    ledger.record(Release(0, 1, 1, Weighting.of(spec.policy.epsilon).scale))
    return ledger.epsilon_one_reward()


def _charge(outcomes: Sequence[Outcome], spec: RunSpec, pulls: Ints) -> None:
    """What the agents' ledgers hold at the end; which releases there were follows from the pulls of each arm."""
    thresholds = _thresholds(spec)
    releases = np.searchsorted(thresholds, pulls, side="right")
    worst_arm = releases.max(axis=0)
    numbers = np.unique(worst_arm)
    scales = release_scales(thresholds, spec.policy.v)[: numbers[-1]].astype(np.int64)
    composed = np.array(composed_epsilons(scales.tolist(), numbers.tolist()))
    at_delta = _at_delta(spec, worst_arm.shape[1])
    for run, outcome in enumerate(outcomes):
        outcome.releases = int(releases[:, run].sum())
        outcome.epsilon = composed[np.searchsorted(numbers, worst_arm[run])]
        outcome.epsilon_at_delta = at_delta


def _at_delta(spec: RunSpec, agents: int) -> NDArray[np.float64]:
    """The ε at DELTA of what was going to be released at most; it is the same for all, whatever they pulled."""
    return np.full(agents, scheduled_at_delta(spec, spec.algorithm))


def _thresholds(spec: RunSpec) -> tuple[int, ...]:
    """After how many pulls of an arm there was a release, if there were so many."""
    if spec.algorithm == "dp-ucb-int":
        interval = math.ceil(1.0 / spec.policy.epsilon)
        return tuple(range(interval, spec.rounds + 1, interval))
    return release_pulls(spec.policy.epsilon, spec.policy.v, spec.rounds)

"""What a simulated run is given and what comes out of it, whichever engine carries it out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agentd.core.chance import Purpose, stream
from agentd.core.lies import Attack
from agentd.core.policy import ALGORITHMS, PolicySettings, schedule_of
from agentd.errors import SettingsError
from agentd.runs.arms import Arms

if TYPE_CHECKING:
    from topology.shells import Shells

NOT_PULLED = np.uint16(65_535)
"""In `Outcome.arm`: the agent was down at that trial."""

DELTA = 1e-5
"""The δ at which (ε, δ) values are reported."""

_WHO_LIES = 1 << 32
"""The place of an agent that no agent has: the stream that draws who lies."""


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """The graph as the engines see it: who hears whom, and what follows from that, found when it is asked for."""

    neighbours: tuple[tuple[int, ...], ...]

    @property
    def agents(self) -> int:
        """The number of agents, M."""
        return len(self.neighbours)

    @cached_property
    def distances(self) -> NDArray[np.int32]:
        """Hops between all pairs; only of graphs that are small enough to be measured."""
        from topology.measure import distances_among

        return distances_among(self.neighbours)

    @cached_property
    def spans(self) -> tuple[int, int]:
        """The least and the most that the diameter can be; both are the diameter of a graph that can be measured."""
        from topology.measure import MAX_MEASURED_NODES, diameter_bounds

        if self.agents > MAX_MEASURED_NODES:
            return diameter_bounds(self.neighbours)
        diameter = int(self.distances.max()) if self.agents else 0
        return diameter, diameter

    @property
    def diameter(self) -> int | None:
        """The most hops between two agents; None where only its bounds are known."""
        least, most = self.spans
        return least if least == most else None

    def known_diameter(self) -> int:
        """The same for who needs it; a graph that is too large for it to be known is the operator's to know."""
        if self.diameter is None:
            least, most = self.spans
            raise SettingsError(
                f"the diameter of a graph of {self.agents} agents is not computed, only that it is {least} to {most}; "
                "give the hops that a message lives as a number: --gamma 3"
            )
        return self.diameter

    def reach(self, gamma: int) -> int:
        """How far a message really gets, however long it lives; no less than that where the diameter is not known."""
        return min(gamma, self.spans[1])

    def shells(self, reach: int) -> Shells:
        """Who is 1…reach hops away from whom; searched once, as long as nobody asks for another reach."""
        from topology.shells import Adjacency, Shells

        latest: Shells | None = self.__dict__.get("_shells")
        if latest is None or self.__dict__["_shells_reach"] != reach:
            latest = Shells(Adjacency.of(self.neighbours), reach)
            self.__dict__.update(_shells=latest, _shells_reach=reach)
        return latest

    def heard(self, gamma: int) -> NDArray[np.int64]:
        """How many origins each agent hears whose messages live γ hops, itself included."""
        sizes: NDArray[np.int64] = 1 + self.shells(gamma).sizes.sum(axis=0)
        return sizes


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run, completely: the same spec gives the same pulls in either engine."""

    network: Network
    arms: Arms
    algorithm: str
    rounds: int
    gamma: int
    policy: PolicySettings
    seed: int
    liars: frozenset[int] = frozenset()
    attack: Attack = field(default_factory=lambda: Attack("worst"))
    overrides: Mapping[int, str] = field(default_factory=dict)
    """Algorithms of single agents that differ from the rest."""

    def algorithm_of(self, agent: int) -> str:
        return self.overrides.get(agent, self.algorithm)


@dataclass(slots=True, eq=False)
class Outcome:
    """What happened: every pull, and what it cost to tell."""

    arm: NDArray[np.uint16]
    reward: NDArray[np.int32]
    messages: int = 0
    """Messages sent, each counted once per neighbour it was sent to."""
    bytes: int | None = 0
    """None where no frame could hold the ids."""
    epsilon: NDArray[np.float64] | None = None
    """Per agent, the composed pure ε that one changed reward is exposed to; None where nothing is noised."""
    epsilon_at_delta: NDArray[np.float64] | None = None
    """At δ = DELTA, by advanced composition of what was going to be released at most: see `core.privacy.schedule`."""
    epsilon_over_lives: NDArray[np.float64] | None = None
    """Per agent, the sum over its lives, where one came back without its state; None: each had one life."""
    lives: int = 1
    """The most that an agent had."""
    sent: NDArray[np.bool_] | None = None
    """Which agent created a message at which trial; None where it follows from the algorithm (always, or never)."""
    releases: int | None = 0
    """None where nobody counted them."""
    fallbacks: int = 0
    """How often byzantine-ucb had to use the plain mean."""
    estimates: int = 0
    distrusted: dict[int, int] | None = None
    """By how many agents each origin is trusted less than half at the end; None where nobody knows trust."""
    dropped: Counter[str] = field(default_factory=Counter)
    events: list[tuple[int, str]] = field(default_factory=list)
    """Faults, by round."""


def scheduled_at_delta(spec: RunSpec, algorithm: str, *, lost: bool = False) -> float:
    """The ε at DELTA of a reward of one agent, over its schedule; infinite without noise or a schedule."""
    schedule = schedule_of(algorithm, spec.policy, spec.rounds, lost=lost) if ALGORITHMS[algorithm].noised else None
    return schedule.at(DELTA) if schedule is not None else math.inf


def draw_liars(seed: int, agents: int, count: int) -> frozenset[int]:
    """Choose who lies."""
    chosen = stream(seed, Purpose.LIE, _WHO_LIES).permutation(agents)[:count]
    return frozenset(int(agent) for agent in chosen)

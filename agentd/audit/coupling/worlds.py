"""Random worlds: how an agent is set up, who is around it, when it dies, and which of its rewards is another one.

A world follows from a seed and a number, so that any one of them can be looked at again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from agentd.core.bodies import Kind
from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS, PolicySettings, first_release
from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.settings import AgentSettings

TARGET = 0
"""The id of the agent that is watched."""
FIRST_ORIGIN = 10
"""Ids from here on are those of agents that only neighbours have heard of."""
HALF = UNIT // 2
SEAMS = ("before the intent", "after the intent", "after the pull", "before the commit", "after the commit")
"""Where an agent may die, beside within its writes and after the send."""
AFTER_THE_SEND = "after the send"
MOST_WRITES = 5
"""Writes of one trial at most: the intent, the ledger's room and record, two slots."""

Death = tuple[int, str]
"""A trial and an edge; trial −n is the coming back for the n-th time, before the first trial."""

_PALETTES: tuple[Callable[[random.Random], int], ...] = (
    lambda _chance: 0,
    lambda chance: chance.choice((0, UNIT)),
    lambda chance: chance.choice((0, HALF, UNIT)),
    lambda chance: chance.randint(0, UNIT),
)
"""What rewards are like: zeros all the way, too, because a mistake may show in a batch that sums to nothing."""


@dataclass(frozen=True, slots=True)
class World:
    """One of them."""

    seed: int
    number: int
    algorithm: str
    fault: str | None
    """What is planted."""
    arms: int
    epsilon: float
    rule: str
    refresh: int
    budget: float | None
    on_budget: str
    gamma: int
    trials: int
    lockstep: bool
    closed: bool
    """Whether the terms name who takes part."""
    neighbours: int
    origins: int
    """That neighbours have heard of, or say so."""
    stop_after: int | None
    """The trial after which the operator stops the agent; None: it goes on to the horizon."""
    keeps_state: bool
    deaths: tuple[Death, ...]
    flipped: int
    """The trial whose reward is another one in the other input."""
    rewards: tuple[tuple[int, ...], ...]
    """By trial, from 1 on, and arm."""

    @property
    def kind(self) -> Kind | None:
        return ALGORITHMS[self.algorithm].tells

    def reward(self, trial: int, arm: int, *, flipped: bool) -> int:
        """What a pull pays in one of the two inputs."""
        paid = self.rewards[trial - 1][arm]
        return other(paid) if flipped and trial == self.flipped else paid

    def chance(self, purpose: str) -> random.Random:
        """A stream of chance that nothing else in the world reads."""
        return random.Random(f"{self.seed}/{self.number}/{purpose}")

    def settings(self) -> AgentSettings:
        """What the daemon would have been told; the addresses are never used."""
        return AgentSettings(
            id=TARGET,
            listen="tcp://127.0.0.1:1",
            environment="tcp://127.0.0.1:2",
            algorithm=self.algorithm,
            epsilon=self.epsilon,
            rule=self.rule,
            refresh=self.refresh,
            epsilon_budget=self._affordable if self.keeps_state else None,
            on_budget=self.on_budget if self.keeps_state else "listen",
            state="nowhere" if self.keeps_state else None,
        )

    @property
    def _affordable(self) -> float | None:
        """The budget as an operator may set it: one that admits nothing is refused at the start."""
        cost = first_release(self.algorithm, PolicySettings(arms=self.arms, epsilon=self.epsilon))
        return None if self.budget is None else max(self.budget, cost or 0.0)

    def policy(self) -> PolicySettings:
        """What the policy is told, whose budget may admit nothing: what it does then is to be seen, too."""
        told = self.settings().policy(self.arms)
        return told if told.epsilon_budget is None else replace(told, epsilon_budget=self.budget)

    def terms(self) -> Terms:
        """What the run is agreed on."""
        clock = Clock.LOCKSTEP if self.lockstep else Clock.OPEN
        horizon = self.trials if self.stop_after is None else 0
        if not self.closed:
            open_ones = Terms(self.arms, self.gamma, horizon=horizon, clock=clock)
            return open_ones.assuming(self.epsilon, self.settings().v)
        tag = 0 if self.kind is None else self.kind.tag
        last = FIRST_ORIGIN + self.origins * 3 // 4  # some of those that are heard of do not take part
        epsilon = self.epsilon if ALGORITHMS[self.algorithm].noised else None
        everybody = PolicyTerms(self.algorithm, tag, epsilon, self.settings().v, ((0, last),))
        return Terms(self.arms, self.gamma, horizon=horizon, clock=clock, policies=(everybody,))


def other(reward: int) -> int:
    """What the reward is in the other input: as far away as it can be."""
    return UNIT if reward < HALF else 0


def world_of(seed: int, number: int, algorithm: str, *, fault: str | None = None, restorable: bool = True) -> World:
    """World `number` of a seed; an agent whose policy is not restorable comes back from every death as someone new."""
    chance = random.Random(f"{seed}/{number}")
    arms, trials = chance.randint(2, 5), chance.randint(10, 28)
    epsilon = math.exp(chance.uniform(math.log(0.6), math.log(8.0)))
    gamma = chance.choice((1, 2, 2, 2, 3, 4))
    palette = chance.choice(_PALETTES)
    stop_after = chance.randint(trials // 2, trials - 1) if chance.random() < 0.3 else None
    # Mostly one that is released in time; sometimes the last of all, which nothing at the end may give away.
    flipped = chance.randint(1, trials * 2 // 3) if chance.random() < 0.9 else stop_after or trials
    return World(
        seed=seed,
        number=number,
        algorithm=algorithm,
        fault=fault,
        arms=arms,
        epsilon=epsilon,
        rule=chance.choice(("thompson", "ucb")),
        refresh=chance.choice((2, 3, 5, 9, 100)),
        budget=chance.choice((None, None, None, None, epsilon, 1.1 * epsilon, 0.9 * epsilon)),
        on_budget=chance.choice(("listen", "stop")),
        gamma=gamma,
        trials=trials,
        lockstep=chance.random() < 0.5,
        closed=chance.random() < 0.5,
        neighbours=chance.randint(1, 3),
        origins=round(math.exp(chance.uniform(math.log(8), math.log(80)))),
        stop_after=stop_after,
        keeps_state=chance.random() < 0.85 and restorable,
        deaths=_deaths(chance, trials, flipped) if chance.random() < 0.5 else (),
        flipped=flipped,
        rewards=tuple(tuple(palette(chance) for _ in range(arms)) for _ in range(trials)),
    )


def _deaths(chance: random.Random, trials: int, flipped: int) -> tuple[Death, ...]:
    """Anywhere; and, where it hurts most, soon after the reward in question."""
    soon = range(flipped, min(flipped + 6, trials) + 1)
    places = [chance.choice(soon) if chance.random() < 0.6 else chance.randint(1, trials) for _ in range(3)]
    deaths = [(place, _edge(chance)) for place in places[: chance.choice((1, 1, 2, 3))]]
    if chance.random() < 0.3:
        deaths.append((-1, f"write {chance.randrange(3)}"))  # and again while it comes back
    return tuple(deaths)


def _edge(chance: random.Random) -> str:
    writes = [f"write {number}" for number in range(MOST_WRITES)]
    return chance.choice([*SEAMS, AFTER_THE_SEND, AFTER_THE_SEND, *writes])

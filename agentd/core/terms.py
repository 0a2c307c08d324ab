"""The terms of a run: what all its agents have agreed on before the first frame. What contradicts them is refused.

One value, carried by the environment's welcome or by a file. An environment that nobody told who takes part declares an
open run: then there are no policies in the terms, and an agent can only assume that others do as it does itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from agentd.core.message import MAX_AGENT_ID, Columns

RUN_BYTES = 8
BEACON_BYTES = 32

IdRange = tuple[int, int]
"""The first and the last of some ids in a row."""


class Clock(IntEnum):
    """How the agents of a run keep time; the numbers are on the wire."""

    OPEN = 0
    """Not agreed."""
    LOCKSTEP = 1
    FREE = 2


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """What some agents of a run do."""

    algorithm: str
    """Empty: any."""
    tag: int | None
    """Of the bodies they publish; 0: they publish none, None: any."""
    epsilon: float | None
    """What their noise is made for; None: they add none, or nobody knows."""
    v: float | None
    ids: tuple[IdRange, ...]
    """Who they are, in ascending order."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a run is agreed on; by it heads and bodies are judged."""

    arms: int
    lifetime: int | None
    """γ: how many hops every message travels; None: not agreed."""
    run: bytes = bytes(RUN_BYTES)
    horizon: int = 0
    """The last trial of each agent; 0: no end."""
    clock: Clock = Clock.OPEN
    interval_us: int = 0
    """In a run on free clocks, the least time between two pulls of an agent."""
    start_ms: int = 0
    """When the run began, in milliseconds since 1970; 0: not agreed."""
    beacon: bytes = bytes(BEACON_BYTES)
    """Public chance that nobody who takes part has chosen."""
    policies: tuple[PolicyTerms, ...] = ()
    """Who takes part with what; every id is in one of them at most. Empty: an open run."""
    assumed: PolicyTerms | None = None
    """In an open run, what an agent takes for granted about everybody's noise; None: nothing. It is never sent."""

    @property
    def drawn(self) -> bool:
        """Whether the run has an id; terms without one are a draft, of which as many runs can be made as one likes."""
        return any(self.run)

    @property
    def closed(self) -> bool:
        """Whether it is known who takes part."""
        return bool(self.policies)

    def assuming(self, epsilon: float, v: float) -> Terms:
        """The same for an agent that supposes, where nobody has said anything, that others noise as it does itself."""
        return replace(self, assumed=PolicyTerms("", None, epsilon, v, ()))

    def policy_of(self, agent: int) -> PolicyTerms | None:
        """What one agent does; None: it does not take part, or the run is open."""
        for policy in self.policies:
            if any(first <= agent <= last for first, last in policy.ids):
                return policy
        return None

    def ids(self) -> Iterator[int]:
        """Everybody who takes part, in ascending order; nobody in an open run."""
        ranges = sorted(each for policy in self.policies for each in policy.ids)
        return (agent for first, last in ranges for agent in range(first, last + 1))

    @property
    def agents(self) -> int:
        """How many take part; 0 in an open run."""
        return sum(last - first + 1 for policy in self.policies for first, last in policy.ids)

    def tellers(self, tag: int) -> int:
        """How many take part who publish bodies of this kind, or may; nobody in an open run."""
        ranges = (each for policy in self.policies if policy.tag in (tag, None) for each in policy.ids)
        return sum(last - first + 1 for first, last in ranges)

    def left_open(self) -> tuple[str, ...]:
        """What nobody who goes by these terms can refuse, because it was not agreed on."""
        unknown_kinds = not self.closed or any(policy.tag is None for policy in self.policies)
        timeless = self.clock is Clock.OPEN or (self.clock is Clock.FREE and not self.interval_us)
        open_things = {
            "invented origins": not self.closed,
            "bodies of other kinds": unknown_kinds,
            "other lifetimes": self.lifetime is None,
            "trials of the future": timeless,
        }
        return tuple(name for name, is_open in open_things.items() if is_open)

    def policy_numbers(self) -> Columns:
        """For every id up to the largest, the number of its policy; −1 for those who do not take part."""
        top = max((last for policy in self.policies for _, last in policy.ids), default=-1)
        numbers = np.full(min(top, MAX_AGENT_ID) + 1, -1, dtype=np.int64)
        for number, policy in enumerate(self.policies):
            for first, last in policy.ids:
                numbers[first : last + 1] = number
        return numbers


def id_ranges(ids: Iterator[int] | list[int]) -> tuple[IdRange, ...]:
    """The same ids as ranges, in ascending order."""
    ranges: list[IdRange] = []
    for agent in sorted(set(ids)):
        if ranges and agent == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], agent)
        else:
            ranges.append((agent, agent))
    return tuple(ranges)

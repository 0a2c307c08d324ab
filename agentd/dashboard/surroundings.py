"""What a page needs that is not in the run directory, or that only who launched the run can do.

The dashboard knows no testbeds: whoever starts it (a verb) hands in what knows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Point = tuple[float, float]
Edge = tuple[int, int]

VERBS = ("kill", "restart", "pause", "resume", "partition", "heal", "delay", "loss", "lie", "honest")
"""What can be done to agents from the page."""
_WITHOUT_AGENTS = ("heal",)
_AMOUNTS = {"delay": ("ms", 60_000.0), "loss": ("rate", 1.0)}
MOST_AGENTS = 65_536


@dataclass(frozen=True, slots=True)
class PlacedGraph:
    """The graph with the place of every agent in the plane."""

    places: tuple[Point, ...]
    edges: tuple[Edge, ...]

    def neighbours(self, agent: int) -> list[int]:
        return sorted(j if i == agent else i for i, j in self.edges if agent in (i, j))


@dataclass(frozen=True, slots=True)
class Action:
    """Something that somebody at the page wants done."""

    verb: str
    agents: frozenset[int] = frozenset()
    amount: float = 0.0
    """Milliseconds of a delay, share of a loss; 0 ends it."""

    @classmethod
    def parse(cls, data: Any) -> Action:
        """Read a request; ValueError says what is wrong with it."""
        if not isinstance(data, dict) or data.get("do") not in VERBS:
            raise ValueError(f"expected an object with do: one of {', '.join(VERBS)}")
        verb: str = data["do"]
        named, limits = data.get("agents", []), _AMOUNTS.get(verb)
        known = {"do", *(() if verb in _WITHOUT_AGENTS else ("agents",)), *((limits[0],) if limits else ())}
        if strange := sorted(map(str, data.keys() - known)):
            raise ValueError(f"{verb} takes no {strange[0][:40]!r}")
        agents = _agents(named)
        if not agents and verb not in _WITHOUT_AGENTS:
            raise ValueError(f"{verb} needs agents: choose some first")
        return cls(verb, agents, _amount(data.get(limits[0]), *limits) if limits else 0.0)


def _agents(named: Any) -> frozenset[int]:
    if not isinstance(named, list) or len(named) > MOST_AGENTS:
        raise ValueError("agents are a list of numbers")
    if not all(type(each) is int and 0 <= each < MOST_AGENTS for each in named):
        raise ValueError("agents are numbered from 0")
    return frozenset(named)


def _amount(value: Any, name: str, most: float) -> float:
    if type(value) not in (int, float) or not 0.0 <= value <= most:  # which refuses NaN, too
        raise ValueError(f"{name} must be a number in 0…{most:g}")
    return float(value)


class Surroundings(Protocol):
    """What is known of one run beyond its directory. Every method may block, and is called in a thread."""

    def graph(self) -> PlacedGraph | None:
        """The graph and its layout; None where the directory holds none that can be read."""
        ...

    def is_running(self) -> bool:
        """Whether a testbed, or an environment, is at work in it."""
        ...

    def down(self) -> frozenset[int]:
        """Agents of a running testbed whose process does not run, and that were not done."""
        ...

    def act(self, action: Action) -> Sequence[Mapping[str, Any]]:
        """Do it; what was done, as the log of faults has it. AgentdError where it cannot be done."""
        ...

"""A world as a value: who is connected to whom, what each runs, what befalls them and when; nothing else is chance.

The same world is played the same on every machine: it has the seed of all that is drawn while it is played. It is
written as JSON, which is what a failing seed leaves behind, and what `agentd check --replay` reads.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from agentd.core.policy import ALGORITHMS

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that happens."""

    kind: str
    at_s: float
    for_s: float = 0.0
    """How long it lasts, or how long who died is away."""
    agents: tuple[int, ...] = ()
    """Whom it befalls: one, the two ends of a line, or one side of a cut."""
    amount: float = 0.0
    """A probability, seconds, or how many trials old a copy is."""
    how: str = ""
    """Of a death: where in its work the agent is, and what is left of its state."""

    @property
    def ends_s(self) -> float:
        return self.at_s + self.for_s


@dataclass(frozen=True, slots=True)
class World:
    """Everything that decides a run."""

    seed: int
    agents: int
    edges: tuple[tuple[int, int], ...]
    algorithms: tuple[str, ...]
    gamma: int
    rounds: int
    means: tuple[float, ...]
    epsilon: float = 1.0
    budget: float | None = None
    refresh: int = 8
    clock: str = "lockstep"
    timeout_s: float = 1.0
    interval_s: float = 0.05
    """Between two pulls on free clocks."""
    latency_s: float = 0.002
    jitter_s: float = 0.0
    """More of it, by chance, always."""
    work_s: float = 0.01
    """What a pull takes."""
    sync_s: float = 0.001
    """What the disk takes."""
    window: int = 128
    """Trials that gossip remembers; small ones show in a short run what else shows in a long one."""
    states: tuple[int, ...] = ()
    """Who keeps its state on disk."""
    liars: tuple[tuple[int, str, float], ...] = ()
    """Who lies, how, and how often."""
    hostile: tuple[tuple[int, str], ...] = ()
    """Who is no agent at all but an attacker, and what it does."""
    skews: tuple[float, ...] = ()
    """How much faster than the true time each clock goes."""
    faults: tuple[Fault, ...] = ()
    hosts: tuple[tuple[int, ...], ...] = ()
    """Who shares a process with whom; none: everybody has one alone."""

    @property
    def honest(self) -> list[int]:
        """Who is an agent; liars are, too: they only lie about what was paid."""
        strangers = dict(self.hostile)
        return [agent for agent in range(self.agents) if agent not in strangers]

    @property
    def heals_s(self) -> float:
        """When the last fault is over."""
        return max([fault.ends_s for fault in self.faults], default=0.0)

    @property
    def is_calm(self) -> bool:
        """Whether nothing happens at all, but for the time that things take."""
        return not self.faults and not self.hostile and not self.jitter_s

    @property
    def bends(self) -> bool:
        """Whether somebody changes what others said."""
        return any(attack.startswith("relay-") for _, attack, _ in self.liars)

    def host_of(self, agent: int) -> int:
        """The process of an agent."""
        return next((host for host, agents in enumerate(self.hosts) if agent in agents), agent)

    def neighbours(self, agent: int) -> list[int]:
        """In ascending order."""
        return sorted([b for a, b in self.edges if a == agent] + [a for a, b in self.edges if b == agent])

    def distances(self, source: int, without: frozenset[int] = frozenset()) -> dict[int, int]:
        """Hops to everybody who can be reached, passing nobody of some."""
        hops, front = {source: 0}, [source]
        while front:
            here = front.pop(0)
            for other in self.neighbours(here):
                if other not in hops and other not in without:
                    hops[other] = hops[here] + 1
                    front.append(other)
        return hops

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is as usual is left out."""
        usual = {one.name: one.default for one in fields(self)}
        plain = {name: value for name, value in asdict(self).items() if value != usual[name]}
        return {"format": FORMAT, **json.loads(json.dumps(plain))}

    @classmethod
    def from_json(cls, data: Any) -> World:
        """The world that `to_json` described; ValueError where it cannot be."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"it is no world of format {FORMAT}")
        known = {one.name for one in fields(cls)}
        if strange := sorted(set(data) - known - {"format"}):
            raise ValueError(f"nobody knows what {', '.join(map(str, strange))} is")
        try:
            faults = tuple(Fault(**{**one, "agents": tuple(one.get("agents", ()))}) for one in data.get("faults", ()))
            values = {name: _tuples(data[name]) for name in known & set(data) - {"faults"}}
            world = cls(**values, faults=faults)
        except TypeError as fault:
            raise ValueError(f"it is incomplete: {fault}") from None
        world.require()
        return world

    def require(self) -> None:
        """ValueError where no such world can be played."""
        if not 2 <= self.agents <= 64 or len(self.algorithms) != self.agents:
            raise ValueError("it needs 2 to 64 agents, and an algorithm for each")
        if unknown := sorted(set(self.algorithms) - set(ALGORITHMS)):
            raise ValueError(f"nobody knows the algorithm {unknown[0]!r}")
        named = [agent for edge in self.edges for agent in edge] + [agent for f in self.faults for agent in f.agents]
        if any(not 0 <= agent < self.agents for agent in (*named, *self.states, *dict(self.hostile))):
            raise ValueError(f"it names somebody who is not in 0…{self.agents - 1}")
        if len(self.distances(0)) != self.agents:
            raise ValueError("its graph is not connected")
        if any(not ALGORITHMS[self.algorithms[own]].noised for own in self.states):
            raise ValueError("it has a state for somebody who adds no noise, and so keeps none")
        if self.hosts and sorted(agent for host in self.hosts for agent in host) != list(range(self.agents)):
            raise ValueError("where agents share processes each of them has one")
        if any(len(host) != 1 and not set(host).isdisjoint(dict(self.hostile)) for host in self.hosts):
            raise ValueError("an attacker shares a process with nobody")
        if not self.means or self.rounds < 1 or self.gamma < 0:
            raise ValueError("it needs arms, rounds and a lifetime")

    def without(self, agent: int) -> World:
        """The same with one agent less; the others move up."""

        def moved(old: int) -> int:
            return old - (old > agent)

        def kept(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(value for place, value in enumerate(values) if place != agent)

        faults = [
            replace(fault, agents=tuple(moved(one) for one in fault.agents if one != agent))
            for fault in self.faults
            if fault.agents != (agent,) and not (len(fault.agents) == 2 and agent in fault.agents)
        ]
        return replace(
            self,
            agents=self.agents - 1,
            edges=tuple((moved(a), moved(b)) for a, b in self.edges if agent not in (a, b)),
            algorithms=kept(self.algorithms),
            skews=kept(self.skews),
            states=tuple(moved(one) for one in self.states if one != agent),
            liars=tuple((moved(one), *rest) for one, *rest in self.liars if one != agent),  # type: ignore[misc]
            hostile=tuple((moved(one), attack) for one, attack in self.hostile if one != agent),
            faults=tuple(fault for fault in faults if fault.agents or fault.kind in EVERYWHERE),
            hosts=tuple(rest for host in self.hosts if (rest := tuple(moved(one) for one in host if one != agent))),
        )


EVERYWHERE = frozenset({"loss", "duplication", "reordering", "environment", "environment-pause", "environment-disk"})
"""Faults that befall no agent in particular where none is named."""


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value

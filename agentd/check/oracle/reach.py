"""Whom messages reach: nobody beyond γ hops, and everybody within where nothing keeps them from it.

How long a message may take is measured: a hop takes the time on the line, and at most three of the longest rounds that
anybody had. Only what was said early enough before the first agent leaves is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from agentd.check.oracle.recount import Key, Recount
from agentd.check.world import World
from agentd.core.bodies import SAMPLE, SEALED
from agentd.core.policy import ALGORITHMS

ROUNDS_PER_HOP = 3


class Pacing(Protocol):
    """What is known of how fast a world went."""

    line_s: float
    longest_s: float
    longest_ever_s: float
    first_end_s: float

    @property
    def nothing_is_lost(self) -> bool:
        """Whether all that was ever said came."""
        ...

    @property
    def well_since_s(self) -> float:
        """Since when there was no fault any more."""
        ...


class Said(NamedTuple):
    """An own message, when it left first."""

    round: int
    at_s: float
    extent: tuple[int, int]
    """Of a record, its arm and how many pulls it tells of."""


class Reach:
    """What was said in a world, and how far it may travel."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._hops = {agent: world.distances(agent) for agent in range(world.agents)}
        strangers = [own for own, _ in world.hostile]
        self._near_strangers = {
            own
            for stranger in strangers
            for own, hops in self._hops[stranger].items()
            if hops <= max(1, world.gamma - 1)
        }
        """Whom an attacker can have messages reach that it passes on with more life than they have."""
        self._said: dict[Key, Said] = {}

    def says(self, own: int, head: list[int], body: list[int], round_: int, now_s: float) -> None:
        """An own message leaves."""
        key = own, head[1], head[2]
        if key not in self._said:
            self._said[key] = Said(round_, now_s, (body[0], body[1]))

    def received(self, own: int, head: list[int]) -> str | None:
        """What is wrong with where a message came."""
        origin = head[0]
        if origin >= self._world.agents or own in self._near_strangers:
            return None
        hops = self._hops[origin].get(own, 0)
        if hops <= self._world.gamma:
            return None
        return f"a message of agent {origin}, {hops} hops away, has come here with a lifetime of {self._world.gamma}"

    def relays(self, own: int, head: list[int]) -> str | None:
        """What is wrong with a relay that leaves."""
        origin, life = head[0], head[4]
        left = self._world.gamma - self._hops[origin].get(own, 0)
        return None if 1 <= life <= left else f"a message of agent {origin} leaves with a life of {life}, not {left}"

    def missing(self, recounts: Mapping[int, Recount], pacing: Pacing) -> Iterator[tuple[int, str]]:
        """What has not come where it should have."""
        world = self._world
        strangers = frozenset(own for own, _ in world.hostile)
        exact = world.is_calm and world.clock == "lockstep"
        always = pacing.nothing_is_lost
        since_s = 0.0 if always else pacing.well_since_s
        longest_s = pacing.longest_ever_s if always else pacing.longest_s
        hop_s = pacing.line_s + ROUNDS_PER_HOP * longest_s
        for own in world.honest:
            hops = world.distances(own, without=strangers)
            for (origin, incarnation, trial), said in self._said.items():
                far = hops.get(origin, world.gamma + 1)
                if origin == own or far > world.gamma:
                    continue
                key, heard = (origin, incarnation, trial), recounts[own].heard
                if exact:
                    due = said.round + far - 1
                    if due < world.rounds and heard.get(key) != due:
                        came = heard.get(key, "never")
                        yield own, f"trial {trial} of agent {origin}, {far} hops away, came in {came} and not in {due}"
                elif (
                    since_s < said.at_s < pacing.first_end_s - far * hop_s
                    and key not in heard
                    and not self._is_known(recounts[own], key, said, pacing.line_s)
                ):
                    yield own, f"trial {trial} of agent {origin}, {far} hops away, said at {said.at_s:.3f} s"

    def _is_known(self, recount: Recount, key: Key, said: Said, line_s: float) -> bool:
        """Whether something newer has made the message worthless, or it came too late to be told from another."""
        if self._world.window * self._world.interval_s <= line_s and self._world.window < self._world.rounds:
            return True
        origin, incarnation, trial = key
        kind = ALGORITHMS[self._world.algorithms[origin]].tells
        if kind is SAMPLE:
            return self._world.window < self._world.rounds
        newer = [k for k in recount.heard if k[:2] == (origin, incarnation) and k[2] > trial]
        if kind is SEALED:
            arm, pulls = said.extent
            return not pulls or any(self._said[k].extent[0] == arm for k in newer if k in self._said)
        return bool(newer)

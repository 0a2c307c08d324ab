"""A world in which something is wrong, made as small as it can be with the same thing still wrong.

Faults go first, then attackers and liars, agents and rounds, and what is out of the ordinary; each is left out if the
same invariant fails without it. What remains is what it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import NamedTuple

from agentd.check.oracle.violation import Violation
from agentd.check.seeds import play_once
from agentd.check.world import World
from agentd.core.policy import ALGORITHMS

MOST_TRIES = 400
"""Worlds played; what is small enough by then is small enough."""

ORDINARY = ("budget", "jitter_s", "window", "liars", "hostile", "skews", "hosts")
"""What a world can do without."""


class Shrunk(NamedTuple):
    """What is left."""

    world: World
    violation: Violation
    tries: int


def shrink(world: World, violation: Violation, tell: Callable[[World], None] = lambda _world: None) -> Shrunk:
    """The smallest world that is found in which the same invariant does not hold."""
    tries = 0
    found = True
    while found and tries < MOST_TRIES:
        found = False
        for smaller in _smaller(world):
            tries += 1
            other = play_once(smaller)
            if other is not None and _is_the_same(other, violation):
                world, violation, found = smaller, other, True
                tell(world)
                break
            if tries >= MOST_TRIES:
                break
    return Shrunk(world, violation, tries)


def _is_the_same(one: Violation, other: Violation) -> bool:
    """Whether the same is wrong; an exception is another one where it comes from elsewhere."""
    if one.what.startswith("Assertion") or other.what.startswith("Assertion"):
        return one.what == other.what
    return one.invariant == other.invariant


def _smaller(world: World) -> Iterator[World]:
    """Worlds with a little less in them, the boldest first."""
    for half in _halves(len(world.faults)):
        yield replace(world, faults=tuple(fault for place, fault in enumerate(world.faults) if place not in half))
    for agent in reversed(range(world.agents)):
        if world.agents > 2 and _is_connected(smaller := world.without(agent)):
            yield smaller
    for rounds in (world.rounds // 2, world.rounds * 3 // 4, world.rounds - 1):
        if 2 <= rounds < world.rounds:
            yield replace(world, rounds=rounds)
    usual = {one.name: one.default for one in fields(world)}
    for name in ORDINARY:
        if getattr(world, name) != usual[name]:
            yield replace(world, **{name: usual[name]})  # type: ignore[arg-type]
    if len(set(world.algorithms)) > 1:
        for name in sorted(set(world.algorithms)):
            if ALGORITHMS[name].noised or not world.states:  # who adds no noise keeps no state
                yield replace(world, algorithms=(name,) * world.agents)
    for edge in world.edges:
        fewer = replace(world, edges=tuple(other for other in world.edges if other != edge))
        if _is_connected(fewer):
            yield fewer


def _halves(number: int) -> Iterator[range]:
    """Which faults to leave out: half of them, a quarter, and so on to each single one."""
    size = max(1, number // 2)
    while number:
        yield from (range(start, start + size) for start in range(0, number, size))
        if size == 1:
            return
        size //= 2


def _is_connected(world: World) -> bool:
    return len(world.distances(0)) == world.agents

"""A world from a seed: small, so that thousands can be played, and odd, so that each shows something else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from agentd.check.scene.hostile import ATTACKS, EQUIVOCATES, STEALS
from agentd.check.world import Fault, World
from agentd.core.attacks import FIXED
from agentd.core.policy import ALGORITHMS, PolicySettings, first_release

Thing = TypeVar("Thing")

SIZES = (2, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 7, 8, 10)
MOST_PULLS = 260
"""Of all agents together."""
LIES = ("worst", "uniform", "point:0", "bernoulli:0.5", "relay-worst", "relay-uniform")
EDGES = ("anywhere", "anywhere", "torn write", "before sync", "after sync", "before sending", "after sending")
"""Where an agent dies."""
LEFT = ("kept", "kept", "machine", "lost", "lost-seat")
"""What is left of its state then."""
DRIFT = 0.0005
"""How much faster or slower than the true time the clocks of honest agents go."""


_SHIELDED = 1 / 3
_SHARED = 0.3


class Chance:
    """Draws that are the same on every version of Python."""

    def __init__(self, seed: int, purpose: str = "world") -> None:
        self._random = random.Random(f"agentd check {purpose} {seed}").random

    def of(self, share: float) -> bool:
        return self._random() < share

    def between(self, low: float, high: float) -> float:
        """With five digits, so that a script can be read."""
        return float(f"{low + (high - low) * self._random():.5g}")

    def whole(self, low: int, high: int) -> int:
        return low + int((high - low + 1) * self._random())

    def pick(self, things: Sequence[Thing]) -> Thing:
        return things[int(len(things) * self._random())]

    def some(self, things: Sequence[Thing], number: int) -> list[Thing]:
        """So many different ones, in their order."""
        left = list(range(len(things)))
        chosen = [left.pop(int(len(left) * self._random())) for _ in range(min(number, len(left)))]
        return [things[place] for place in sorted(chosen)]


def draw(seed: int) -> World:
    """The world of a seed."""
    chance = Chance(seed)
    agents = chance.pick(SIZES)
    world = World(
        seed=seed,
        agents=agents,
        edges=_edges(chance, agents),
        algorithms=_algorithms(chance, agents),
        gamma=chance.pick((0, 1, 1, 2, 2, 2, 3, 3, 4)),
        rounds=chance.whole(12, max(14, min(60, MOST_PULLS // agents))),
        means=tuple(chance.some((0.1, 0.3, 0.5, 0.7, 0.9), chance.whole(2, 3))),
        epsilon=chance.pick((0.5, 1.0, 2.0, 4.0)),
        budget=chance.between(0.5, 6.0) if chance.of(0.2) else None,
        refresh=chance.whole(2, 12),
        clock="free" if chance.of(0.3) else "lockstep",
        timeout_s=chance.between(0.2, 1.0),
        interval_s=chance.between(0.01, 0.05),
        latency_s=chance.between(0.001, 0.006),
        jitter_s=chance.between(0.0, 0.03) if chance.of(0.3) else 0.0,
        work_s=chance.between(0.002, 0.02),
        sync_s=chance.between(0.0002, 0.003),
        window=chance.pick((4, 8, 16, 128, 128, 128)),
    )
    if chance.of(0.08):
        world = _with_detour(chance, world)
    elif chance.of(0.06):
        world = _with_latecomers(chance, world)
    return _in_hosts(_shielded(_with_people(chance, world)))


def _shielded(world: World) -> World:
    """The same, in every third world with shielded for sealed; of a chance of its own: all else stays as it was."""
    if random.Random(f"agentd check wall {world.seed}").random() > _SHIELDED:
        return world
    return replace(world, algorithms=tuple("shielded" if name == "sealed" else name for name in world.algorithms))


def _in_hosts(world: World) -> World:
    """The same, in some worlds with agents that share processes; of a chance of its own: all else stays as it was."""
    chance = Chance(world.seed, "hosts")
    if not chance.of(_SHARED):
        return world
    left = list(world.honest)
    hosts: list[tuple[int, ...]] = [(own,) for own, _ in world.hostile]
    most = chance.pick((2, 2, 3, 4, world.agents))
    while left:
        mates = chance.some(left, chance.whole(min(2, most), most))
        hosts.append(tuple(mates))
        left = [own for own in left if own not in mates]
    mates_of = {own: host for host in hosts for own in host}
    faults = tuple(
        replace(fault, agents=mates_of[fault.agents[0]]) if fault.kind == "stop" and chance.of(0.5) else fault
        for fault in world.faults
    )
    return replace(world, hosts=tuple(sorted(hosts)), faults=faults)


def _with_latecomers(chance: Chance, world: World) -> World:
    """The same where records overtake each other by more than anybody remembers."""
    overtaking = Fault("reordering", 0.0, 60.0, amount=chance.between(5, 12) * world.interval_s)
    return replace(
        world,
        algorithms=("sealed",) * world.agents,
        gamma=max(1, world.gamma),
        epsilon=4.0,
        refresh=2,
        window=4,
        clock="free",
        rounds=max(world.rounds, 24),
        faults=(overtaking,),
    )


def _with_detour(chance: Chance, world: World) -> World:
    """The same on free clocks: the direct line from 0 to 1 is slower than the way around, others are behind 1."""
    around = chance.whole(2, 3)
    ring = [*((a, a + 1) for a in range(2, around)), (0, 2), (1, around)]
    agents = around + 1 + chance.whole(1, 2)
    behind = [(1 if b == around + 1 else b - 1, b) for b in range(around + 1, agents)]
    slow = Fault("slow-line", 0.0, 60.0, (0, 1), chance.between(4, 9) * world.interval_s)
    return replace(
        world,
        agents=agents,
        edges=tuple(sorted([(0, 1), *ring, *behind])),
        algorithms=(world.algorithms[0],) * agents,
        gamma=around,
        clock="free",
        window=chance.pick((8, 128)),
        rounds=max(world.rounds, 24),
        faults=(slow,),
    )


def _edges(chance: Chance, agents: int) -> tuple[tuple[int, int], ...]:
    """A connected graph: a path, a ring, a star, everybody with everybody, or a tree with some shortcuts."""
    family = chance.pick(("path", "ring", "star", "complete", "tree", "tree", "tree"))
    every = [(a, b) for b in range(agents) for a in range(b)]
    if family == "complete" and agents <= 6:
        return tuple(every)
    if family == "path" or (family == "ring" and agents < 3):
        return tuple((a, a + 1) for a in range(agents - 1))
    if family == "ring":
        return (*((a, a + 1) for a in range(agents - 1)), (0, agents - 1))
    if family == "star":
        return tuple((0, b) for b in range(1, agents))
    tree = [(chance.whole(0, b - 1), b) for b in range(1, agents)]
    more = chance.some([edge for edge in every if edge not in tree], chance.whole(0, agents))
    return tuple(sorted(tree + more))


def _algorithms(chance: Chance, agents: int) -> tuple[str, ...]:
    usual = chance.pick(("sealed", "sealed", "private-ucb", "private-ucb", "coop-ucb", "byzantine-ucb"))
    if chance.of(0.85):
        return (usual,) * agents
    others = [name for name in ALGORITHMS if name != "shielded"]  # which `_shielded` adds
    return tuple(chance.pick((usual, *others)) for _ in range(agents))


def _with_people(chance: Chance, world: World) -> World:
    """Who keeps its state, who lies, who attacks; and what happens to them."""
    noised = [own for own, name in enumerate(world.algorithms) if ALGORITHMS[name].noised]
    states = tuple(own for own in noised if chance.of(0.85))
    budget = world.budget if noised else None
    if budget is not None:  # one that admits no release is refused at the start
        told = PolicySettings(arms=len(world.means), epsilon=world.epsilon)
        budget = max([budget, *(first_release(world.algorithms[own], told) or 0.0 for own in noised)])
    skews = tuple(chance.between(-DRIFT, DRIFT) for _ in range(world.agents)) if world.clock == "free" else ()
    hostile: tuple[tuple[int, str], ...] = ()
    if world.agents > 2 and not world.faults and chance.of(0.3):
        attacks = tuple(attack for attack in ATTACKS if attack != EQUIVOCATES)
        hostile = ((chance.whole(0, world.agents - 1), chance.pick(attacks)),)
    strangers = dict(hostile)
    honest = [own for own in range(world.agents) if own not in strangers]
    liars: tuple[tuple[int, str, float], ...] = ()
    if chance.of(0.2):
        who = chance.some(honest, chance.whole(1, max(1, len(honest) // 3)))
        liars = tuple((own, chance.pick(LIES), chance.pick((0.1, 0.5, 1.0))) for own in who)
    # Of a chance of its own: what else a seed draws stays as it was.
    forging = Chance(world.seed, "forging")
    liars = tuple(
        (own, forging.pick(FIXED), share) if forging.of(0.6) else (own, lie, share) for own, lie, share in liars
    )
    hostile = tuple((own, EQUIVOCATES if forging.of(0.1) else attack) for own, attack in hostile)
    world = replace(world, states=states, budget=budget, skews=skews, hostile=hostile, liars=liars)
    if world.faults or chance.of(0.12):
        return world
    number = chance.pick((1, 1, 2, 2, 3, 4, 6))
    faults = [_fault(chance, world, honest) for _ in range(number)]
    faults += [again for fault in faults if fault.kind == "slow" for again in _again(chance, fault, world)]
    return replace(world, faults=tuple(sorted(faults, key=lambda fault: (fault.at_s, fault.kind))))


def _round_s(world: World) -> float:
    lockstep_s = world.work_s + world.sync_s + 2 * world.latency_s + world.jitter_s
    return lockstep_s if world.clock == "lockstep" else max(lockstep_s, world.interval_s)


def _fault(chance: Chance, world: World, honest: Sequence[int]) -> Fault:  # noqa: PLR0911 - one kind after the other
    """One thing that happens, mostly in the first half of the run."""
    round_s = _round_s(world)
    at_s = chance.between(0.0, round_s * world.rounds * chance.pick((0.3, 0.6, 0.9)))
    short_s, long_s = chance.between(0, 8 * round_s), chance.between(0, 3 * world.timeout_s)
    for_s = chance.pick((short_s, long_s))
    kind = chance.pick(tuple(WEIGHTED))
    one = (chance.pick(honest),)
    if kind in ("loss", "duplication"):
        return Fault(kind, at_s, for_s, amount=chance.pick((0.05, 0.2, 0.5)))
    if kind == "reordering":
        return Fault(kind, at_s, for_s, amount=chance.between(0.0, 6 * round_s))
    if kind in ("cut", "stall"):
        side = tuple(chance.some(range(world.agents), chance.whole(1, max(1, world.agents // 2))))
        return Fault(kind, at_s, for_s, side, how=chance.pick(("", "", "one-way")))
    if kind == "slow":
        return Fault(kind, at_s, for_s, one, chance.between(0.0, 1.2 * world.timeout_s))
    if kind == "slow-line":
        line = chance.pick(world.edges)
        ends = line if chance.of(0.5) else (line[1], line[0])
        return Fault(kind, at_s / 4, round_s * world.rounds, ends, chance.between(0.0, 12 * round_s))
    if kind == "crash":
        steals = any(attack == STEALS for _, attack in world.hostile)
        left = chance.pick(LEFT[:-1] if steals else LEFT)  # a seat that is free is whoever's comes first
        return Fault(kind, at_s, for_s, one, how=f"{chance.pick(EDGES)}/{left}")
    if kind == "restore":
        keeps = [own for own in honest if own in world.states]
        who = (chance.pick(keeps),) if keeps else one
        return Fault(kind, at_s, for_s, who, amount=chance.pick((0, 1, 1, 1, 2, 3)))
    if kind == "slow-disk":
        return Fault(kind, at_s, for_s, one, chance.between(0.0, world.timeout_s))
    if kind == "environment":
        return Fault(kind, at_s, for_s, how=chance.pick(("at once", "before answering", "after saving")))
    if kind.startswith("environment"):
        return Fault(kind, at_s, for_s)
    return Fault(kind, at_s, for_s, one)  # pause, stop, full-disk


def _again(chance: Chance, fault: Fault, world: World) -> list[Fault]:
    """Somebody who was slow is so again, later and less."""
    later_s = fault.ends_s + chance.between(5, 25) * _round_s(world)
    return [replace(fault, at_s=later_s, for_s=fault.for_s / 2, amount=fault.amount / 4)] if chance.of(0.5) else []


WEIGHTED = (
    *("loss", "loss", "duplication", "reordering", "reordering", "cut", "cut", "stall", "slow", "slow", "pause"),
    *("slow-line", "slow-line", "slow-line"),
    *("crash", "crash", "crash", "crash", "restore", "restore", "stop", "slow-disk", "full-disk"),
    *("environment", "environment-pause", "environment-disk"),
)

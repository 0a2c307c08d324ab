"""Two inputs of one world, compared: the runs must be equal when the noise of the batch in question is shifted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from agentd.audit.coupling.one_life import live_through
from agentd.audit.coupling.paired_noise import Draw
from agentd.audit.coupling.walk import Walk
from agentd.audit.coupling.worlds import World
from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one world."""

    number: int
    holding: int
    """Releases that hold the reward in question, by their own account."""
    differs: str | None
    """The first observable that is another one though the noise of one release was shifted; None: nothing is."""
    differs_composed: str | None
    """The same where that of every release that holds the reward was."""
    shows: bool
    """Whether anything differs where no noise was shifted: whether this world could show a mistake at all."""
    repeats: bool
    """Whether the same world, run again, is the same: whether all chance is chance that was handed in."""
    lives: int
    observables: int


def compared(world: World) -> Outcome:
    """Both inputs of a world, with and without the shift."""
    base = live_through(Walk(world))
    disjoint = ALGORITHMS[world.algorithm].disjoint
    shifts = dict.fromkeys(base.holding, -base.difference)
    one = dict(list(shifts.items())[:1])
    differs = _difference(world, base, one) or _too_dear(base, one, world.epsilon if disjoint else math.inf)
    composed = differs
    if not disjoint:
        composed = (_difference(world, base, shifts) if len(shifts) > 1 else differs) or _too_dear(
            base, shifts, base.claimed
        )
    shows = _difference(world, base, {}) is not None if shifts else differs is not None
    repeats = differs is None or live_through(Walk(world)).observed.difference(base.observed) is None
    observables = len(base.observed.entries)
    return Outcome(world.number, len(base.holding), differs, composed, shows, repeats, base.lives, observables)


def _difference(world: World, base: Walk, shifts: dict[Draw, int]) -> str | None:
    """What the other input shows, with some noise shifted, that this one does not."""
    if not base.difference:
        return None  # the trial in question was never pulled
    walk = Walk(world, flipped=True, shifts=shifts)
    try:
        live_through(walk)
    except Exception as fault:  # of a policy that is not ours, perhaps: it is seen, too
        walk.ended(f"{type(fault).__name__}: {fault}")
    return walk.observed.difference(base.observed)


def _too_dear(base: Walk, shifts: dict[Draw, int], claimed: float) -> str | None:
    """Shifting noise by one reward costs one over its scale, in rewards: no more than what is claimed."""
    cost = sum(Fraction(UNIT, base.holding[draw]) for draw in shifts)
    if cost <= claimed:
        return None
    scales = ", ".join(f"{base.holding[draw] / UNIT:.4g}" for draw in shifts)
    return f"noise of scale {scales} hides the reward: ε = {float(cost):.4g}, and {claimed:.4g} is claimed"

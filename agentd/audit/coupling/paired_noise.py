"""Noise that both runs of a pair share, but for one batch: each value follows from what it is drawn for.

What it is drawn for is a life, an arm and how many draws that life made for the arm before. So it does not matter when
within a trial a policy draws, nor in which order the arms come; and what a life drew for a release that it did not live
to commit, no other life ever draws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from agentd.audit.coupling.worlds import World
from agentd.core.privacy.laplace import sampled


class Draw(NamedTuple):
    """What a value is drawn for."""

    life: int
    arm: int
    number: int


class PairedNoise:
    """The noise of one life; discrete Laplace of the scale that is asked for."""

    def __init__(self, world: World, life: int, shifts: Mapping[Draw, int]) -> None:
        self._world = world
        self._life = life
        self._shifts = shifts
        self._drawn: Counter[int] = Counter()
        self._scales: dict[Draw, int] = {}

    def draw(self, arm: int, scale: int) -> int:
        """The value of the arm's next draw in this life, shifted where the reward behind it is another one."""
        draw = Draw(self._life, arm, self._drawn[arm])
        self._drawn[arm] += 1
        self._scales[draw] = scale
        value = sampled(self._world.chance(f"noise/{'/'.join(map(str, draw))}").randrange, scale)
        return value + self._shifts.get(draw, 0)

    def latest(self, arm: int) -> tuple[Draw, int] | None:
        """What this life drew for an arm last, and with which scale: it is what its latest release was noised with."""
        draw = Draw(self._life, arm, self._drawn[arm] - 1)
        return (draw, self._scales[draw]) if draw in self._scales else None

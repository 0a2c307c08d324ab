"""What a run may release of one arm, known before its first reward: the numbers that (ε, δ) values are given for.

A sum of pure ε holds along every path: whatever was released so far, no transcript is more than e^Σε times likelier
with one reward than with another, also where decisions, and with them the number of releases, follow from releases.
The (ε, δ) values of advanced and of tight composition do not: they average over the noise of a number of releases that
is fixed beforehand, and a number that was itself decided by that noise breaks them. So they are given for the schedule:
an arm that is pulled in every round up to the horizon, with all the releases that its algorithm, and its budget, allow.
Fewer releases than these are the same mechanism with less of it shown.

Where no horizon was fixed there is no such number, and none is made up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from agentd.core.privacy.ledger import Ledger, Release

LONGEST = 1_000_000
"""Pulls up to which a schedule is worked out: a second or two. Beyond, no (ε, δ) is told."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The releases of an arm that is pulled in every round."""

    pulls: int
    scales: tuple[int, ...]
    """Of the noise of each release that the budget admits, in grid steps."""
    epsilon: float
    """Pure, of one reward that is in all of them, or where batches are disjoint in one of them."""
    disjoint: bool

    @property
    def releases(self) -> int:
        return len(self.scales)

    def ledger(self) -> Ledger:
        """What would be spent."""
        spent = Ledger(disjoint=self.disjoint)
        for number, scale in enumerate(self.scales, start=1):
            spent.take_back(Release(0, number, number, scale))
        return spent

    def at(self, delta: float) -> float:
        """The ε that holds but for probability δ, by advanced composition."""
        return _at(self, delta)


@lru_cache(maxsize=64)
def _at(schedule: Schedule, delta: float) -> float:
    """Worked out once: all agents of a run ask for the same, and it takes as long as the run has rounds."""
    return schedule.ledger().epsilon_one_reward(delta)


def scheduled(
    pulls: int,
    scales: Iterable[int],
    *,
    disjoint: bool = False,
    budget: float | None = None,
) -> Schedule:
    """The schedule of so many pulls."""
    spent, made = Ledger(disjoint=disjoint, budget=budget), list[int]()
    for number, scale in enumerate(scales, start=1):
        release = Release(0, number, number, scale)
        if spent.admits(release):
            spent.record(release)
            made.append(scale)
    return Schedule(pulls, tuple(made), spent.epsilon_one_reward(), disjoint)

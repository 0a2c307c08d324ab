"""In which round a run is, as far as the environment can tell: pure, from what agents pulled and reported.

An agent is in the round that its last report said, plus what it has pulled since; it is at least in the round of its
last trial. The run is in the largest round that a quarter of the agents have reached, and two of them where there are
two. So fewer than a quarter cannot push it forward, whatever they report and however fast they pull; and those who
wait, or come back, do not hold it back as long as a quarter goes on.

Who is done is past all rounds, and who was not heard of for long may be gone: neither counts. How long that is depends
on how often the agent reports, or where rounds are slow the honest would not count, and liars who ask all the time
would stand alone. One alone pushes nobody even then, because whoever is told something has just asked itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

SEEN_WITHIN_S = 10.0
PAUSES = 3
"""An agent whose last two reports were further apart than usual counts for so many times as long."""
SEEN_WITHIN_AT_MOST_S = 300.0
LOOK_EVERY_S = 0.05
"""How often the agents are looked at, at most; between that what was found is told again."""


class Traveller(Protocol):
    """What is looked at of an agent."""

    seen_s: float | None
    """When it last asked for anything."""
    pause_s: float
    """Between its last two reports."""

    @property
    def reached(self) -> int:
        """The round that it is in, as far as it said."""
        ...

    @property
    def done(self) -> bool:
        """Whether it said that it has finished."""
        ...


class RunRound:
    """Tells agents in which round the run is."""

    def __init__(self, last: int) -> None:
        self._last = last
        """No round is beyond it."""
        self._round = 0
        self._counted = 0
        self._looked_s = -math.inf

    def told_to(self, agent: Traveller, everybody: Iterable[Traveller], now_s: float) -> int:
        """What an agent is told that has just asked; 0: nobody has pulled yet."""
        if not 0 <= now_s - self._looked_s < LOOK_EVERY_S:
            self._looked_s = now_s
            reached = [each.reached for each in everybody if counts(each, now_s)]
            self._round, self._counted = round_of(reached), len(reached)
        # Whoever was found alone tells the others nothing: it may be the one that is not to be believed.
        return min(self._round if self._counted > 1 else agent.reached, self._last)


def counts(agent: Traveller, now_s: float) -> bool:
    """Whether an agent is there, and still on its way."""
    if agent.seen_s is None or agent.done:
        return False
    silent_s = now_s - agent.seen_s
    return silent_s <= SEEN_WITHIN_S or silent_s <= min(PAUSES * agent.pause_s, SEEN_WITHIN_AT_MOST_S)


def round_of(reached: list[int]) -> int:
    """The largest round that a quarter of the agents have reached, and two of them where there are two."""
    if not reached:
        return 0
    needed = min(len(reached), max(2, -(-len(reached) // 4)))
    return sorted(reached)[-needed]

"""How long rounds wait for a neighbour that is often late: a budget in seconds, spent by coming late.

Within one round everybody has its time; but who used all of it in every round would make everybody as slow. So what
counts is how much later than the others a neighbour comes, over many rounds.

**Late** is a neighbour from when half of those waited for were there, or from the start of the wait where it is the
only one. To be late by one *natural round* is nothing: that is how long our own work and the wait for that half take,
which one neighbour cannot stretch. What is beyond is taken from its budget, which is full at one and a half times the
time that a round may take. A round in which nothing is taken gives a fifth of a natural round back. When it is used
up, rounds go on without the neighbour at once. So one neighbour makes rounds take twice as long, in the long run, and
no longer.

**Looking closely costs.** To know when each frame came one has to be woken for each, so arrivals are seen exactly in
the first rounds, now and then, when a round takes longer than the slice for which the agent blocks, and for a while
after rounds took more than twice their natural time for so long that it adds up. Otherwise a round costs a few
comparisons here. Rounds that take no more than that are half as fast at worst.

Time in which we ourselves did not run (`forgive`) is nobody's lateness.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

BUDGET_TIMEOUTS = 1.5
"""A full budget, in round timeouts: as much as one who is held up may take once."""
REFILL = 0.2
"""What a timely round gives back, in natural rounds."""
FIRST_LOOKS = 16
LOOK_EVERY = 64
LOOKS_AFTER_DELAY = 128
"""How many rounds are looked at closely at the start, every how many one is, and how many after a delay."""
DELAY_ROUNDS = 16
DELAY_S = 0.1
"""How much beyond twice their natural time rounds may have taken before: so many natural rounds, or so long."""
MOST_CALM = 64
"""By how much more this may be where looking found nobody worth a mention: then it is the machine that is slow."""
_AVERAGE = 0.125
"""The weight of the newest natural round."""
_MOST_GROWTH = 4.0
"""Our own work may take long, once: an environment that is silent is no reason to be patient with everybody."""


class Lateness:
    """What is left to each neighbour, and how long a round takes by nature."""

    def __init__(self) -> None:
        self.natural_s = 0.0
        """0: not known yet."""
        self.least_s = 0.0
        """What it is at least, by who knows what else keeps us: others that share a process with us."""
        self.looks = False
        """Whether arrivals are to be seen exactly in this round."""
        self.began_s = math.nan
        self.timeout_s = 0.0
        self._full_s = math.inf
        self._left: dict[int, tuple[float, int]] = {}
        """Of those whose budget is not full: what was left, and the number of timely rounds by then."""
        self._timely = 0
        self._turn = self._samples = 0
        self._look_until = FIRST_LOOKS
        self._delay_s = 0.0
        self._calm, self._found_late = 1, True
        self._half_s: float | None = None
        """How long it took until half were there, in the last round that was looked at."""
        self._ended_s = 0.0

    def begin(self, now_s: float, timeout_s: float) -> None:
        """A round begins to wait."""
        if timeout_s != self.timeout_s:
            self.timeout_s, self._full_s = timeout_s, BUDGET_TIMEOUTS * timeout_s
        if self._half_s is not None:
            self._learn(self._half_s + now_s - self._ended_s)
            self._half_s = None
        self._turn += 1
        if self._turn == self._look_until + 1 and not self._found_late:
            self._calm = min(2 * self._calm, MOST_CALM)
        if not self.looks and self.natural_s:
            self._add_up(now_s - self.began_s)
        self.began_s = now_s
        self.looks = timeout_s > 0 and (
            self._turn <= self._look_until or not self._turn % LOOK_EVERY or (bool(self._left) and self._is_wary())
        )

    def _is_wary(self) -> bool:
        """Whether somebody's budget is so low that rounds must not block for it."""
        return any(self.left_s(neighbour) < self._full_s / 2 for neighbour in self._left)

    def takes_long(self, now_s: float) -> bool:
        """Whether the present round lasts longer than it does by nature; on a machine full of agents that is long.

        While that is not known, rounds are looked at anyway.
        """
        return self.natural_s > 0 and now_s - self.began_s > 2 * self.natural_s

    def look_closely(self) -> None:
        """This round takes long: see who comes when, in this one and for a while."""
        self.looks = True
        if self._turn > self._look_until:
            self._found_late = False
        rounds = 2 * self._delay_s / self.natural_s if self.natural_s else 0.0
        self._look_until = self._turn + max(LOOKS_AFTER_DELAY, math.ceil(rounds))
        self._delay_s = 0.0

    def _add_up(self, took_s: float) -> None:
        """Take in how long a round took that nobody looked at; that includes our work before it."""
        natural_s = self.natural_s
        if took_s <= 1.25 * natural_s:
            self._timely += 1
        self._delay_s = max(0.0, self._delay_s + took_s - 2 * natural_s)
        if self._delay_s > self._calm * max(DELAY_ROUNDS * natural_s, DELAY_S):
            self.look_closely()

    def _learn(self, natural_s: float) -> None:
        self._samples += 1
        if self._samples == 1:
            self.natural_s = natural_s
        elif self._samples < FIRST_LOOKS // 2:  # a start is slow: imports, and everybody's first work
            self.natural_s = min(self.natural_s, natural_s)
        else:
            self.natural_s += _AVERAGE * (min(natural_s, _MOST_GROWTH * self.natural_s) - self.natural_s)
        self.natural_s = max(self.natural_s, self.least_s)

    def left_s(self, neighbour: int) -> float:
        """What is left of a neighbour's budget."""
        spent = self._left.get(neighbour)
        if spent is None:
            return self._full_s
        left_s, timely = spent
        return min(self._full_s, left_s + (self._timely - timely) * REFILL * self.natural_s)

    def half_s(self, came_s: Iterable[float], expected: int) -> float | None:
        """When half of those expected were there, of whom these have come; None: not yet."""
        there = sorted([self.began_s, *came_s])
        half = (expected + 1) // 2 if expected > 1 else 0  # one who is early alone must not make the others late
        return max(self.began_s, there[half]) if len(there) > half else None

    def gives_up_s(self, neighbour: int, half_s: float | None) -> float:
        """When the patience with a neighbour that is not there yet ends."""
        if half_s is None or not self.natural_s:
            return math.inf
        return half_s + self.natural_s + self.left_s(neighbour)

    def end(self, came_s: dict[int, float], half_s: float | None, now_s: float) -> None:
        """A round that was looked at is over: when each one that it waited for came, or was given up."""
        self._timely += 1
        self._half_s, self._ended_s = (None if half_s is None else half_s - self.began_s), now_s
        if half_s is None or not self.natural_s:
            return
        for neighbour, when_s in came_s.items():
            charge_s = when_s - half_s - self.natural_s
            if charge_s > 0:
                left_s = max(0.0, self.left_s(neighbour) - charge_s)
                self._left[neighbour] = left_s, self._timely
                if left_s < self._full_s / 2:
                    self._calm, self._found_late = 1, True
            elif neighbour in self._left and self.left_s(neighbour) >= self._full_s:
                del self._left[neighbour]

    def forgive(self, seconds: float) -> None:
        """So long we ourselves did not run; whoever came in between is no later for that."""
        self.began_s += seconds

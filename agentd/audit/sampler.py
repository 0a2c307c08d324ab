"""An exact test of the noise: every way the sampler's coins can fall, and every draw of the source that uses it.

Statistics need about e^ε runs to see a wrong sampler, and where ε is large or the mistake small there are never enough.
Two things can be known exactly instead:

- **The algorithm.** `sampled` asks for uniform numbers below a limit. Here it gets numbers that are not decided yet: a
  comparison takes both ways, each with its fraction, and the first number takes every value that is asked about. So the
  chance to come to x at the first try is known to 10⁻¹², and must be (1 − 1/e)/(2·scale)·exp(−|x|/scale) for every x,
  whatever its sign; trying again changes none of the ratios. Whole scales are followed up to the second: each further
  one is the same coin thrown again.
- **The source.** With the same random bytes, a source of noise must draw what the sampler draws from them, whatever arm
  and scale it is asked for, and however often.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

from agentd.core.grid import UNIT
from agentd.core.privacy.laplace import ExactLaplace, Noise, sampled

Below = Callable[[int], Any]
Sampler = Callable[[Below, int], int]
MakeSource = Callable[[Callable[[int], bytes]], Noise]

_SMALLEST = Fraction(1, 10**16)
"""Weight of a way, as a share of its first number's, below which it is not followed."""
_DIGITS = 60
_TURNS = 2
"""Whole scales that are followed."""
SCALES = (2, 3)
"""Small ones, of which every first number is tried."""
ASKED = 400
"""Draws of a source that are compared."""


class _TriesAgain(Exception):
    """The sampler begins anew, as if nothing had been."""


class _TooRare(Exception):
    """The weight of this way is not worth following it."""


class _Beyond(Exception):
    """So many whole scales are not followed."""


class _Way:
    """One way through the sampler: what was decided so far, and how likely that was."""

    def __init__(self, decided: list[bool], first: int, limit: int) -> None:
        self.decided = decided
        self._first = first
        self._limit = limit
        self._begun = False
        self._asked = self._runs = 0
        self._place = 0
        self.weight = Fraction(1)
        self.forks: list[list[bool]] = []
        """The ways that were left aside on this one."""

    def below(self, limit: int) -> _Undecided:
        """A number; limits grow within a run of coins, so one that does not begins the next: of a further scale."""
        self._runs += limit <= self._asked
        self._asked = limit
        if self._runs > 1 + _TURNS:
            raise _Beyond
        return _Undecided(self, limit)

    def begin(self, limit: int) -> int:
        """The first number."""
        if self._begun:
            raise _TriesAgain
        if limit != self._limit:
            raise ValueError(f"the sampler asks for a number below {limit} where one below {self._limit} is due")
        self._begun = True
        return self._first

    def decide(self, chance: Fraction) -> bool:
        """Whether something is so that has this chance."""
        if self._place < len(self.decided):
            so = self.decided[self._place]
        else:
            so = chance > 0
            self.decided.append(so)
            if 0 < chance < 1:
                self.forks.append([*self.decided[:-1], False])
        self._place += 1
        self.weight *= chance if so else 1 - chance
        if self.weight < _SMALLEST:
            raise _TooRare
        return so


class _Undecided:
    """A uniform number below a limit, as long as nobody needs to know which."""

    def __init__(self, way: _Way, limit: int) -> None:
        self._way = way
        self._limit = limit

    def __lt__(self, bound: int) -> bool:
        return self._way.decide(min(max(Fraction(bound, self._limit), Fraction(0)), Fraction(1)))

    def __divmod__(self, divisor: int) -> tuple[int, int]:
        return divmod(self._way.begin(self._limit), divisor)


class Ways(NamedTuple):
    """Where the ways of a sampler lead at its first try."""

    numbers: dict[int, Fraction]
    """How likely it comes to each."""
    beyond: Fraction
    """How likely it comes to more whole scales than are followed."""
    rare: Fraction
    """The weight of ways that were not followed: an error at most so large."""


def ways_of(sampler: Sampler, scale: int, first: int) -> Ways:
    """All ways of a sampler, if its first uniform number is this one."""
    found: dict[int, Fraction] = {}
    beyond = rare = Fraction(0)
    todo: list[list[bool]] = [[]]
    while todo:
        way = _Way(todo.pop(), first, 2 * scale)
        try:
            number = sampler(way.below, scale)
            found[number] = found.get(number, Fraction(0)) + way.weight
        except _TooRare:
            rare += way.weight
        except _Beyond:
            beyond += way.weight
        except _TriesAgain:
            pass
        todo += way.forks
    return Ways(found, beyond, rare)


def sampler_faults(sampler: Sampler = sampled, scales: Iterable[int] = SCALES) -> list[str]:
    """What is wrong with the probabilities of a sampler: of small scales all, of the grid's own scale some."""
    faults = [fault for scale in scales for first in range(2 * scale) for fault in _faults(sampler, scale, first)]
    some = random.Random(1)
    ends = [0, 1, 2, 3, UNIT, UNIT + 1, 2 * UNIT - 2, 2 * UNIT - 1]
    for first in (*ends, *(some.randrange(2 * UNIT) for _ in range(4))):
        faults += _faults(sampler, UNIT, first)
    return faults


def _faults(sampler: Sampler, scale: int, first: int) -> list[str]:
    ways = ways_of(sampler, scale, first)
    remainder, negative = divmod(first, 2)
    with localcontext() as context:
        context.prec = _DIGITS
        slack = _decimal(ways.rare) + Decimal(10) ** -40
        accepted = (-Decimal(remainder) / scale).exp()
        due: dict[int | str, Decimal] = {"more than that": accepted * Decimal(-_TURNS).exp()}
        for turn in range(_TURNS):
            magnitude = remainder + scale * turn
            if magnitude or not negative:  # zero has one sign only
                share = (1 - Decimal(-1).exp()) * Decimal(-turn).exp()
                due[-magnitude if negative else magnitude] = accepted * share
        got: dict[int | str, Fraction] = {"more than that": ways.beyond}
        got |= dict(ways.numbers.items())
        return [
            f"scale {scale}, first number {first}: {number} comes with {float(is_):.9g}, not {float(should):.9g}"
            for number in {**due, **got}
            if abs((is_ := _decimal(got.get(number, Fraction(0)))) - (should := due.get(number, Decimal(0)))) > slack
        ]


def _decimal(fraction: Fraction) -> Decimal:
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)


def source_faults(make: MakeSource, seed: int = 0, asked: int = ASKED) -> list[str]:
    """What is wrong with the draws of a source that is given these bytes; the first one only: the rest follows."""
    bytes_of_one, bytes_of_other = random.Random(seed), random.Random(seed)
    source, exact = make(bytes_of_one.randbytes), ExactLaplace(bytes_of_other.randbytes)
    chance = random.Random(f"{seed}/asked")
    for number in range(1, asked + 1):
        arm, scale = chance.randrange(4), math.ceil(UNIT * math.exp(chance.uniform(-2, 3)))
        drawn, due = source.draw(arm, scale), exact.draw(arm, scale)
        if drawn != due:
            return [f"draw {number}, of arm {arm} with scale {scale}: {drawn} where the same bytes make {due}"]
    return []

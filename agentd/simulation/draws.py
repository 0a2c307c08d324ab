"""Blocks of keyed draws for many agents at once: the same numbers the agents draw one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentd.core.chance import Purpose, Rekeyed, stream

Floats = NDArray[np.float64]

_FIRST = 32  # variates that every noise stream starts with
_BLOCK = 512  # variates that a noise stream is given at once after that
_TRIALS = 520  # drawn at once: a multiple of the four words that Philox makes per counter step, and no power of two,
# or a trial of many streams would be read from few lines of the cache
_DRAWN = 1 << 23  # uniforms held at once, 64 MB: where streams are many, fewer trials are drawn at once
_LEAST_BLOCK = 64


class UniformsPerTrial:
    """For each of many streams, `per_trial` uniforms per trial, handed out a trial at a time."""

    def __init__(self, keys: Sequence[tuple[int, int]], purpose: Purpose, per_trial: int = 1) -> None:
        self._keys = keys
        self._purpose = purpose
        self._per_trial = per_trial
        self._rekeyed = Rekeyed()
        self._block = min(_TRIALS, max(_LEAST_BLOCK, _DRAWN // max(1, len(keys) * per_trial) // 4 * 4))
        self._drawn = np.empty((len(keys), self._block * per_trial))
        # Read across the streams where they were drawn: neighbouring trials share cache lines, a transposed copy none.
        self._by_trial = self._drawn.reshape(len(keys), self._block, per_trial).transpose(1, 2, 0)

    def at(self, trial: int) -> Floats:
        """The uniforms of a trial, shape (per_trial, streams); trials must be asked for in order from 1."""
        block, place = divmod(trial - 1, self._block)
        if place == 0:
            self._refill(block)
        row: Floats = self._by_trial[place]
        return row

    def _refill(self, block: int) -> None:
        skip = block * self._block * self._per_trial // 4
        for row, (seed, agent) in enumerate(self._keys):
            self._rekeyed.at(seed, self._purpose, agent, skip=skip).random(out=self._drawn[row])


class UnitNoise:
    """For each of many (agent, arm) streams, pairs of standard exponentials, handed out pair by pair.

    ⌊scale·e₁⌋ − ⌊scale·e₂⌋ is the seeded discrete Laplace draw; multiplying and rounding is the caller's. Most streams
    are hardly used (arms that nobody pulls for long) and many never, so a stream has no room before it is asked, then a
    short block that is drawn without opening it, and a long one after that.
    """

    def __init__(self, keys: Sequence[tuple[int, int, int]]) -> None:
        self._keys = keys
        self._flat = np.empty(_BLOCK)
        self._used = 0
        self._next = np.zeros(len(keys), dtype=np.int64)
        self._end = np.zeros(len(keys), dtype=np.int64)
        self._opened: dict[int, tuple[np.random.Generator, int]] = {}
        self._rekeyed = Rekeyed()

    def take(self, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """The next pair of each of these (distinct) streams."""
        place = self._next[rows]
        if (spent := place == self._end[rows]).any():
            self._refill(rows[spent])
            place = self._next[rows]
        self._next[rows] = place + 2
        return self._flat[place], self._flat[place + 1]

    def _refill(self, rows: NDArray[np.int64]) -> None:
        self._begin(rows[self._end[rows] == 0])
        for row in rows[self._next[rows] == self._end[rows]].tolist():
            if row not in self._opened:
                seed, agent, arm = self._keys[row]
                generator = stream(seed, Purpose.NOISE, agent, arm)
                generator.standard_exponential(_FIRST)
                self._opened[row] = generator, self._room(_BLOCK)
            generator, start = self._opened[row]
            generator.standard_exponential(out=self._flat[start : start + _BLOCK])
            self._next[row], self._end[row] = start, start + _BLOCK

    def _begin(self, rows: NDArray[np.int64]) -> None:
        """Draw the first block of streams that were never asked."""
        start = self._room(_FIRST * len(rows))
        first = self._flat[start : start + _FIRST * len(rows)].reshape(len(rows), _FIRST)
        for place, row in enumerate(rows.tolist()):
            seed, agent, arm = self._keys[row]
            self._rekeyed.at(seed, Purpose.NOISE, agent, arm).standard_exponential(out=first[place])
        self._next[rows] = start + _FIRST * np.arange(len(rows))
        self._end[rows] = self._next[rows] + _FIRST

    def _room(self, size: int) -> int:
        """Where there is room for so many exponentials more."""
        start, self._used = self._used, self._used + size
        if self._used > len(self._flat):
            grown = np.empty(max(self._used, 2 * len(self._flat)))
            grown[:start] = self._flat[:start]
            self._flat = grown
        return start

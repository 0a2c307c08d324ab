"""Blocks of keyed draws for many agents at once: the same numbers the agents draw one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentd.core.chance import Purpose, Rekeyed, stream

Floats = NDArray[np.float64]

_FIRST = 32  # variates that every noise stream starts with
_BLOCK = 512  # trials drawn at once; a multiple of the four words that Philox makes per counter step


class UniformsPerTrial:
    """For each of many streams, `per_trial` uniforms per trial, handed out a trial at a time."""

    def __init__(self, keys: Sequence[tuple[int, int]], purpose: Purpose, per_trial: int = 1) -> None:
        self._keys = keys
        self._purpose = purpose
        self._per_trial = per_trial
        self._rekeyed = Rekeyed()
        self._drawn = np.empty((len(keys), _BLOCK * per_trial))
        # Read across the streams where they were drawn: neighbouring trials share cache lines, a transposed copy none.
        self._by_trial = self._drawn.reshape(len(keys), _BLOCK, per_trial).transpose(1, 2, 0)

    def at(self, trial: int) -> Floats:
        """The uniforms of a trial, shape (per_trial, streams); trials must be asked for in order from 1."""
        block, place = divmod(trial - 1, _BLOCK)
        if place == 0:
            self._refill(block)
        row: Floats = self._by_trial[place]
        return row

    def _refill(self, block: int) -> None:
        skip = block * _BLOCK * self._per_trial // 4
        for row, (seed, agent) in enumerate(self._keys):
            self._rekeyed.at(seed, self._purpose, agent, skip=skip).random(out=self._drawn[row])


class UnitNoise:
    """For each of many (agent, arm) streams, pairs of standard exponentials, handed out pair by pair.

    ⌊scale·e₁⌋ − ⌊scale·e₂⌋ is the seeded discrete Laplace draw; multiplying and rounding is the caller's. Most streams
    are hardly used (arms that nobody pulls for long), so the first block of each is short and drawn without opening it.
    """

    def __init__(self, keys: Sequence[tuple[int, int, int]]) -> None:
        self._keys = keys
        self._drawn = np.empty((len(keys), _BLOCK))
        self._flat = self._drawn.ravel()
        self._next = np.arange(1, len(keys) + 1, dtype=np.int64) * _BLOCK - _FIRST
        self._opened: dict[int, np.random.Generator] = {}
        rekeyed = Rekeyed()
        for row, (seed, agent, arm) in enumerate(keys):
            rekeyed.at(seed, Purpose.NOISE, agent, arm).standard_exponential(out=self._drawn[row, -_FIRST:])

    def take(self, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """The next pair of each of these (distinct) streams."""
        place = self._next[rows]
        first, second = self._flat[place], self._flat[place + 1]
        place += 2
        self._next[rows] = place
        if (spent := place % _BLOCK == 0).any():
            self._refill(rows[spent].tolist())
        return first, second

    def _refill(self, rows: list[int]) -> None:
        for row in rows:
            if row not in self._opened:
                seed, agent, arm = self._keys[row]
                self._opened[row] = stream(seed, Purpose.NOISE, agent, arm)
                self._opened[row].standard_exponential(_FIRST)
            self._opened[row].standard_exponential(out=self._drawn[row])
            self._next[row] = row * _BLOCK

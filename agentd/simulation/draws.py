"""Blocks of keyed draws for many agents at once: the same numbers the agents draw one by one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.core.chance import Purpose, Rekeyed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_BLOCKS = 16, 136, 1032  # draws that a noise stream is given at once, more each time; no powers of two, as below
_DRAWN_BEFORE = 0, 16, 152
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


class LaplaceNoise:
    """For each of many (agent, arm) streams, its seeded discrete Laplace draws, handed out one by one.

    A draw is ⌊scale·e₁⌋ − ⌊scale·e₂⌋ with two standard exponentials; which scale the n-th draw of a stream has is known
    beforehand. Most streams are hardly used (arms that nobody pulls for long) and many never, so a stream has no room
    before it is asked, then a short block, and long ones after that.
    """

    def __init__(self, keys: Sequence[tuple[int, int, int]], scales: Floats) -> None:
        self._keys = keys
        self._scales = scales
        self._flat = np.empty(_BLOCKS[-1], dtype=np.int64)
        self._used = 0
        self._next, self._end, self._drawn = np.zeros((3, len(keys)), dtype=np.int64)
        self._places: dict[int, Any] = {}
        self._rekeyed = Rekeyed()

    def take(self, rows: Ints) -> Ints:
        """The next draw of each of these (distinct) streams."""
        place = self._next[rows]
        spent = place == self._end[rows]
        if np.count_nonzero(spent):
            self._refill(rows[spent])
            place = self._next[rows]
        self._next[rows] = place + 1
        return self._flat[place]

    def taken(self) -> Ints:
        """How many draws each stream has handed out."""
        return self._drawn - (self._end - self._next)

    def _refill(self, rows: Ints) -> None:
        drawn = self._drawn[rows]
        for before in np.unique(drawn).tolist():
            self._draw_block(rows[drawn == before], before)

    def _draw_block(self, rows: Ints, before: int) -> None:
        """The next block of streams of which so many draws were made before."""
        room = min(_BLOCKS[bisect_left(_DRAWN_BEFORE, before, hi=len(_BLOCKS) - 1)], len(self._scales) - before)
        exponentials = np.empty((len(rows), 2 * room))
        for place, row in enumerate(rows.tolist()):
            self._stream(row, before).standard_exponential(out=exponentials[place])
            if before >= _DRAWN_BEFORE[-1]:
                self._places[row] = self._rekeyed.place()
        start = self._room(room * len(rows))
        drawn = laplace(exponentials, self._scales[before : before + room])
        self._flat[start : start + drawn.size] = drawn.ravel()
        self._next[rows] = start + room * np.arange(len(rows))
        self._end[rows] = self._next[rows] + room
        self._drawn[rows] = before + room

    def _stream(self, row: int, before: int) -> np.random.Generator:
        """A stream where it was left; as long as little was drawn, drawing that again is the shortest way there."""
        if row in self._places:
            return self._rekeyed.back_at(self._places[row])
        seed, agent, arm = self._keys[row]
        generator = self._rekeyed.at(seed, Purpose.NOISE, agent, arm)
        if before:
            generator.standard_exponential(2 * before)
        return generator

    def _room(self, size: int) -> int:
        """Where there is room for so many draws more."""
        start, self._used = self._used, self._used + size
        if self._used > len(self._flat):
            grown = np.empty(max(self._used, 2 * len(self._flat)), dtype=np.int64)
            grown[:start] = self._flat[:start]
            self._flat = grown
        return start


def laplace(exponentials: Floats, scales: Floats) -> Ints:
    """Discrete Laplace draws from pairs of exponentials that follow each other, one for each scale."""
    first, second = np.floor(scales * exponentials[..., ::2]), np.floor(scales * exponentials[..., 1::2])
    first -= second
    return first.astype(np.int64)

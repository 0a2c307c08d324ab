"""Keyed, counter-based random streams for reproducible runs.

One stream per seed, purpose, agent and (for noise) arm: changing what one purpose draws leaves every other stream
as it was, and a stream's n-th draw does not depend on who asks when. Philox carries the identity of the stream in
the upper words of its counter, so no two streams of one seed ever overlap.

Nothing here is private: whoever knows the seed knows every draw. A running agent without `--seed` never comes here.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

SEED_LIMIT = 1 << 64
"""Seeds are integers in [0, SEED_LIMIT)."""

_WORD = (1 << 64) - 1


class Purpose(IntEnum):
    """What a stream is for; append only, or recorded runs change."""

    REWARD = 1
    NOISE = 2
    COIN = 3
    LIE = 4
    TOPOLOGY = 5
    ARMS = 6
    FAULT = 7
    RELAY_LIE = 8


def stream(seed: int, purpose: Purpose, agent: int = 0, arm: int = 0, *, skip: int = 0) -> np.random.Generator:
    """Open the stream of (seed, purpose, agent, arm), `skip` blocks of four 64-bit words into it."""
    if not 0 <= seed < SEED_LIMIT:
        raise ValueError(f"seed must be in [0, 2**64), got {seed}")
    counter = np.array([skip, arm, agent, int(purpose)], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=np.array([seed & _WORD, 0], dtype=np.uint64), counter=counter))


class Rekeyed:
    """One generator that is moved from stream to stream, for who reads thousands of them in blocks.

    Moving costs an eighth of opening a stream anew. What `at` and `back_at` return is valid until either is called.
    """

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=np.zeros(2, dtype=np.uint64))
        self._generator = np.random.Generator(self._bits)
        self._state: Any = self._bits.state  # as of a fresh Philox: nothing buffered
        # Its arrays as views: single numbers are put there in a third of the time.
        self._key: memoryview = self._state["state"]["key"].data
        self._counter: memoryview = self._state["state"]["counter"].data

    def at(self, seed: int, purpose: Purpose, agent: int = 0, arm: int = 0, *, skip: int = 0) -> np.random.Generator:
        """The stream that `stream` opens with the same arguments."""
        counter = self._counter
        self._key[0] = seed
        counter[0], counter[1], counter[2], counter[3] = skip, arm, agent, purpose
        self._bits.state = self._state
        return self._generator

    def place(self) -> Any:
        """Where the stream was left that is being read, for `back_at`."""
        return self._bits.state

    def back_at(self, place: Any) -> np.random.Generator:
        """The stream that was left there, to be read on."""
        self._bits.state = place
        return self._generator

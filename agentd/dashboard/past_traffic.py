"""What a run had sent, dropped and spent at the moments of its story, who was sending, and who was distrusted.

A history has about a look a second, a story has more moments than that: between two looks everything is spread evenly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.runs.history.look_back import LookBack

Values = NDArray[np.float64]


class Traffic:
    """The figures of each of some rounds; nothing where the run left no history."""

    def __init__(self, history: Sequence[LookBack], rounds: Sequence[int]) -> None:
        self._figures: dict[str, Values] = {}
        self._sent: NDArray[np.bool_] | None = None
        self._distrusted: list[frozenset[int]] = [frozenset()] * len(rounds)
        if not history or not rounds:
            return
        known, wanted = np.array([look.round for look in history]), np.array(rounds)
        told: dict[str, Sequence[float | None]] = {
            "messages": [look.messages for look in history],
            "bytes": [look.bytes for look in history],
            "dropped": [sum(look.dropped.values()) for look in history],
            "epsilon": [look.epsilon for look in history],
        }
        for name, values in told.items():
            numbers = np.array([math.nan if value is None else float(value) for value in values])
            if np.isfinite(numbers).any():
                self._figures[name] = np.interp(wanted, known[np.isfinite(numbers)], numbers[np.isfinite(numbers)])
        self._sent = _growth(history, wanted)
        places = np.searchsorted(known, wanted, side="right") - 1
        self._distrusted = [frozenset(history[each].distrusted if each >= 0 else ()) for each in places.tolist()]

    def at(self, place: int) -> dict[str, Any]:
        """What the page is told of one of the rounds."""
        told: dict[str, Any] = {
            name: round(float(values[place]), 6 if name == "epsilon" else None)
            for name, values in self._figures.items()
        }
        if self._sent is not None:
            told["sent"] = np.flatnonzero(self._sent[:, place]).tolist()
        return told

    def distrusted(self, place: int) -> frozenset[int]:
        """Whom somebody distrusted by one of the rounds."""
        return self._distrusted[place]


def _growth(history: Sequence[LookBack], wanted: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Whether each agent sent anything since the round before, by agent and round; None where nobody can tell."""
    looks = [look for look in history if look.sent]
    if not looks or len({len(look.sent) for look in looks}) != 1:
        return None
    known = np.array([0, *(look.round for look in looks)])
    counts = np.array([(0,) * len(looks[0].sent), *(look.sent for look in looks)], dtype=np.float64)
    at = np.floor(np.stack([np.interp(wanted, known, row) for row in counts.T]))
    growing: NDArray[np.bool_] = np.diff(at, axis=1, prepend=0.0) > 0
    return growing

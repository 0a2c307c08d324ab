"""What the others have said, summed: the newest cumulative body of each origin counts, once."""

from __future__ import annotations

import numpy as np

from agentd.core.message import Columns
from agentd.core.origins import grown

_CHUNK = 1024
"""Rows added up at once: accepted sums stay below 2^51, so a thousand differences of two stay inside 64 bits."""


class Pool:
    """Per arm, the pulls and reward sums of all origins heard, kept as running totals."""

    def __init__(self, arms: int) -> None:
        self.counts = [0] * arms
        self.sums = [0] * arms
        self._held = np.zeros((0, 2 * arms), dtype=np.int64)

    def replace(self, rows: Columns, counts: Columns, sums: Columns) -> None:
        """Let newer bodies take the place of older ones, at most one of each origin."""
        self._make_room(rows)
        held = np.concatenate([counts, sums], axis=1)
        self._shift(held - self._held[rows])
        self._held[rows] = held

    def forget(self, rows: Columns) -> None:
        """Drop all that is held of some origins."""
        self._make_room(rows)
        self._shift(-self._held[rows])
        self._held[rows] = 0

    def _make_room(self, rows: Columns) -> None:
        if len(rows) and (top := int(rows.max())) >= len(self._held):
            self._held = grown(self._held, 2 * (top + 1))

    def _shift(self, change: Columns) -> None:
        arms = len(self.counts)
        for start in range(0, len(change), _CHUNK):
            total = change[start : start + _CHUNK].sum(axis=0).tolist()
            self.counts = [a + b for a, b in zip(self.counts, total[:arms], strict=True)]
            self.sums = [a + b for a, b in zip(self.sums, total[arms:], strict=True)]

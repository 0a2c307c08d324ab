"""How what agents say spreads: for every agent, the sum over its γ-ball, each distance with its own delay.

In lockstep and without faults a message of an origin at distance d created at trial t counts from trial t+d on, so
what arrives everywhere before trial t is Σ_d A_d · (what was said at trial t−d), with A_d the 0/1 matrix of the pairs
at distance d. What is said are integers; they are carried as float64, which is exact below 2^53, because that is what
fast matrix products are made for. Two integers travel in one float: the count of pulls above, the sum of rewards below.

The paper's agents mostly agree, so in most rounds only one or two arms are pulled at all: only those rows of the
product are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentd.simulate.spec import RunSpec

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_Said = tuple[Sequence[int], Floats]

EXACT = 1 << 53
_MANY = 6
"""From so many active rows on, one matrix-matrix product beats as many matrix-vector products."""


class Packing:
    """Two integers in one float64: value = count · 2^bits + total, with |total| < 2^(bits−1)."""

    def __init__(self, largest_total: int, largest_count: int) -> None:
        self.bits = max(1, int(largest_total).bit_length() + 1)
        self.fits = (largest_count + 1) << self.bits < EXACT
        self._unit = float(1 << self.bits)

    def pack(self, count: Floats | Ints, total: Floats | Ints) -> Floats:
        """Both in one."""
        packed: Floats = count * self._unit + total
        return packed

    def unpack(self, packed: Floats) -> tuple[Floats, Floats]:
        """Both again; `packed` is overwritten by the totals."""
        count = np.rint(packed * (1.0 / self._unit))
        packed -= count * self._unit
        return count, packed


class Spread:
    """The last γ rounds of what was said by the agents of several runs, and the sums that arrive from it.

    A value has a row (what it is about: an arm, or an arm and a bucket) and a place (run and agent).
    `parts` = 2 sums even and odd origins apart, which is how byzantine-ucb halves its samples.
    """

    def __init__(self, specs: Sequence[RunSpec], parts: int = 1) -> None:
        self._agents = specs[0].network.agents
        self._parts = parts
        self.lags = max(spec.gamma for spec in specs)
        self._matrices = [_distance_matrices(spec, self.lags, parts) for spec in specs]
        self._said: list[list[_Said]] = [[] for _ in range(self.lags)]
        self._product = np.empty(self._agents)

    def say(self, trial: int, values: Floats, active: Sequence[Sequence[int]]) -> None:
        """Note what was said at a trial: `values` of shape (row, run, agent), and which rows of each run matter."""
        if self.lags:
            self._said[trial % self.lags] = [
                (rows, values[rows, run] if len(rows) >= _MANY else values[:, run]) for run, rows in enumerate(active)
            ]

    def arrive(self, trial: int, into: Floats) -> None:
        """Add what arrives everywhere before `trial` to `into`, of shape (part, row, run, agent)."""
        for lag in range(1, min(self.lags, trial - 1) + 1):
            odd = (trial - lag) & 1 if self._parts == 2 else 0
            for run, said in enumerate(self._said[(trial - lag) % self.lags]):
                if lag <= len(self._matrices[run]):
                    for part, matrix in enumerate(self._matrices[run][lag - 1]):
                        # The half of a sample is the parity of origin + trial; `part` is the parity of the origin.
                        self._add(into[part ^ odd, :, run], said, part, matrix)

    def _add(self, into: Floats, said: _Said, part: int, matrix: Floats) -> None:
        rows, values = said
        if len(rows) >= _MANY:
            into[rows] += values[:, part :: self._parts] @ matrix
            return
        for row in rows:
            np.dot(values[row, part :: self._parts], matrix, out=self._product)
            into[row] += self._product


def _distance_matrices(spec: RunSpec, lags: int, parts: int) -> list[list[Floats]]:
    """Per distance 1…γ and part of the origins: rows are origins, columns are receivers."""
    distances = spec.network.distances
    return [
        [np.ascontiguousarray((distances == lag)[part::parts], dtype=np.float64) for part in range(parts)]
        for lag in range(1, min(spec.gamma, lags) + 1)
    ]

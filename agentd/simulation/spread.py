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
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from agentd.runs.spec import RunSpec
from agentd.simulation.sparse_spread import SparseSpread

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT = 1 << 53
MOST_BY_MATRICES = 4_096
"""Agents of a run that matrices are made for at all: their distances are a table of all pairs."""
_MATRIX_CELLS = 1 << 23
"""Cells of all matrices together: 64 MB."""
_FEW = 8
"""Below this fraction of the origins, gathering their rows beats reading the whole matrix."""
_MANY = 24
"""From so many active rows on, one matrix-matrix product beats as many matrix-vector products."""


class Packing:
    """Two integers in one float64: value = count · 2^bits + total, with |total| < 2^(bits−1)."""

    def __init__(self, largest_total: int, largest_count: int) -> None:
        self.bits = max(1, int(largest_total).bit_length() + 1)
        self.fits = (largest_count + 1) << self.bits < EXACT
        self._unit = float(1 << self.bits)

    def pack(self, count: Ints | int, total: Ints) -> Floats:
        packed: Floats = np.asarray(count * self._unit + total, dtype=np.float64)
        return packed

    def unpack(self, packed: Floats) -> tuple[Floats, Floats]:
        """Both again; `packed` is overwritten by the totals."""
        count = np.rint(packed * (1.0 / self._unit))
        packed -= count * self._unit
        return count, packed


class Spread:
    """The last γ rounds of what was said by the agents of several runs, and the sums that arrive from it.

    A value has a row (what it is about: an arm, or an arm and a bucket), a run and an agent. With two `halves` the
    values are summed apart by the parity of origin + trial, which is how byzantine-ucb halves its samples. Of one trial
    a half holds only even or only odd origins, so its products are half as long.
    """

    def __init__(self, specs: Sequence[RunSpec], rows: int, halves: int = 1) -> None:
        self.lags = max(_reach(spec) for spec in specs)
        self._halves = halves
        self._origins = -(-specs[0].network.agents // halves)
        self._matrices = [[_stacked(spec, version, halves) for version in range(halves)] for spec in specs]
        # For one half, row and run the lags stand side by side, as the stacked matrix wants them.
        self._said = np.zeros((halves, rows, len(specs), self.lags, self._origins))
        self._active: list[list[list[int]]] = []
        self._moving: list[list[int]] = [[] for _ in specs]
        """Per run, the rows of which anything was said in the last γ rounds."""

    def grow(self, rows: int) -> None:
        """Make room for more rows."""
        halves, known, *rest = self._said.shape
        self._said = np.concatenate([self._said, np.zeros((halves, rows - known, *rest))], axis=1)

    def say(self, trial: int, values: Floats, active: list[list[int]]) -> None:
        """Note what was said at a trial: `values` of shape (row, run, agent), and each run's rows in use."""
        if not self.lags or not (any(active) or any(self._moving)):
            return
        before = self._active
        self._active = [active, *before[: self.lags - 1]]
        # Rows that nobody has used for γ rounds hold nothing, and stay as they are.
        moving = {row for lag in (active, *before) for of_run in lag for row in of_run}
        for half in range(self._halves):
            mine = slice((half ^ trial) % self._halves, None, self._halves)
            for row in moving:
                said, new = self._said[half, row], values[row, :, mine]
                said[:, 1:] = said[:, :-1]
                said[:, 0, : new.shape[1]] = new
        for run, rows in enumerate(active):
            if not all(lag[run] == rows for lag in before) or rows != self._moving[run]:
                self._moving[run] = sorted({row for lag in self._active for row in lag[run]})

    def arrive(self, trial: int, into: Floats) -> list[int]:
        """Put what arrives everywhere before `trial` in `into`, zero so far, of shape (half, row, run, agent).

        Returned are the rows of which anything may have.
        """
        if not any(self._moving):
            return []
        for run, (rows, versions) in enumerate(zip(self._moving, self._matrices, strict=True)):
            if not rows:
                continue
            for half in range(self._halves):
                matrix = versions[(half ^ trial) % self._halves]
                said = self._said[half, :, run].reshape(-1, self.lags * self._origins)[:, : len(matrix)]
                if len(rows) >= _MANY:
                    into[half, rows, run] = said[rows] @ matrix
                else:
                    for row in rows:
                        _product(said[row], matrix, into[half, row, run])
        return sorted(set(chain.from_iterable(self._moving)))


def spread_of(specs: Sequence[RunSpec], rows: int, halves: int = 1) -> Spread | SparseSpread:
    """By matrices where those are small, by adjacency lists where they are not; both come to the same."""
    agents = specs[0].network.agents
    if agents > MOST_BY_MATRICES or sum(_reach(spec) for spec in specs) * agents**2 > _MATRIX_CELLS:
        return SparseSpread(specs, halves)
    return Spread(specs, rows, halves)


def _reach(spec: RunSpec) -> int:
    """How far a message of this run really gets; a γ beyond the diameter must not cost matrices of zeros."""
    return spec.network.reach(spec.gamma)


def _product(said: Floats, matrix: Floats, out: Floats) -> None:
    """Put said · matrix in `out`, reading only the rows of the matrix that matter when they are few.

    A matrix is larger than the cache of a core; an arm that a handful of agents explored needs a handful of its rows.
    """
    if np.count_nonzero(said) * _FEW < len(said):
        origins = said.nonzero()[0]
        np.dot(said[origins], matrix[origins], out=out)
    else:
        np.dot(said, matrix, out=out)


def _stacked(spec: RunSpec, version: int, halves: int) -> Floats:
    """The 0/1 matrices of the pairs at distance 1…γ, one above the other: origins down, receivers across.

    With two halves a version has every other origin: those with the parity of version + distance.
    """
    agents = spec.network.agents
    origins = -(-agents // halves)
    stacked = np.zeros((_reach(spec), origins, agents))
    for lag, matrix in enumerate(stacked, start=1):
        mine = spec.network.distances[(version ^ lag) % halves :: halves] == lag
        matrix[: len(mine)] = mine
    return stacked.reshape(_reach(spec) * origins, agents)

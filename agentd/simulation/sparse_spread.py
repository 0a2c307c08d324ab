"""How what agents say spreads on large graphs: every value handed to the shells around who said it, when it is due.

It does what `Spread` does, with adjacency lists in place of matrices: a round costs as much as there is to hand over,
values times members of shells, and nothing where nobody said anything. Sums are of integers in float64, exact in any
order, so both come to the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentd.runs.spec import RunSpec
from topology.shells import Shells

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST = 2
"""From this fraction of the agents on, every receiver summing over its shell beats every teller handing out."""


class _Said(NamedTuple):
    """What was said at one trial about one row of one run."""

    half: int
    row: int
    run: int
    who: Ints
    values: Floats


class SparseSpread:
    """The last γ rounds of what was said by the agents of several runs, and the sums that arrive from it."""

    def __init__(self, specs: Sequence[RunSpec], halves: int = 1) -> None:
        self._shells = [spec.network.shells(spec.gamma) for spec in specs]
        self.lags = max(shells.reach for shells in self._shells)
        self._halves = halves
        self._said: list[list[_Said]] = []

    def grow(self, rows: int) -> None:
        """Rows take no room here."""

    def say(self, trial: int, values: Floats, active: list[list[int]]) -> None:
        """Note what was said at a trial: `values` of shape (row, run, agent), and each run's rows in use."""
        if not self.lags:
            return
        said = []
        for run, rows in enumerate(active):
            for row in rows:
                who = values[row, run].nonzero()[0]
                for half, some in self._apart(trial, who):
                    if len(some):
                        said.append(_Said(half, row, run, some, values[row, run, some]))
        self._said = [said, *self._said[: self.lags - 1]]

    def arrive(self, trial: int, into: Floats) -> list[int]:  # noqa: ARG002
        """Put what arrives everywhere before `trial` in `into`, zero so far, of shape (half, row, run, agent).

        Returned are the rows of which anything may have.
        """
        arrived: set[int] = set()
        for hop, said in enumerate(self._said, start=1):
            for one in said:
                if hop <= self._shells[one.run].reach:
                    _hand_over(self._shells[one.run], hop, one, into[one.half, one.row, one.run])
                    arrived.add(one.row)
        return sorted(arrived)

    def _apart(self, trial: int, who: Ints) -> list[tuple[int, Ints]]:
        """Who said something, by the half that it counts in."""
        if self._halves == 1:
            return [(0, who)]
        half = (who + trial) % self._halves
        return [(each, who[half == each]) for each in range(self._halves)]


def _hand_over(shells: Shells, hop: int, said: _Said, into: Floats) -> None:
    """Add each value to everybody at so many hops from who said it."""
    if len(said.who) * _MOST >= len(into):
        values = np.zeros(len(into))
        values[said.who] = said.values
        into += shells.sums(hop, values)
        return
    for part in shells.pieces(hop, said.who):
        members, sizes = shells.of(hop, said.who[part])
        np.add.at(into, members, np.repeat(said.values[part], sizes))

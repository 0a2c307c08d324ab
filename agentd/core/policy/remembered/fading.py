"""What was released, fading with time: of use where arms change.

Records on the wire stay cumulative. Whoever hears one counts what it exceeds the one before by, (ΔA, ΔS), from the
round in which it was first heard, and lets it weigh half as much after every half-life. So no date is on the wire that
somebody could lie about, a record that is repeated counts once, and what is told again after a restart of its origin is
known already.

An origin in a new life that says less than was heard of it has lost its state, or is an older copy: what was counted of
its arm goes, and what it says now counts as new. So an origin never weighs more than all that it has ever told at once,
however often it comes back. Who is restarted itself dates everything anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import Columns
from agentd.core.origins import grown

OWN = 0
"""The row of the agent itself; origins come after it."""
_PULLS, _SAMPLES, _SUM = 0, 1, 2
LOOKS_PER_HALF_LIFE = 16
"""How often in a half-life fading alone is worth another choice."""


class Fading:
    """Samples and sums by origin and arm, each counted from when it was first heard."""

    def __init__(self, arms: int, half_life: int) -> None:
        self._half_life = half_life
        self._trial: int | None = None
        self._heard = np.zeros((1, arms, 3), dtype=np.int64)
        """The largest record counted so far: pulls, samples, sum."""
        self._weight = np.zeros((1, arms, 2), dtype=np.float64)
        """What is left of its samples and sum."""
        self._renewed = np.zeros((1, arms), dtype=np.bool_)
        self._totals: tuple[list[int], list[int]] | None = None
        self.look_every = max(1, half_life // LOOKS_PER_HALF_LIFE)
        """Rounds after which there is another choice even if nothing new was heard."""

    @property
    def samples(self) -> list[int]:
        """What is left of all samples, per arm, in grid steps; 0: it is as if nobody had ever told of the arm."""
        return self._summed()[0]

    @property
    def sums(self) -> list[int]:
        """The same of all sums."""
        return self._summed()[1]

    def pass_to(self, trial: int) -> None:
        """Let time pass; an agent's own trials are its clock."""
        if self._trial is not None and trial > self._trial:
            self._weight *= 0.5 ** ((trial - self._trial) / self._half_life)
            self._totals = None
        self._trial = trial if self._trial is None else max(trial, self._trial)

    def tell(self, row: int, arm: int, pulls: int, samples: int, total: int) -> None:
        """Count what a record of an origin (a row from 1 on, or `OWN`) says beyond what was heard of it."""
        self._make_room(row)
        heard = self._heard[row, arm].tolist()
        if self._renewed[row, arm]:
            self._renewed[row, arm] = False
            if pulls < heard[_PULLS] or samples < heard[_SAMPLES]:
                self._weight[row, arm] = 0.0
                heard = [0, 0, 0]
        if pulls > heard[_PULLS] and samples >= heard[_SAMPLES]:
            self._weight[row, arm] += (samples - heard[_SAMPLES], total - heard[_SUM])
            heard = [pulls, samples, total]
        self._heard[row, arm] = heard
        self._totals = None

    def renew(self, rows: Columns) -> None:
        """Some origins begin a new life; what they say next shows whether they remember the one before."""
        if len(rows):
            self._make_room(int(rows.max()))
            self._renewed[rows] = True

    def _summed(self) -> tuple[list[int], list[int]]:
        if self._totals is None:
            summed: NDArray[np.int64] = np.floor(self._weight.sum(axis=0)).astype(np.int64)
            self._totals = summed[:, 0].tolist(), summed[:, 1].tolist()
        return self._totals

    def _make_room(self, row: int) -> None:
        if row >= len(self._heard):
            self._heard = grown(self._heard, 2 * (row + 1))
            weight = np.zeros((2 * (row + 1), *self._weight.shape[1:]))
            weight[: len(self._weight)] = self._weight
            renewed = np.zeros((2 * (row + 1), self._renewed.shape[1]), dtype=np.bool_)
            renewed[: len(self._renewed)] = self._renewed
            self._weight, self._renewed = weight, renewed

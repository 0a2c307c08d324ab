"""What one agent believes of what others have released: per arm what `shielding` makes of it, per origin its trust.

Trust is recomputed from the records that are held, so nobody is excluded for ever: who tells what fits is believed
again, and a new incarnation begins anew. A record counts once its origin has told of its duty arm; what came before
that is kept and counts from then on, so the order in which messages come makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from agentd.core.grid import UNIT
from agentd.core.message import MAX_TRIAL, Columns
from agentd.core.origins import grown
from agentd.core.policy.records import Record, RecordPool
from agentd.core.policy.shielding import (
    MOVED,
    Floats,
    Own,
    Settled,
    Told,
    believed,
    beyond_chance,
    columns_of,
    duty_of,
    liars_among,
    settle,
    settled_every,
    summed,
    told_of,
    zeal,
)

_PULLS, _SAMPLES, _TOTAL = 0, 2, 3
DOUBTED, BELIEVED = 0.5, 0.8
"""Trust below the one is told of as lost, above the other as regained."""
_NOBODY = -1


class Doubt(NamedTuple):
    """How much an origin is trusted, and the arm whose record speaks against it most."""

    origin: int
    trust: int
    """In thousandths."""
    arm: int | None
    """None: nothing speaks against it."""
    claimed: float
    """The mean that its record claims."""
    expected: float
    """The mean that the others agree on."""


def as_figures(doubt: Doubt) -> dict[str, Any]:
    """The same for logs and pages."""
    return {
        "origin": doubt.origin,
        "trust": doubt.trust / 1000,
        "arm": doubt.arm,
        "claimed": round(doubt.claimed, 4),
        "expected": round(doubt.expected, 4),
    }


class Beliefs:
    """Trust and what follows from it, of one agent."""

    def __init__(self, arms: int, share: float, pool: RecordPool) -> None:
        self._arms, self._share, self._pool = arms, share, pool
        self._beacon = b""
        self._ids: list[int] = []
        self._column: dict[int, int] = {}  # of an origin
        self._column_of_row: dict[int, int] = {}
        self._row = np.full(0, _NOBODY, dtype=np.int64)  # of each column in the pool
        self._duty = np.full(0, _NOBODY, dtype=np.int64)
        self._excess = np.zeros((arms, 0))
        self._trust, self._noted = np.ones((2, 0))
        self._columns: dict[int, Columns] = {}
        self._zeal: list[float] | None = None
        self._stale: set[int] = set()
        self.settled_at = [-MAX_TRIAL] * arms
        """The trial at which each arm was looked at last."""
        self._centre = [0.0] * arms
        self._on_time: set[int] = set()  # columns of those who have told of their duty
        self._lost: set[int] = set()  # columns that were told of as distrusted
        self._untold: set[int] = set()
        self.means = [0] * arms
        """Per arm, in grid steps."""
        self.samples = [0] * arms
        """What these count, in grid steps; 0: nothing to go by."""
        self.weights = [0] * arms
        """What others have told of the arm, as far as it is believed, in grid steps."""

    def agree(self, beacon: bytes, ids: Iterable[int]) -> None:
        """Take note of the run's public chance, and of who takes part where that is known."""
        self._beacon = beacon
        known = list(ids)
        self._make_room(len(known))
        for origin in known:
            self._admit(origin)

    def changed(self, cells: Iterable[tuple[int, int, int]]) -> None:
        """Records of (origin, its row in the pool, arm) were replaced."""
        for origin, row, arm in cells:
            column = self._column.get(origin)
            if column is None:
                column = self._admit(origin)
            self._row[column] = row
            self._column_of_row[row] = column
            self._stale.add(arm)
            if arm == self._duty[column] and column not in self._on_time:
                self._on_time.add(column)  # what it told before counts from now on
                self._stale.update(np.flatnonzero(self._pool.held[row, :, _PULLS]).tolist())

    def changed_own(self, arm: int) -> None:
        self._stale.add(arm)

    def forget(self, rows: Columns) -> None:
        """Origins begin anew: what they had told is gone, and so is what spoke against them."""
        for row in rows.tolist():
            column = self._column_of_row.get(row)
            if column is not None:
                self._excess[:, column] = 0.0
                self._trust[column] = self._noted[column] = 1.0
                self._on_time.discard(column)
        self._stale.update(range(self._arms))

    def settle(self, trial: int, own: list[Record], group: int) -> bool:
        """Look at the arms whose records have changed, unless that was done just now; whether there were any."""
        every = settled_every(trial)
        due = [arm for arm in sorted(self._stale) if trial - self.settled_at[arm] >= every]
        for arm in due:
            self._stale.discard(arm)
            self._settle_arm(arm, own[arm], group)
            self.settled_at[arm] = trial
        return bool(due)

    def zeal(self, duty: int) -> list[float]:
        """Per arm, how far coins count for who has this duty."""
        if self._zeal is None:
            numbers = np.bincount(self._duty[self._duty >= 0], minlength=self._arms)
            self._zeal = [zeal(number) for number in numbers.tolist()]
        return [1.0 if arm == duty else eager for arm, eager in enumerate(self._zeal)]

    def doubts(self) -> list[Doubt]:
        """Whom it has heard of, those it trusts least first."""
        heard = np.flatnonzero(self._row >= 0)
        return [self._doubt(column) for column in heard[np.argsort(self._trust[heard], kind="stable")].tolist()]

    def distrusted(self) -> list[int]:
        """Whom it trusts less than half."""
        return [self._ids[column] for column in np.flatnonzero(self._trust < DOUBTED).tolist()]

    def take_changes(self) -> list[Doubt]:
        """Who has lost its trust, or regained it, since this was asked last; one entry each."""
        changes = [self._doubt(column) for column in sorted(self._untold)]
        self._untold.clear()
        return changes

    def _settle_arm(self, arm: int, own: Record, group: int) -> None:
        columns = self._columns_of(arm)
        trust = self._trust[np.newaxis]
        told = Told(*told_of(*self._told(arm, columns)), trust[:, columns], int(np.count_nonzero(self._duty == arm)))
        settled = settle(told, self._own(own, group), (1.0 - trust).sum(axis=1))
        self._believe(arm, settled)
        self._excess[arm, columns] = beyond_chance(settled.dissent)[0]
        self._trust = believed(summed(list(self._excess)))
        self._note_moves()

    def _told(self, arm: int, columns: Columns) -> Floats:
        """Samples and sums of the arm of those who have told of their duty, as one row each; in grid steps."""
        told = np.zeros((2, 1, len(columns)))
        rows, duty, held = self._row[columns], self._duty[columns], self._pool.held
        counts = np.flatnonzero(rows >= 0)
        counts = counts[held[rows[counts], duty[counts], _PULLS] > 0]
        told[:, 0, counts] = held[rows[counts], arm, _SAMPLES:].T
        return told

    def _own(self, own: Record, group: int) -> Own:
        samples = np.array([float(own.samples)])
        return Own(
            samples / UNIT,
            np.array([int(own.total)]) / np.maximum(samples, 1.0),
            np.array([float(group)]),
            liars_among(np.array([group]), self._share),
        )

    def _believe(self, arm: int, settled: Settled) -> None:
        self.means[arm] = int(settled.mean[0])
        self.samples[arm] = int(settled.samples[0])
        self.weights[arm] = int(settled.weight[0])
        self._centre[arm] = float(settled.centre[0])

    def _note_moves(self) -> None:
        """Look again at all arms of origins in whom trust has moved; note who has lost it or regained it."""
        for column in np.flatnonzero(np.abs(self._trust - self._noted) > MOVED).tolist():
            self._noted[column] = self._trust[column]
            self._stale.update(np.flatnonzero(self._pool.held[self._row[column], :, _SAMPLES]).tolist())
            self._note_state(column)

    def _note_state(self, column: int) -> None:
        lost = column in self._lost
        if not lost and self._trust[column] < DOUBTED:
            self._lost.add(column)
        elif lost and self._trust[column] > BELIEVED:
            self._lost.discard(column)
        else:
            return
        self._untold.symmetric_difference_update({column})

    def _doubt(self, column: int) -> Doubt:
        arm = int(self._excess[:, column].argmax())
        trust = int(self._trust[column] * 1000.0 + 0.5)
        if not self._excess[arm, column]:
            return Doubt(self._ids[column], trust, None, 0.0, 0.0)
        record = self._pool.held[self._row[column], arm].tolist()
        return Doubt(self._ids[column], trust, arm, record[_TOTAL] / max(record[_SAMPLES], 1), self._centre[arm])

    def _columns_of(self, arm: int) -> Columns:
        if arm not in self._columns:
            self._columns[arm] = columns_of(self._duty, arm)
        return self._columns[arm]

    def _admit(self, origin: int) -> int:
        """A column for an origin; in an open run there are some more, so that tables are copied rarely."""
        column = self._column[origin] = len(self._ids)
        self._ids.append(origin)
        if column >= len(self._row):
            self._make_room(2 * (column + 1))
        self._duty[column] = duty_of(self._beacon, origin, self._arms)
        self._columns.clear()
        self._zeal = None
        return column

    def _make_room(self, columns: int) -> None:
        more = columns - len(self._row)
        self._row = grown(self._row, columns, _NOBODY)
        self._duty = grown(self._duty, columns, _NOBODY)
        self._excess = np.concatenate([self._excess, np.zeros((self._arms, more))], axis=1)
        self._trust = np.concatenate([self._trust, np.ones(more)])
        self._noted = np.concatenate([self._noted, np.ones(more)])

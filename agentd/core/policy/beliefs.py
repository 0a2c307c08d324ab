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
        self._told = np.zeros((3, arms, 0))  # samples, means, 1/samples of what counts
        self._on_duty, self._volunteers = np.zeros((2, arms, 0))
        self._excess = np.zeros((arms, 0))
        self._trust, self._noted = np.ones((2, 0))
        self._distrust = 0.0
        self._make_room(1)
        self._zeal: list[float] | None = None
        self._replaced: list[tuple[int, int]] = []  # arms and columns that are not in the table yet
        self._stale: set[int] = set()
        self._looked_at = -MAX_TRIAL
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
            if column in self._on_time:
                self._count(column, (arm,))
            elif arm == self._duty[column]:
                self._on_time.add(column)  # what it told before counts from now on
                self._count(column, np.flatnonzero(self._pool.held[row, :, _PULLS]).tolist())

    def changed_own(self, arm: int) -> None:
        self._stale.add(arm)

    def forget(self, rows: Columns) -> None:
        """Origins begin anew: what they had told is gone, and so is what spoke against them."""
        for row in rows.tolist():
            column = self._column_of_row.get(row)
            if column is not None:
                self._told[:, :, column] = 0.0
                self._excess[:, column] = 0.0
                self._trust[column] = self._noted[column] = 1.0
                self._on_time.discard(column)
        self._note_distrust()
        self._stale.update(range(self._arms))

    def settle(self, trial: int, own: list[Record], group: int) -> bool:
        """Look at the arms whose records have changed, unless that was done just now; whether there were any."""
        if not self._stale or trial - self._looked_at < settled_every(trial):
            return False
        due = sorted(self._stale)
        self._stale.clear()
        self._looked_at = trial
        self._take_in()
        self._settle_arms(due, self._own([own[arm] for arm in due], group))
        for arm in due:
            self.settled_at[arm] = trial
        return True

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

    def _count(self, column: int, arms: Iterable[int]) -> None:
        """What is held of an origin counts as it is now."""
        self._stale.update(arms)
        self._replaced += [(arm, column) for arm in arms]

    def _take_in(self) -> None:
        """Bring the table up to what the pool holds."""
        if self._replaced:
            arms, columns = np.array(self._replaced).T
            self._replaced.clear()
            held = self._pool.held[self._row[columns], arms, _SAMPLES:].T.astype(np.float64)
            self._told[:, arms, columns] = told_of(*held)

    def _settle_arms(self, due: list[int], own: Own) -> None:
        samples, means, inverse = self._told[:, due]
        trust = np.broadcast_to(self._trust, samples.shape)
        told = Told(samples, means, inverse, trust, self._on_duty[due], self._volunteers[due])
        settled = settle(told, own, np.full(len(due), self._distrust))
        self._believe(due, settled)
        excess = beyond_chance(settled.dissent)
        if excess.any() or self._excess[due].any():
            self._excess[due] = excess
            self._trust = believed(summed(list(self._excess)))
            self._note_distrust()
            self._note_moves()

    def _own(self, own: list[Record], group: int) -> Own:
        samples = np.array([float(record.samples) for record in own])
        return Own(
            samples / UNIT,
            np.array([float(int(record.total)) for record in own]) / np.maximum(samples, 1.0),
            np.full(len(own), float(group)),
            liars_among(np.full(len(own), group), self._share),
        )

    def _believe(self, due: list[int], settled: Settled) -> None:
        parts = (part.tolist() for part in settled[:4])
        for arm, mean, samples, weight, centre in zip(due, *parts, strict=True):
            self.means[arm], self.samples[arm], self.weights[arm] = mean, samples, weight
            self._centre[arm] = centre

    def _note_distrust(self) -> None:
        """Σ(1 − U)."""
        self._distrust = float((1.0 - self._trust[np.newaxis]).sum(axis=1)[0])

    def _note_moves(self) -> None:
        """Look again at all arms of origins in whom trust has moved; note who has lost it or regained it."""
        for column in np.flatnonzero(np.abs(self._trust - self._noted) > MOVED).tolist():
            self._noted[column] = self._trust[column]
            self._stale.update(np.flatnonzero(self._told[0, :, column]).tolist())
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

    def _admit(self, origin: int) -> int:
        """A column for an origin; in an open run there are some more, so that tables are copied rarely."""
        column = self._column[origin] = len(self._ids)
        self._ids.append(origin)
        if column >= len(self._row):
            self._make_room(2 * (column + 1))
        duty = self._duty[column] = duty_of(self._beacon, origin, self._arms)
        self._on_duty[duty, column], self._volunteers[duty, column] = 1.0, 0.0
        self._zeal = None
        return column

    def _make_room(self, columns: int) -> None:
        more = max(0, columns - len(self._row))
        self._row = grown(self._row, columns, _NOBODY)
        self._duty = grown(self._duty, columns, _NOBODY)
        self._told, self._on_duty = _wider(self._told, more, 0.0), _wider(self._on_duty, more, 0.0)
        self._volunteers, self._excess = _wider(self._volunteers, more, 1.0), _wider(self._excess, more, 0.0)
        self._trust, self._noted = _wider(self._trust, more, 1.0), _wider(self._noted, more, 1.0)


def _wider(table: Floats, more: int, filled: float) -> Floats:
    """A table with some more columns."""
    return np.concatenate([table, np.full((*table.shape[:-1], more), filled)], axis=-1)

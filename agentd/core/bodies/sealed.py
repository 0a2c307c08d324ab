"""SEALED, of sealed: all that was released of one arm, (arm, pulls, batches, effective samples, weighted noised sum).

A record (arm, N, B, A, S) sums B closed batches of N pulls in all; a batch has a pull and a trial has one, so that
B ≤ N ≤ trial. What A and S can be follows from the ε of its origin: see `sealed_limits`. Two records of an origin about
one arm differ by closed batches too, so their difference must pass the same test; and the pulls of all arms together
cannot exceed the origin's trials. Claiming more samples than that takes a forged trial number, which `future` bounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies.by_policy import ByPolicy
from agentd.core.bodies.kind import Continued, Extent, Field, Kind, Lie, Mask, Memory, all_of
from agentd.core.bodies.sealed_limits import limits_of
from agentd.core.grid import UNIT
from agentd.core.message import Batch, Columns, News
from agentd.core.origins import all_differ, grown
from agentd.core.terms import Terms

_TRIAL, _PULLS = 0, 1  # in the remembered cells; batches, samples and sum follow


class _Sealed(Kind):
    """Not cumulative as a whole: each record is, of its arm."""

    tag = 4
    name = "SEALED"
    tells_its_age = True
    fields = (
        Field("arm", "u2"),
        Field("pulls", "u4"),
        Field("batches", "u4"),
        Field("samples", "i8"),
        Field("sum", "i8", noised=True),
    )

    def plausible(self, batch: Batch, terms: Terms) -> Mask:
        """Which records can be honest, each taken by itself."""
        return _Records(self, terms).plausible(batch)

    def bend(self, body: Columns, lie: Lie) -> None:
        """As many samples of the lie as the record is worth."""
        samples = body[:, 3]
        mean = body[:, 4] // np.maximum(samples // UNIT, 1)
        body[:, 4] = samples // UNIT * lie(mean)

    def memory(self, terms: Terms) -> Memory:
        """The newest record of each origin and arm."""
        return _Records(self, terms)


class _Records(Memory):
    """Judges sealed records; remembers the newest of each origin and arm."""

    def __init__(self, kind: Kind, terms: Terms) -> None:
        super().__init__(kind, terms)
        self._limits = ByPolicy(kind, terms, lambda epsilon, _v: limits_of(epsilon))
        self._incarnation = np.full(0, -1, dtype=np.int64)
        self._cells = np.zeros((0, terms.arms, 5), dtype=np.int64)
        self._pulled = np.zeros(0, dtype=np.int64)
        self._newest = np.zeros(0, dtype=np.int64)
        """Of each origin the pulls of all arms, and its newest trial of any."""
        self._examined: Batch | None = None
        """Records that were found to be honest and to continue what is held, before they are to be noted."""

    def plausible(self, batch: Batch) -> Mask:
        """Which records can be honest, each taken by itself; all zeros is a hello."""
        arm, amounts = batch.body[:, 0], batch.body[:, 1:]
        hello = _zeros(batch.body, 1)
        honest: Mask = (
            (arm >= 0) & (arm < self._terms.arms) & (amounts[:, 0] <= batch.trial) & self._add_up(batch, amounts)
        )
        return hello | honest

    def accepts_all(self, batch: Batch, rows: Columns) -> bool:
        """Whether each record is honest by itself; mostly all continue what is held, too, which is found out with it.

        What was worked out is kept for `continued_by`, which comes next.
        """
        self._examined = batch if len(rows) and self._all_go_on(batch, rows) else None
        return self._examined is not None or all_of(self.plausible(batch))

    def _all_go_on(self, batch: Batch, rows: Columns) -> bool:
        """Whether all records are newer ones of different origins, and honest: one question for both tests of each."""
        limits, trial = self._limits.only, batch.trial
        arm, told = batch.body[:, 0], batch.body[:, 1:]
        if limits is None or arm.min() < 0 or arm.max() >= self._terms.arms or not all_differ(rows):
            return False
        self._make_room(int(rows.max()) + 1)
        if (batch.incarnation != self._incarnation[rows]).any():
            return False
        before = self._cells[rows, arm]
        change = told - before[:, _PULLS:]
        everything = self._pulled[rows] + change[:, 0]
        if not (
            all_of(trial > before[:, _TRIAL])
            and all_of(told[:, 0] <= trial)
            and all_of(everything <= np.maximum(self._newest[rows], trial))
        ):
            return False
        by_itself, after_those = limits.allow(np.concatenate([told, change])).reshape(2, -1)
        return all_of(by_itself) and all_of(after_those | _zeros(change, 0))

    def continued_by(self, batch: Batch, rows: Columns) -> Continued:
        """Which records continue what their origins (at `rows`) released before; what is newest is noted."""
        examined, self._examined = self._examined, None
        if examined is batch:
            self._note(batch, rows)
            return Continued(News(batch, rows), None)
        self._make_room(int(rows.max()) + 1)
        if all_differ(rows):
            honest = self._continued_by_one_each(batch, rows)
        else:
            honest = np.zeros(len(batch), dtype=np.bool_)
            for wave in _waves(rows, batch.trial):
                honest[wave] = self._continued_by_one_each(batch.rows(wave), rows[wave])
        if all_of(honest):
            return Continued(News(batch, rows), None)
        return Continued(News(batch.rows(honest), rows[honest]), honest)

    def extent_of(self, batch: Batch, rows: Columns) -> Extent:
        """A record says of its arm as much as it has pulls."""
        self._make_room(int(rows.max()) + 1)
        self._begin_new_lives(batch, rows)
        arm = batch.body[:, 0]
        honest, _ = self._held_against(batch, rows)
        return Extent(arm, batch.body[:, 1], self._cells[rows, arm, _PULLS], honest)

    def _continued_by_one_each(self, batch: Batch, rows: Columns) -> Mask:
        """The same for at most one record per origin."""
        self._begin_new_lives(batch, rows)
        honest, noted = self._held_against(batch, rows)
        if len(noted) < len(rows):
            batch, rows = batch.rows(noted), rows[noted]
        self._note(batch, rows)
        return honest

    def _note(self, batch: Batch, rows: Columns) -> None:
        arm, pulls = batch.body[:, 0], batch.body[:, 1]
        self._pulled[rows] += pulls - self._cells[rows, arm, _PULLS]
        self._newest[rows] = np.maximum(self._newest[rows], batch.trial)
        self._cells[rows, arm, _TRIAL] = batch.trial
        self._cells[rows, arm, _PULLS:] = batch.body[:, 1:]

    def _begin_new_lives(self, batch: Batch, rows: Columns) -> None:
        others = batch.incarnation != self._incarnation[rows]
        if others.any():
            renewed = rows[others]
            self._cells[renewed] = 0
            self._pulled[renewed] = self._newest[renewed] = 0
            self._incarnation[rows] = batch.incarnation

    def _held_against(self, batch: Batch, rows: Columns) -> tuple[Mask, NDArray[np.intp]]:
        """Which records continue, or lead to, those held; and which of these are newer."""
        arm, told = batch.body[:, 0], batch.body[:, 1:]
        before = self._cells[rows, arm]
        newer = batch.trial > before[:, _TRIAL]
        change = told - before[:, _PULLS:]
        if not all_of(newer):
            change *= np.where(newer, 1, -1)[:, np.newaxis]
        same, hello = _zeros(change, 0), _zeros(batch.body, 1)
        everything = self._pulled[rows] - before[:, _PULLS] + told[:, 0]
        newest = np.maximum(self._newest[rows], batch.trial)
        honest: Mask = hello | ((same | self._add_up(batch, change)) & (everything <= newest))
        return honest, (honest & newer & ~hello).nonzero()[0]

    def _add_up(self, batch: Batch, amounts: Columns) -> Mask:
        """Whether pulls, batches, samples and sum can be those of closed batches of the messages' origins."""
        if (limits := self._limits.only) is not None:
            return limits.allow(amounts)
        return self._limits.verdict(batch.origin, lambda limits, rows: limits.allow(amounts[rows]))

    def _make_room(self, size: int) -> None:
        if size > len(self._incarnation):
            room = size + size // 4 + 8  # thousands of agents may share a machine: rather grow again than hold too much
            self._incarnation = grown(self._incarnation, room, -1)
            self._cells = grown(self._cells, room)
            self._pulled, self._newest = grown(self._pulled, room), grown(self._newest, room)


SEALED = _Sealed()


def _zeros(table: Columns, telling: int) -> Mask:
    """Which rows hold nothing but zeros; mostly one column tells of all that they do not."""
    zeros: Mask = table[:, telling] == 0
    return zeros & ~table.any(axis=1) if zeros.any() else zeros


def _waves(rows: Columns, trial: Columns) -> list[NDArray[np.intp]]:
    """Cut messages into sets with at most one message per origin, older trials first."""
    order = np.lexsort((trial, rows))
    ordered = rows[order]
    first = np.searchsorted(ordered, ordered)
    place = np.arange(len(order)) - first
    return [order[place == number] for number in range(int(place.max()) + 1)]

"""What an honest message can look like; everything else is the sender's fault.

Checks see every copy before gossip does, so that a forgery can neither be counted nor take the place of the real
message. A row that fails is dropped and counted under one reason:

    head       a number outside its range, or more life than its origin gave it
    future     a trial that its origin cannot have reached yet
    shape      a body of another width than this bandit's arms ask for
    body       counts and sums that no honest origin releases
    history    a cumulative body that takes back what the same origin said before

Memory is one body per origin and cumulative kind.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from agentd.core.grid import UNIT
from agentd.core.message import (
    MAX_AGENT_ID,
    MAX_INCARNATION,
    MAX_LIFETIME,
    MAX_TRIAL,
    Batch,
    Columns,
    Kind,
    body_width,
)
from agentd.core.origins import Origins, grown

Mask = NDArray[np.bool_]

NOISE_SCALES = 64
"""How many noise scales a release may lie outside what its pulls can pay; honest noise exceeds it with chance e^−64."""
MAX_GAP = 4
"""pulls now / pulls at the newest release; the widest release series (ε → 0, v → 1.5) stays below 3.7."""


class Checks:
    """Judges copies of messages; remembers the newest accepted body of each origin."""

    def __init__(self, arms: int, origins: Origins) -> None:
        self._arms = arms
        self._origins = origins
        self._history = {kind: _History(body_width(kind, arms)) for kind in Kind if kind.cumulative}
        self.dropped: Counter[str] = Counter()

    def judge(self, batch: Batch, latest_trial: int = MAX_TRIAL) -> Batch:
        """The rows an honest origin can have sent, given that no trial beyond `latest_trial` has happened yet."""
        if batch.body.shape[1] != body_width(batch.kind, self._arms):
            self.dropped["shape"] += len(batch)
            return batch.rows(np.zeros(len(batch), dtype=np.bool_))
        batch = self._keep(batch, _plausible_head(batch), "head")
        batch = self._keep(batch, batch.trial <= latest_trial, "future")
        batch = self._keep(batch, _BODY_CHECKS[batch.kind](batch, self._arms), "body")
        if batch.kind.cumulative:
            rows = self._origins.rows(batch.origin)
            batch = self._keep(batch, self._history[batch.kind].consistent(batch, rows), "history")
        return batch

    def remember(self, batch: Batch) -> None:
        """Note accepted bodies as what later ones of the same origin must continue."""
        if batch.kind.cumulative and len(batch):
            self._history[batch.kind].note(batch, self._origins.rows(batch.origin), self._origins.room)

    def _keep(self, batch: Batch, honest: Mask, reason: str) -> Batch:
        if honest.all():
            return batch
        self.dropped[reason] += int(np.count_nonzero(~honest))
        return batch.rows(honest)


class _History:
    """The newest body per origin of one cumulative kind, against which newer ones are held."""

    def __init__(self, width: int) -> None:
        self._trial = np.zeros(0, dtype=np.int64)
        self._incarnation = np.full(0, -1, dtype=np.int64)
        self._body = np.zeros((0, width), dtype=np.int64)

    def consistent(self, batch: Batch, rows: Columns) -> Mask:
        """Pulls only grow, and a release that was not renewed keeps its value."""
        verdict = np.ones(len(batch), dtype=np.bool_)
        known = np.flatnonzero((rows >= 0) & (rows < len(self._trial)))
        where = rows[known]
        newer = (batch.trial[known] > self._trial[where]) & (batch.incarnation[known] == self._incarnation[where])
        known, where = known[newer], where[newer]
        verdict[known] = _CONTINUES[batch.kind](self._body[where], batch.body[known])
        return verdict

    def note(self, batch: Batch, rows: Columns, room: int) -> None:
        """Keep the newest of the accepted bodies per origin."""
        self._trial = grown(self._trial, room)
        self._incarnation = grown(self._incarnation, room, -1)
        self._body = grown(self._body, room)
        order = np.lexsort((batch.trial, batch.incarnation))  # the newest is written last
        newer = (batch.incarnation[order] > self._incarnation[rows[order]]) | (
            batch.trial[order] > self._trial[rows[order]]
        )
        order = order[newer]
        self._trial[rows[order]] = batch.trial[order]
        self._incarnation[rows[order]] = batch.incarnation[order]
        self._body[rows[order]] = batch.body[order]


def _plausible_head(batch: Batch) -> Mask:
    verdict: Mask = (
        (batch.origin >= 0)
        & (batch.origin <= MAX_AGENT_ID)
        & (batch.incarnation >= 0)
        & (batch.incarnation <= MAX_INCARNATION)
        & (batch.trial >= 1)
        & (batch.trial <= MAX_TRIAL)
        & (batch.life >= 1)
        & (batch.life <= batch.lifetime)
        & (batch.lifetime <= MAX_LIFETIME)
    )
    return verdict


def _released_body(batch: Batch, arms: int) -> Mask:
    body = batch.body.reshape(len(batch), arms, 3)
    now, at_release, noised = body[:, :, 0], body[:, :, 1], body[:, :, 2]
    # Bounding the counts first keeps every product below inside 64 bits, whatever was sent.
    counted = (at_release >= 0) & (at_release <= now) & (now <= MAX_TRIAL) & (now <= MAX_GAP * at_release)
    at_release = np.where(counted, at_release, 0)
    slack = NOISE_SCALES * UNIT * np.sqrt(at_release * np.sqrt(at_release))  # n^(3/4): the largest scale, v → 1.5
    paid = (noised >= -slack) & (noised <= at_release * UNIT + slack)
    verdict: Mask = (counted & paid).all(axis=1) & (now.sum(axis=1) <= batch.trial)
    return verdict


def _totals_body(batch: Batch, arms: int) -> Mask:
    body = batch.body.reshape(len(batch), arms, 2)
    pulls, total = body[:, :, 0], body[:, :, 1]
    counted = (pulls >= 0) & (pulls <= MAX_TRIAL)
    paid = (total >= 0) & (total <= np.where(counted, pulls, 0) * UNIT)
    verdict: Mask = (counted & paid).all(axis=1) & (pulls.sum(axis=1) <= batch.trial)
    return verdict


def _sample_body(batch: Batch, arms: int) -> Mask:
    arm, reward = batch.body[:, 0], batch.body[:, 1]
    verdict: Mask = (arm >= 0) & (arm < arms) & (reward >= 0) & (reward <= UNIT)
    return verdict


def _released_continues(before: Columns, after: Columns) -> Mask:
    renewed = after[:, 1::3] > before[:, 1::3]
    kept = (after[:, 1::3] == before[:, 1::3]) & (after[:, 2::3] == before[:, 2::3])
    verdict: Mask = ((after[:, 0::3] >= before[:, 0::3]) & (renewed | kept)).all(axis=1)
    return verdict


def _totals_continue(before: Columns, after: Columns) -> Mask:
    change: Columns = after - before
    more, paid = change[:, 0::2], change[:, 1::2]
    verdict: Mask = np.all((more >= 0) & (paid >= 0) & (paid <= more * UNIT), axis=1)
    return verdict


_BODY_CHECKS = {Kind.RELEASED: _released_body, Kind.TOTALS: _totals_body, Kind.SAMPLE: _sample_body}
_CONTINUES = {Kind.RELEASED: _released_continues, Kind.TOTALS: _totals_continue}

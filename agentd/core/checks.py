"""What an honest message can look like; everything else is the sender's fault.

`judge` sees every copy before gossip does, so that what no honest agent sends can neither be counted nor take the place
of the real message. `continues` sees only what gossip found to be new, because looking an origin up costs more than
anything else here; a forgery that fails there has taken the key of one trial, and the origin's next trial heals it. A
forgery that looks honest throughout is the business of signatures. A row that fails is counted under one reason:

    head       a number outside its range, or more life than its origin gave it
    future     a trial that its origin cannot have reached yet
    shape      a body of another width than this bandit's arms ask for
    body       counts and sums that no honest origin releases
    history    a cumulative body that takes back what the same origin said before

Memory is one body per origin and cumulative kind, and what each origin sealed of each arm (`core.sealed_checks`).
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
from agentd.core.origins import grown
from agentd.core.privacy.sealing import Weighting
from agentd.core.sealed_checks import SealedChecks

Mask = NDArray[np.bool_]

NOISE_SCALES = 64
"""How many noise scales a release may lie outside what its pulls can pay; honest noise exceeds it with chance e^−64."""
MAX_GAP = 4
"""pulls now / pulls at the newest release; the widest release series (ε → 0, v → 1.5) stays below 3.7."""


class Checks:
    """Judges messages; remembers the newest accepted body of each origin."""

    def __init__(self, arms: int, weighting: Weighting | None = None) -> None:
        self._arms = arms
        self._sealed = SealedChecks(arms, weighting)
        self._history = {kind: _History(body_width(kind, arms)) for kind in Kind if kind.cumulative}
        self.dropped: Counter[str] = Counter()

    def judge(self, batch: Batch, latest_trial: int = MAX_TRIAL) -> Batch:
        """The rows an honest origin can have sent, given that no trial beyond `latest_trial` has happened yet."""
        if batch.body.shape[1] != body_width(batch.kind, self._arms):
            self.dropped["shape"] += len(batch)
            return batch.rows(np.zeros(len(batch), dtype=np.bool_))
        batch = self._keep(batch, _plausible_head(batch), "head")
        if len(batch) and int(batch.trial.max()) > latest_trial:
            batch = self._keep(batch, batch.trial <= latest_trial, "future")
        if batch.kind is Kind.SEALED:
            return self._keep(batch, self._sealed.plausible(batch), "body")
        return self._keep(batch, _BODY_CHECKS[batch.kind](batch, self._arms), "body")

    def continues(self, batch: Batch, rows: Columns) -> tuple[Batch, Columns]:
        """Those of the new messages that continue what their origins (at `rows`) said before; they are remembered."""
        if batch.kind is Kind.SAMPLE or not len(batch):
            return batch, rows
        history = self._sealed if batch.kind is Kind.SEALED else self._history[batch.kind]
        honest = history.continued_by(batch, rows)
        return self._keep(batch, honest, "history"), rows if honest.all() else rows[honest]

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

    def continued_by(self, batch: Batch, rows: Columns) -> Mask:
        """Pulls only grow, and a release that was not renewed keeps its value; what is newest is noted."""
        self._make_room(int(rows.max()) + 1)
        same_life = batch.incarnation == self._incarnation[rows]
        newer = same_life & (batch.trial > self._trial[rows])
        honest: Mask = ~newer | _CONTINUES[batch.kind](self._body[rows], batch.body)
        noted = np.flatnonzero(honest & (newer | ~same_life))
        if len(noted) > 1:  # of several new messages of one origin the newest is written last
            noted = noted[np.argsort(batch.trial[noted], kind="stable")]
        self._trial[rows[noted]] = batch.trial[noted]
        self._incarnation[rows[noted]] = batch.incarnation[noted]
        self._body[rows[noted]] = batch.body[noted]
        return honest

    def _make_room(self, size: int) -> None:
        if size > len(self._trial):
            self._trial = grown(self._trial, 2 * size)
            self._incarnation = grown(self._incarnation, 2 * size, -1)
            self._body = grown(self._body, 2 * size)


_LEAST = np.array([0, 0, 1, 1, 1])
_MOST = np.array([MAX_AGENT_ID, MAX_INCARNATION, MAX_TRIAL, MAX_LIFETIME, MAX_LIFETIME])
"""The ranges of origin, incarnation, trial, lifetime and life."""


def _plausible_head(batch: Batch) -> Mask:
    verdict: Mask = _every((batch.head >= _LEAST) & (batch.head <= _MOST)) & (batch.life <= batch.lifetime)
    return verdict


def _released_body(batch: Batch, arms: int) -> Mask:  # noqa: ARG001
    now, at_release, noised = batch.body[:, 0::3], batch.body[:, 1::3], batch.body[:, 2::3]
    # Bounding the counts first keeps every product below inside 64 bits, whatever was sent.
    counted = (at_release >= 0) & (at_release <= now) & (now <= MAX_TRIAL) & (now <= MAX_GAP * at_release)
    if not counted.all():
        at_release = np.where(counted, at_release, 0)
    # n^(3/4) rewards is the largest noise scale (v → 1.5), and the square root of a square root is cheap.
    slack = (NOISE_SCALES * UNIT) * np.sqrt(at_release * np.sqrt(at_release))
    paid = (noised >= -slack) & (noised <= at_release * UNIT + slack)
    verdict: Mask = _every(counted & paid) & (_row_sums(now) <= batch.trial)
    return verdict


def _totals_body(batch: Batch, arms: int) -> Mask:  # noqa: ARG001
    pulls, total = batch.body[:, 0::2], batch.body[:, 1::2]
    counted = (pulls >= 0) & (pulls <= MAX_TRIAL)
    paid = (total >= 0) & (total <= np.where(counted, pulls, 0) * UNIT)
    verdict: Mask = _every(counted & paid) & (_row_sums(pulls) <= batch.trial)
    return verdict


def _sample_body(batch: Batch, arms: int) -> Mask:
    arm, reward = batch.body[:, 0], batch.body[:, 1]
    verdict: Mask = (arm >= 0) & (arm < arms) & (reward >= 0) & (reward <= UNIT)
    return verdict


def _released_continues(before: Columns, after: Columns) -> Mask:
    renewed = after[:, 1::3] > before[:, 1::3]
    kept = (after[:, 1::3] == before[:, 1::3]) & (after[:, 2::3] == before[:, 2::3])
    return _every((after[:, 0::3] >= before[:, 0::3]) & (renewed | kept))


def _totals_continue(before: Columns, after: Columns) -> Mask:
    more: Columns = after[:, 0::2] - before[:, 0::2]
    paid: Columns = after[:, 1::2] - before[:, 1::2]
    return _every((more >= 0) & (paid >= 0) & (paid <= more * UNIT))


def _every(fine: Mask) -> Mask:
    """Which rows are fine throughout; almost always all of them, and asking that first is ten times cheaper."""
    if fine.all():
        return np.ones(len(fine), dtype=np.bool_)
    return np.asarray(fine.all(axis=1))


def _row_sums(table: Columns) -> Columns:
    """The sum of each row; a few long columns add up faster than many short rows."""
    total: Columns = table[:, 0].copy()
    for column in range(1, table.shape[1]):
        total += table[:, column]
    return total


_BODY_CHECKS = {Kind.RELEASED: _released_body, Kind.TOTALS: _totals_body, Kind.SAMPLE: _sample_body}
_CONTINUES = {Kind.RELEASED: _released_continues, Kind.TOTALS: _totals_continue}

"""What an honest message can look like; everything else is the sender's fault.

Every copy is judged before it counts or takes the place of another, so that what no honest agent sends cannot keep out
the real message; of a copy that only repeats another one, the body is not looked at. `continues` sees only what gossip
found to be new, because looking an origin up costs more than anything else here; a forgery that fails there has taken
the key of one trial, and the origin's next trial heals it. A forgery that looks honest throughout is the business of
signatures. A row that fails is counted under one reason:

    head       a number outside its range, or more life than its origin gave it
    future     a trial that its origin cannot have reached yet
    shape      a body of another width than this bandit's arms ask for
    body       counts and sums that no honest origin releases
    history    a cumulative body that takes back what the same origin said before

Memory is one body per origin and cumulative kind, and what each origin sealed of each arm (`core.sealed_checks`).
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import NamedTuple

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
        self._history = {kind: _History(kind, arms) for kind in Kind if kind.cumulative}
        self.dropped: Counter[str] = Counter()

    def judge(self, batch: Batch, latest_trial: int = MAX_TRIAL) -> Batch:
        """The rows an honest origin can have sent, given that no trial beyond `latest_trial` has happened yet."""
        return self.sift(self.judge_heads(batch, latest_trial))

    def judge_heads(self, batch: Batch, latest_trial: int = MAX_TRIAL) -> Batch:
        """The rows an honest origin can have sent, going by their heads."""
        if batch.body.shape[1] != body_width(batch.kind, self._arms):
            self.dropped["shape"] += len(batch)
            return batch.rows(np.zeros(len(batch), dtype=np.bool_))
        if not batch.sound:
            batch = self._keep(batch, _plausible_head(batch), "head")
        if latest_trial < MAX_TRIAL and len(batch) and int(batch.trial.max()) > latest_trial:
            batch = self._keep(batch, batch.trial <= latest_trial, "future")
        return batch

    def sift(self, batch: Batch) -> Batch:
        """The rows an honest origin can have sent, going by their bodies."""
        return batch if not len(batch) else self._keep(batch, self._plausible_bodies(batch), "body")

    def finds_fine(self, batch: Batch) -> bool:
        """Whether every body can be an honest one; nothing is counted."""
        honest = self._plausible_bodies(batch)
        return honest is None or bool(honest.all())

    def _plausible_bodies(self, batch: Batch) -> Mask | None:
        if batch.kind is Kind.SEALED:
            return self._sealed.plausible(batch)
        return _BODY_CHECKS[batch.kind](batch, self._arms)

    def continues(self, batch: Batch, rows: Columns) -> Continued:
        """Those of the new messages that continue what their origins (at `rows`) said before; they are remembered."""
        if batch.kind is Kind.SAMPLE or not len(batch):
            return Continued(batch, rows, batch)
        if batch.kind is Kind.SEALED:
            honest = self._sealed.continued_by(batch, rows)
            batch, rows = self._keep(batch, honest, "history"), rows if honest.all() else rows[honest]
            return Continued(batch, rows, batch)
        honest, newest = self._history[batch.kind].continued_by(batch, rows)
        if newest is None:  # as almost always: all of them honest, each the newest of its origin
            return Continued(batch, rows, batch)
        self._count(honest, "history")
        return Continued(batch.rows(newest), rows[newest], batch.rows(honest))

    def forget(self, rows: Columns) -> None:
        """Hold nothing against origins that came back under a new incarnation."""
        for history in self._history.values():
            history.forget(rows)

    def _keep(self, batch: Batch, honest: Mask | None, reason: str) -> Batch:
        if honest is None or honest.all():
            return batch
        self._count(honest, reason)
        return batch.rows(honest)

    def _count(self, honest: Mask, reason: str) -> None:
        if faults := len(honest) - int(np.count_nonzero(honest)):
            self.dropped[reason] += faults


class Continued(NamedTuple):
    """What `Checks.continues` let pass."""

    batch: Batch
    """All of a kind whose messages count one by one; of a cumulative kind the newest of each origin."""
    rows: Columns
    """Their origins' rows in per-origin tables."""
    honest: Batch
    """All that passed, the outdated ones included."""


class _History:
    """The newest body per origin of one cumulative kind, against which newer ones are held."""

    def __init__(self, kind: Kind, arms: int) -> None:
        self._continue = _CONTINUES[kind]
        self._trial = np.zeros(0, dtype=np.int64)
        self._body = np.zeros((0, body_width(kind, arms)), dtype=np.int64)

    def continued_by(self, batch: Batch, rows: Columns) -> tuple[Mask, NDArray[np.intp] | None]:
        """Which are honest: pulls only grow, and a release that was not renewed keeps its value.

        Also the newest of each origin, which is noted; None stands for "every one of them".
        """
        self._make_room(int(rows.max()) + 1)
        trial = batch.trial
        newer = trial > self._trial[rows]
        honest = self._continue(self._body[rows], batch.body)
        if honest is None:
            honest = newer  # nothing to hold against them; those that are not newer are honest anyway
        eligible = honest & newer
        if eligible.all():
            np.maximum.at(self._trial, rows, trial)
            eligible = self._trial[rows] == trial
            if eligible.all():
                self._body[rows] = batch.body
                return eligible, None
        honest = honest | ~newer
        return honest, self._note_newest(batch, rows, (honest & newer).nonzero()[0])

    def _note_newest(self, batch: Batch, rows: Columns, among: NDArray[np.intp]) -> NDArray[np.intp]:
        np.maximum.at(self._trial, rows[among], batch.trial[among])
        newest: NDArray[np.intp] = among[self._trial[rows[among]] == batch.trial[among]]
        self._body[rows[newest]] = batch.body[newest]
        return newest

    def forget(self, rows: Columns) -> None:
        """As if nothing had been heard of these origins."""
        rows = rows[rows < len(self._trial)]
        self._trial[rows] = 0
        self._body[rows] = 0

    def _make_room(self, size: int) -> None:
        if size > len(self._trial):
            self._trial = grown(self._trial, 2 * size)
            self._body = grown(self._body, 2 * size)


_LEAST = np.array([0, 0, 1, 1, 1])
_MOST = np.array([MAX_AGENT_ID, MAX_INCARNATION, MAX_TRIAL, MAX_LIFETIME, MAX_LIFETIME])
"""The ranges of origin, incarnation, trial, lifetime and life."""


def _plausible_head(batch: Batch) -> Mask:
    verdict: Mask = ((batch.head >= _LEAST) & (batch.head <= _MOST)).all(axis=1) & (batch.life <= batch.lifetime)
    return verdict


def _released_body(batch: Batch, arms: int) -> Mask | None:
    # As unsigned numbers, so that a negative one is far too large; and sums of pulls that are too many may wrap.
    unsigned = batch.body.view(np.uint64)
    now, at_release, noised = unsigned[:, 0::3], unsigned[:, 1::3], batch.body[:, 2::3]
    fine = (now <= MAX_TRIAL) & (at_release <= now)
    fine &= now <= at_release * MAX_GAP
    # n^(3/4) rewards is the largest noise scale (v → 1.5), and the square root of a square root is cheap.
    middle = at_release * (UNIT / 2)
    slack = np.sqrt(at_release * np.sqrt(at_release)) * (NOISE_SCALES * UNIT)
    slack += middle
    fine &= abs(noised - middle) <= slack
    return _every(fine, now @ _ones(arms) <= batch.trial)


def _totals_body(batch: Batch, arms: int) -> Mask | None:
    unsigned = batch.body.view(np.uint64)
    pulls, total = unsigned[:, 0::2], unsigned[:, 1::2]
    fine = (pulls <= MAX_TRIAL) & (total <= np.minimum(pulls, MAX_TRIAL) * UNIT)
    return _every(fine, pulls @ _ones(arms) <= batch.trial)


def _sample_body(batch: Batch, arms: int) -> Mask:
    arm, reward = batch.body[:, 0], batch.body[:, 1]
    verdict: Mask = (arm >= 0) & (arm < arms) & (reward >= 0) & (reward <= UNIT)
    return verdict


def _released_continues(before: Columns, after: Columns) -> Mask | None:
    grown_by: Columns = after - before
    renewed = grown_by[:, 1::3]
    return _every((grown_by[:, 0::3] >= 0) & (renewed >= (grown_by[:, 2::3] != 0)))


def _totals_continue(before: Columns, after: Columns) -> Mask | None:
    grown_by: Columns = after - before
    more, paid = grown_by[:, 0::2], grown_by[:, 1::2]
    return _every((paid >= 0) & (paid <= more * UNIT))


def _every(fine: Mask, too: Mask | None = None) -> Mask | None:
    """Which rows are fine throughout, and `too`; None stands for "all", as is almost always the case."""
    if fine.all() and (too is None or too.all()):
        return None
    rows: Mask = np.asarray(fine.all(axis=1))
    return rows if too is None else rows & too


@cache
def _ones(arms: int) -> NDArray[np.uint64]:
    """What adds up a row when it is multiplied with it."""
    return np.ones(arms, dtype=np.uint64)


_BODY_CHECKS = {Kind.RELEASED: _released_body, Kind.TOTALS: _totals_body, Kind.SAMPLE: _sample_body}
_CONTINUES = {Kind.RELEASED: _released_continues, Kind.TOTALS: _totals_continue}

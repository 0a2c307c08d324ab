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
    Cells,
    Columns,
    Held,
    Kind,
    News,
    body_width,
    cells_of,
)
from agentd.core.origins import grown
from agentd.core.sealed_checks import SealedChecks
from agentd.core.terms import Terms

Mask = NDArray[np.bool_]

NOISE_SCALES = 64
"""How many noise scales a release may lie outside what its pulls can pay; honest noise exceeds it with chance e^−64."""
MAX_GAP = 4
"""pulls now / pulls at the newest release; the widest release series (ε → 0, v → 1.5) stays below 3.7."""


class Checks:
    """Judges messages; remembers the newest accepted body of each origin."""

    def __init__(self, terms: Terms) -> None:
        self._arms = terms.arms
        self._sealed = SealedChecks(terms)
        self._history = {kind: _History(kind, terms.arms) for kind in Kind if kind.cumulative}
        self._examined: News | None = None
        self.dropped: Counter[str] = Counter()

    def judge(self, batch: Batch, latest_trial: int = MAX_TRIAL) -> Batch:
        """The rows an honest origin can have sent, given that no trial beyond `latest_trial` has happened yet."""
        return self.sift(self.judge_heads(batch, latest_trial))

    def judge_heads(self, batch: Batch, latest_trial: int = MAX_TRIAL) -> Batch:
        """The rows an honest origin can have sent, going by their heads."""
        if batch.width != body_width(batch.kind, self._arms):
            self.dropped["shape"] += len(batch)
            return batch.rows(np.zeros(len(batch), dtype=np.bool_))
        if not batch.sound:
            batch = self._keep(batch, _plausible_head(batch), "head")
        newest = int(batch.trial.max(initial=0)) if batch.newest is None else batch.newest
        if newest > latest_trial:
            batch = self._keep(batch, batch.trial <= latest_trial, "future")
        return batch

    def sift(self, batch: Batch) -> Batch:
        """The rows an honest origin can have sent, going by their bodies."""
        return self._keep(batch, self._plausible_bodies(batch), "body") if len(batch) else batch

    def finds_fine(self, batch: Batch, rows: Columns) -> bool:
        """Whether every one can be honest, by itself and after what its origin (at `rows`) said; nothing is counted.

        Of a cumulative kind, they must also be the news of as many origins, as they nearly always are. What was worked
        out for the answer is kept for `continues`, which mostly comes next.
        """
        self._examined = None
        history = self._history.get(batch.kind)
        if history is None:
            return _all(self._plausible_bodies(batch))
        if len(batch.head):
            self._examined = history.examine(batch, rows)
        return self._examined is not None or not len(batch.head)

    def _plausible_bodies(self, batch: Batch) -> Mask:
        if batch.kind is Kind.SEALED:
            return self._sealed.plausible(batch)
        if batch.kind is Kind.SAMPLE:
            arm, reward = batch.body[:, 0], batch.body[:, 1]
            return (arm >= 0) & (arm < self._arms) & (reward >= 0) & (reward <= UNIT)
        return np.asarray(_BODIES[batch.kind](batch).all(axis=0))

    def continues(self, batch: Batch, rows: Columns) -> Continued:
        """Those of the new messages that continue what their origins (at `rows`) said before; they are remembered."""
        examined, self._examined = self._examined, None
        if batch.kind is Kind.SAMPLE or not len(batch):
            return Continued(News(batch, rows), batch)
        if batch.kind is Kind.SEALED:
            honest = self._sealed.continued_by(batch, rows)
            batch, rows = self._keep(batch, honest, "history"), rows if honest.all() else rows[honest]
            return Continued(News(batch, rows), batch)
        history = self._history[batch.kind]
        if examined is not None and examined.batch is batch:
            history.note(examined)
            return Continued(examined, batch)
        honest, news = history.continued_by(batch, rows)
        self._count(honest, "history")
        return Continued(news, batch.rows(honest))

    def forget(self, rows: Columns) -> Held:
        """Hold nothing against origins that came back under a new incarnation; tell what was held."""
        return {kind: history.forget(rows) for kind, history in self._history.items()}

    def _keep(self, batch: Batch, honest: Mask, reason: str) -> Batch:
        if _all(honest):
            return batch
        self._count(honest, reason)
        return batch.rows(honest)

    def _count(self, honest: Mask, reason: str) -> None:
        if faults := len(honest) - int(np.count_nonzero(honest)):
            self.dropped[reason] += faults


class Continued(NamedTuple):
    """What `Checks.continues` let pass."""

    news: News
    """What the policy is to learn."""
    honest: Batch
    """All that passed, the outdated ones included."""


class _History:
    """The newest body per origin of one cumulative kind, against which newer ones are held.

    In lockstep the same origins say something new in every round. What they said last is then kept as it came, and goes
    into the table only when others come.
    """

    def __init__(self, kind: Kind, arms: int) -> None:
        self._fine = _FINE[kind]
        self._continue = _CONTINUES[kind]
        self._trial = np.zeros(0, dtype=np.int64)
        self._cells = cells_of(kind, np.zeros((0, body_width(kind, arms)), dtype=np.int64))
        self._last: tuple[Batch, Columns] | None = None

    def examine(self, batch: Batch, rows: Columns) -> News | None:
        """News, if each message is honest, by itself and as a continuation, and the only new one of its origin."""
        if self._last is not None and self._last[1] is rows:
            trial, before = self._last[0].trial, self._last[0].cells
        else:
            self._put_away()
            if np.bincount(rows).max() > 1:
                return None
            self._make_room(rows)
            trial, before = self._trial[rows], self._cells.take(rows, axis=2)
        if not _all(batch.trial > trial):
            return None
        grown_by: Cells = batch.cells - before
        return News(batch, rows, before, grown_by) if self._fine(batch, grown_by) else None

    def note(self, news: News) -> None:
        """Remember what was examined."""
        self._last = news.batch, news.rows

    def _put_away(self) -> None:
        if self._last is not None:
            batch, rows = self._last
            self._trial[rows] = batch.trial
            self._cells[:, :, rows] = batch.cells
            self._last = None

    def continued_by(self, batch: Batch, rows: Columns) -> tuple[Mask, News]:
        """Which are honest: pulls only grow, and a release that was not renewed keeps its value.

        Also the newest of each origin, which is noted.
        """
        self._put_away()
        self._make_room(rows)
        newer = batch.trial > self._trial[rows]
        honest = self._continue(batch.cells - self._cells.take(rows, axis=2)).all(axis=0) | ~newer
        among = (honest & newer).nonzero()[0]
        np.maximum.at(self._trial, rows[among], batch.trial[among])
        newest: NDArray[np.intp] = among[self._trial[rows[among]] == batch.trial[among]]
        batch, rows = batch.rows(newest), rows[newest]
        before = self._cells.take(rows, axis=2)
        news = News(batch, rows, before, batch.cells - before)
        self.note(news)
        return honest, news

    def forget(self, rows: Columns) -> Cells:
        """As if nothing had been heard of these origins; what was."""
        self._put_away()
        rows = rows[rows < len(self._trial)]
        held = self._cells.take(rows, axis=2)
        self._trial[rows] = 0
        self._cells[:, :, rows] = 0
        return held

    def _make_room(self, rows: Columns) -> None:
        size = int(rows.max(initial=-1)) + 1
        if size > len(self._trial):
            size += size // 8 + 8
            self._trial = grown(self._trial, size)
            room = np.zeros((*self._cells.shape[:2], size), dtype=np.int64)
            room[:, :, : self._cells.shape[2]] = self._cells
            self._cells = room


_LEAST = np.array([0, 0, 1, 1, 1])
_MOST = np.array([MAX_AGENT_ID, MAX_INCARNATION, MAX_TRIAL, MAX_LIFETIME, MAX_LIFETIME])
"""The ranges of origin, incarnation, trial, lifetime and life."""


def _plausible_head(batch: Batch) -> Mask:
    verdict: Mask = ((batch.head >= _LEAST) & (batch.head <= _MOST)).all(axis=1) & (batch.life <= batch.lifetime)
    return verdict


def _released_body(batch: Batch) -> Mask:
    # As unsigned numbers, so that a negative one is far too large; and sums of pulls that are too many may wrap.
    now, at_release, _ = batch.cells.view(np.uint64)
    fine: Mask = now <= MAX_TRIAL
    fine &= at_release <= now
    fine &= now <= at_release * MAX_GAP
    fine &= _noise_is_plausible(at_release.astype(np.float64), batch.cells[2].astype(np.float64))
    fine &= np.add.reduce(now, axis=0) <= batch.trial
    return fine


def _noise_is_plausible(at_release: NDArray[np.float64], noised: NDArray[np.float64]) -> Mask:
    # n^(3/4) rewards is the largest noise scale (v → 1.5), and the square root of a square root is cheap.
    slack = np.sqrt(at_release)
    slack *= at_release
    np.sqrt(slack, out=slack)
    slack *= NOISE_SCALES * UNIT
    middle = at_release * (UNIT / 2)
    slack += middle
    np.subtract(noised, middle, out=middle)
    np.abs(middle, out=middle)
    verdict: Mask = middle <= slack
    return verdict


def _totals_body(batch: Batch) -> Mask:
    pulls, total = batch.cells.view(np.uint64)
    fine: Mask = pulls <= MAX_TRIAL
    fine &= total <= np.minimum(pulls, MAX_TRIAL) * UNIT
    fine &= np.add.reduce(pulls, axis=0) <= batch.trial
    return fine


def _released_continues(grown_by: Cells) -> Mask:
    more, renewed, changed = grown_by
    fine: Mask = renewed >= (changed != 0)
    fine &= more >= 0
    return fine


def _totals_continue(grown_by: Cells) -> Mask:
    more, paid = grown_by
    fine: Mask = paid >= 0
    fine &= paid <= more * UNIT
    return fine


def _released_fine(batch: Batch, grown_by: Cells) -> bool:
    """The two above, all at once: numbers of one type, few passes, because every round of every agent comes here."""
    cells = batch.cells
    now, at_release = cells[0], cells[1]
    # The bits that occur in any of them: beyond the limit, or negative, exactly when one of them is.
    if not 0 <= np.bitwise_or.reduce(cells[:2], axis=None) <= MAX_TRIAL:
        return False
    if np.bitwise_or.reduce(grown_by[:2], axis=None) < 0:
        return False
    renewed = grown_by[1] > 0
    renewed |= grown_by[2] == 0
    if not _all(renewed):
        return False
    if not _all(now == at_release) and not _all((at_release <= now) & (now <= at_release * MAX_GAP)):
        return False
    counted, noised = cells[1:].astype(np.float64)
    return _all(np.add.reduce(now, axis=0) <= batch.trial) and _all(_noise_is_plausible(counted, noised))


def _totals_fine(batch: Batch, grown_by: Cells) -> bool:
    return _all(_totals_continue(grown_by)) and _all(_totals_body(batch))


def _all(mask: Mask) -> bool:
    """What `mask.all()` says, in a fifth of the time; for masks that lie in one piece."""
    return b"\0" not in mask.tobytes()


_BODIES = {Kind.RELEASED: _released_body, Kind.TOTALS: _totals_body}
_CONTINUES = {Kind.RELEASED: _released_continues, Kind.TOTALS: _totals_continue}
_FINE = {Kind.RELEASED: _released_fine, Kind.TOTALS: _totals_fine}
"""What is asked of the cells of each cumulative kind: by themselves, as a continuation, and both of all of them."""

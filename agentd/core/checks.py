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

What bodies of a kind must be like, and what of them is remembered, is for the kind to say (`core.bodies`).
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from agentd.core.bodies import KINDS, Kind, Memory
from agentd.core.bodies.kind import Mask, all_of
from agentd.core.message import HEAD, MAX_TRIAL, Batch, Columns, Held, News
from agentd.core.terms import Terms


class Checks:
    """Judges messages; remembers the newest accepted body of each origin."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._memories: dict[Kind, Memory] = {}
        self.dropped: Counter[str] = Counter()

    def judge(self, batch: Batch, latest_trial: int = MAX_TRIAL) -> Batch:
        """The rows an honest origin can have sent, given that no trial beyond `latest_trial` has happened yet."""
        return self.judge_bodies(self.judge_heads(batch, latest_trial))

    def judge_heads(self, batch: Batch, latest_trial: int = MAX_TRIAL) -> Batch:
        """The rows an honest origin can have sent, going by their heads."""
        if batch.width != batch.kind.width(self._terms.arms):
            self.dropped["shape"] += len(batch)
            return batch.rows(np.zeros(len(batch), dtype=np.bool_))
        if not batch.sound:
            batch = self._keep(batch, _plausible_head(batch), "head")
        newest = int(batch.trial.max(initial=0)) if batch.newest is None else batch.newest
        if newest > latest_trial:
            batch = self._keep(batch, batch.trial <= latest_trial, "future")
        return batch

    def judge_bodies(self, batch: Batch) -> Batch:
        """The rows an honest origin can have sent, going by their bodies."""
        return (
            self._keep(batch, (self._memories.get(batch.kind) or self._memory(batch.kind)).plausible(batch), "body")
            if len(batch)
            else batch
        )

    def accepts_all(self, batch: Batch, rows: Columns) -> bool:
        """Whether every one can be honest, by itself and after what its origin (at `rows`) said; nothing is counted."""
        return (self._memories.get(batch.kind) or self._memory(batch.kind)).accepts_all(batch, rows)

    def continues(self, batch: Batch, rows: Columns) -> Accepted:
        """Those of the new messages that continue what their origins (at `rows`) said before; they are remembered."""
        if not len(batch.head):
            return Accepted(News(batch, rows), batch)
        news, honest = (self._memories.get(batch.kind) or self._memory(batch.kind)).continued_by(batch, rows)
        if honest is None:
            return Accepted(news, batch)
        self._count(honest, "history")
        return Accepted(news, batch.rows(honest))

    def forget(self, rows: Columns) -> Held:
        """Hold nothing against origins that came back under a new incarnation; tell what was held."""
        held = {kind: (self._memories.get(kind) or self._memory(kind)).forget(rows) for kind in KINDS.values()}
        return {kind: cells for kind, cells in held.items() if cells is not None}

    def _memory(self, kind: Kind) -> Memory:
        return self._memories.setdefault(kind, kind.memory(self._terms))

    def _keep(self, batch: Batch, honest: Mask, reason: str) -> Batch:
        if all_of(honest):
            return batch
        self._count(honest, reason)
        return batch.rows(honest)

    def _count(self, honest: Mask, reason: str) -> None:
        if faults := len(honest) - int(np.count_nonzero(honest)):
            self.dropped[reason] += faults


class Accepted(NamedTuple):
    """What `Checks.continues` let pass."""

    news: News
    """What the policy is to learn."""
    honest: Batch
    """All that passed, the outdated ones included."""


_LEAST = np.array([field.least for field in HEAD])
_MOST = np.array([field.most for field in HEAD])


def _plausible_head(batch: Batch) -> Mask:
    verdict: Mask = ((batch.head >= _LEAST) & (batch.head <= _MOST)).all(axis=1) & (batch.life <= batch.lifetime)
    return verdict

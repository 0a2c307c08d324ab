"""What an honest message can look like; everything else is the sender's fault.

Every copy is judged before it counts or takes the place of another, so that what no honest agent sends cannot keep out
the real message; of a copy that only repeats another one, the body is not looked at. `continues` sees only what gossip
found to be new, because looking an origin up costs more than anything else here; a forgery that fails there has taken
the key of one trial, and the origin's next trial heals it. A forgery that looks honest throughout is the business of
signatures. Of what comes so late that gossip cannot tell whether it is new (`core.bodies.latecomers`), every copy is
held against what its origin said before it takes any place. A row that fails is counted under one reason:

    head         a number outside its range, or more life than its origin gave it
    origin       an origin that does not take part
    kind         a kind of body that its origin does not publish
    lifetime     another lifetime than the run's (and, where frames are read, a life that its sender cannot give)
    incarnation  a life that its origin does not have
    future       a trial that its origin cannot have reached yet, or that has come too far too soon
    shape        a body of another width than this bandit's arms ask for
    body         counts and sums that no honest origin releases
    history      a cumulative body that takes back what the same origin said before

What the terms of the run say of heads is in `core.trust`. What bodies of a kind must be like, and what of them is
remembered, is for the kind to say (`core.bodies`). Heads that repeat those of the round before, one trial later, are
not judged again but for the trial: see `core.repetition`.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from agentd.core.bodies import KINDS, Kind, Memory
from agentd.core.bodies.kind import Extent, Mask, all_of
from agentd.core.message import HEAD, MAX_TRIAL, ONE_TRIAL_LATER, Batch, Columns, Held, News
from agentd.core.sequel import Sequel, follows
from agentd.core.terms import Terms
from agentd.core.trust.heads import HeadRules
from agentd.core.trust.lives import Lives


class Checks:
    """Judges messages; remembers the newest accepted body of each origin."""

    def __init__(self, terms: Terms, lives: Lives | None = None, *, fast_path: bool = True) -> None:
        self._terms = terms
        self._rules = HeadRules(terms, lives)
        self._fast_path = fast_path
        self._judged: dict[Kind, Judged] = {}
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
        latest_trial = min(latest_trial, self._rules.last_trial)
        last = self._judged.get(batch.kind)
        if last is not None and (again := last.told_again(batch, latest_trial)) is not None:
            return again
        honest = self._judge_head_by_head(batch, latest_trial)
        self._judged.pop(batch.kind, None)
        if self._fast_path and len(honest) == len(batch):
            if honest.sequel is None:
                honest = honest.numbered(Sequel.to())
            self._judged[batch.kind] = Judged(honest, self._rules.furthest(honest))
        return honest

    def _judge_head_by_head(self, batch: Batch, latest_trial: int) -> Batch:
        if not batch.sound:
            batch = self._keep(batch, _plausible_head(batch), "head")
        for reason, is_honest in self._rules.rules:
            batch = self._keep(batch, is_honest(batch), reason)
        if self._rules.furthest(batch) > latest_trial:
            batch = self._keep(batch, self._rules.reached(batch) <= latest_trial, "future")
        return batch

    def lives_changed(self) -> None:
        """What was judged by the incarnations that were known is to be judged anew."""
        self._judged.clear()

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

    def extent_of(self, batch: Batch, rows: Columns) -> Extent | None:
        """How much messages say beyond what is held of their origins; None where their kind cannot tell."""
        extent = (self._memories.get(batch.kind) or self._memory(batch.kind)).extent_of(batch, rows)
        if extent is not None:
            self._count(extent.honest, "history")
        return extent

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


class Judged:
    """The last heads of one kind, all of which were honest: one trial later they are so again."""

    def __init__(self, batch: Batch, furthest: int) -> None:
        self._head = batch.head
        self._number = batch.sequel.number if batch.sequel is not None else 0
        self._furthest = furthest

    def told_again(self, batch: Batch, latest_trial: int) -> Batch | None:
        """The batch, knowing that it repeats the last one, if it does and nothing in it has come too soon."""
        if self._furthest >= latest_trial:
            return None
        sequel = batch.sequel
        if sequel is None:
            if not _is_one_trial_later(batch.head, self._head):
                return None
            sequel = Sequel.to(self._number)
            batch = batch.numbered(sequel)
        elif not follows(sequel, self._number):
            return None
        self._head, self._number = batch.head, sequel.number
        self._furthest += 1
        return batch


def _is_one_trial_later(head: Columns, before: Columns) -> bool:
    return head.shape == before.shape and bool((head == before + ONE_TRIAL_LATER).all())


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

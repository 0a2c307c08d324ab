"""RELEASED, of private-ucb: per arm (pulls now, pulls at the release, noised sum)."""

from __future__ import annotations

import numpy as np

from agentd.core.bodies.by_policy import ByPolicy
from agentd.core.bodies.cumulative import Cumulative, History, bend_sums
from agentd.core.bodies.kind import Field, Lie, Mask, Memory, all_of
from agentd.core.bodies.release_limits import ReleaseLimits, limits_of
from agentd.core.message import MAX_TRIAL, Batch, Cells, Columns
from agentd.core.terms import Terms


class _Released(Cumulative):
    """Zeros where nothing of an arm is released yet."""

    tag = 1
    name = "RELEASED"
    fields = (Field("pulls", "u4"), Field("pulls_at_release", "u4"), Field("sum", "i8", noised=True))
    per_arm = True

    def plausible(self, batch: Batch, terms: Terms) -> Mask:
        """Releases when the series has one, and no further from what their pulls can pay than their noise reaches."""
        return self.memory(terms).plausible(batch)

    def continues(self, grown_by: Cells) -> Mask:
        """Pulls only grow, and a release that was not renewed keeps its value."""
        more, renewed, changed = grown_by
        all_honest: Mask = renewed >= (changed != 0)
        all_honest &= more >= 0
        return all_honest

    def bend(self, body: Columns, lie: Lie) -> None:
        """As many pulls of the lie as were released."""
        bend_sums(self, body, lie)

    def memory(self, terms: Terms) -> Memory:
        """The newest body of each origin, and how far noise reaches."""
        return _Releases(self, terms)


class _Releases(History):
    """Judges by the noise of each origin."""

    def __init__(self, kind: _Released, terms: Terms) -> None:
        super().__init__(kind, terms)
        self._limits = ByPolicy(kind, terms, lambda epsilon, v: limits_of(epsilon, v, terms.arms))
        self._all_honest = self.all_honest

    def plausible(self, batch: Batch) -> Mask:
        """Which messages can be honest, each taken by itself."""
        if (limits := self._limits.only) is not None:
            return _honest(limits, batch)
        return self._limits.verdict(batch.origin, lambda limits, rows: _honest(limits, batch.rows(rows)))

    def all_honest(self, batch: Batch, grown_by: Cells, terms: Terms) -> bool:  # noqa: ARG002
        """Both of the kind at once: numbers of one type, few passes, because every round of every agent comes here."""
        cells, limits = batch.cells, self._limits.only
        # The bits that occur in any of them: beyond the limit, or negative, exactly when one of them is.
        bits = int(np.bitwise_or.reduce(cells[:2], axis=None))
        if not 0 <= bits <= MAX_TRIAL or np.bitwise_or.reduce(grown_by[:2], axis=None) < 0:
            return False
        renewed = grown_by[1] > 0
        renewed |= grown_by[2] == 0
        if not all_of(renewed):
            return False
        if limits is None or (bits >= len(limits.last) and not limits.cover(bits)):
            return all_of(self.plausible(batch))
        now, at_release, noised = cells
        if not all_of(now == at_release if limits.always else _in_time(limits, now, at_release)):
            return False
        more = noised - limits.low.take(at_release)
        return all_of(np.add.reduce(now, axis=0) <= batch.trial) and all_of(
            more.view(np.uint64) <= limits.span.take(at_release)
        )


def _honest(limits: ReleaseLimits, batch: Batch) -> Mask:
    now = batch.cells[0]
    allowed = limits.allow(*batch.cells)
    # Sums of pulls that are too many may wrap: they are refused already.
    return np.asarray(allowed.all(axis=0) & (np.add.reduce(now, axis=0) <= batch.trial))


def _in_time(limits: ReleaseLimits, now: Columns, at_release: Columns) -> Mask:
    in_time: Mask = now <= limits.last.take(at_release)
    in_time &= at_release <= now
    return in_time


RELEASED = _Released()

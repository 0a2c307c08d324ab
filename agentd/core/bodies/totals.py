"""TOTALS, of coop-ucb: per arm (pulls, exact sum)."""

from __future__ import annotations

import numpy as np

from agentd.core.bodies.cumulative import Cumulative, bend_sums
from agentd.core.bodies.kind import Field, Lie, Mask, all_of
from agentd.core.grid import UNIT
from agentd.core.message import MAX_TRIAL, Batch, Cells, Columns
from agentd.core.terms import Terms


class _Totals(Cumulative):
    """All pulls and what they paid."""

    tag = 2
    name = "TOTALS"
    fields = (Field("pulls", "u4"), Field("sum", "i8"))
    per_arm = True

    def plausible(self, batch: Batch, terms: Terms) -> Mask:  # noqa: ARG002
        """No more pulls than trials, and no more paid than one unit each."""
        return np.asarray(_plausible_cells(batch).all(axis=0))

    def continues(self, grown_by: Cells) -> Mask:
        """Pulls and sums only grow, a sum by one unit per pull at most."""
        more, paid = grown_by
        all_honest: Mask = paid >= 0
        all_honest &= paid <= more * UNIT
        return all_honest

    def all_honest(self, batch: Batch, grown_by: Cells, terms: Terms) -> bool:  # noqa: ARG002
        """The two above, without asking message by message."""
        return all_of(self.continues(grown_by)) and all_of(_plausible_cells(batch))

    def bend(self, body: Columns, lie: Lie) -> None:
        """As many pulls of the lie as there were."""
        bend_sums(self, body, lie)


def _plausible_cells(batch: Batch) -> Mask:
    # As unsigned numbers, so that a negative one is far too large.
    pulls, total = batch.cells.view(np.uint64)
    all_honest: Mask = pulls <= MAX_TRIAL
    all_honest &= total <= np.minimum(pulls, MAX_TRIAL) * UNIT
    all_honest &= np.add.reduce(pulls, axis=0) <= batch.trial
    return all_honest


TOTALS = _Totals()

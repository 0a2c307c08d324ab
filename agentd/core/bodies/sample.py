"""SAMPLE, of byzantine-ucb: (arm, reward) of one trial."""

from __future__ import annotations

from agentd.core.bodies.kind import Field, Kind, Lie, Mask
from agentd.core.grid import UNIT
from agentd.core.message import Batch, Columns
from agentd.core.terms import Terms


class _Sample(Kind):
    """One pull and its reward; no message says anything about another."""

    tag = 3
    name = "SAMPLE"
    fields = (Field("arm", "u2"), Field("reward", "u4"))
    chained = True

    def plausible(self, batch: Batch, terms: Terms) -> Mask:
        """A reward on the grid, of an arm that there is."""
        arm, reward = batch.body[:, 0], batch.body[:, 1]
        verdict: Mask = (arm >= 0) & (arm < terms.arms) & (reward >= 0) & (reward <= UNIT)
        return verdict

    def bend(self, body: Columns, lie: Lie) -> None:
        body[:, 1] = lie(body[:, 1])


SAMPLE = _Sample()

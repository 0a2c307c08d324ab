"""count-inflation: as much weight as the checks let pass: few batches, each of all trials since the one before."""

from __future__ import annotations

from agentd.core.attacks.promote_worst import PromoteWorst


class CountInflation(PromoteWorst):
    """Praises the worst arm with the largest batches there can be, each twice as late as the one before.

    A batch of n pulls is worth n²/(n + h): one of all pulls is worth most, but it must also come before others know.
    """

    first = 4

    def after(self, trial: int) -> int:
        """Twice as late."""
        return 2 * trial

"""mixed: every liar attacks in another way."""

from __future__ import annotations

from agentd.core.attacks.basis.scheme import Claim, Draws, Known, Scheme
from agentd.core.attacks.both import Both
from agentd.core.attacks.demote_best import DemoteBest
from agentd.core.attacks.edge import Edge
from agentd.core.attacks.inversion import Inversion
from agentd.core.attacks.promote_worst import PromoteWorst
from agentd.core.attacks.random_records import RandomRecords

WAYS: tuple[type[Scheme], ...] = (PromoteWorst, DemoteBest, Both, Inversion, RandomRecords, Edge)


class Mixed(Scheme):
    """By its id one of several attacks."""

    def __init__(self, known: Known, draws: Draws) -> None:
        super().__init__(known, draws)
        self._way = WAYS[known.own % len(WAYS)](known, draws)

    def claim(self, trial: int) -> Claim | None:
        """What that one says."""
        return self._way.claim(trial)

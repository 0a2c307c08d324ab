"""split: every other liar praises the worst arm, the others run the best one down."""

from __future__ import annotations

from agentd.core.attacks.basis.scheme import Claim, Scheme
from agentd.core.attacks.demote_best import DemoteBest
from agentd.core.attacks.promote_worst import PromoteWorst


class Split(Scheme):
    """One half of a conspiracy."""

    def claim(self, trial: int) -> Claim | None:
        """By its id one of the two."""
        return (DemoteBest if self.known.own % 2 else PromoteWorst)(self.known, self._draws).claim(trial)

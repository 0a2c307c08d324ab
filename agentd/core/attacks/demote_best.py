"""demote-best: all pulls were of the best arm, and it never paid."""

from __future__ import annotations

from agentd.core.attacks.basis.scheme import Claim, InTurn


class DemoteBest(InTurn):
    """Runs the best arm down."""

    def claims(self) -> list[Claim]:
        return [Claim(self.known.best, 0.0)]

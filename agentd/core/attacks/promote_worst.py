"""promote-worst: all pulls were of the worst arm, and it always paid."""

from __future__ import annotations

from agentd.core.attacks.basis.scheme import Claim, InTurn


class PromoteWorst(InTurn):
    """Praises the worst arm."""

    def claims(self) -> list[Claim]:
        return [Claim(self.known.worst, 1.0)]

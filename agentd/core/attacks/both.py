"""both: the worst arm always paid and the best one never did, in turn."""

from __future__ import annotations

from agentd.core.attacks.basis.scheme import Claim, InTurn


class Both(InTurn):
    """Praises the worst arm and runs the best one down."""

    def claims(self) -> list[Claim]:
        return [Claim(self.known.worst, 1.0), Claim(self.known.best, 0.0)]

"""adaptive-swap: the best arm z deviations below what the honest say of it, the second z above."""

from __future__ import annotations

from agentd.core.attacks.basis.scheme import DEVIATIONS, Adaptive, Claim


class AdaptiveSwap(Adaptive):
    """Closes the gap between the two arms that are hardest to tell apart."""

    def claims(self) -> list[Claim]:
        return [self.beside(self.known.best, -DEVIATIONS), self.beside(self.known.second, DEVIATIONS)]

"""stealth: the best arm a deviation worse, the second a deviation better: no record can be told from luck."""

from __future__ import annotations

from typing import ClassVar

from agentd.core.attacks.basis.scheme import Claim, InTurn


class Stealth(InTurn):
    """Lies no more than honest noise does, but always in the same direction."""

    deviations: ClassVar[float] = 1.0

    def claims(self) -> list[Claim]:
        best, second = self.known.best, self.known.second
        return [
            Claim(best, self.known.means[best], -self.deviations),
            Claim(second, self.known.means[second], self.deviations),
        ]

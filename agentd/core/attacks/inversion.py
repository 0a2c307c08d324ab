"""inversion: of every arm in turn the opposite of what it pays."""

from __future__ import annotations

from agentd.core.attacks.basis.scheme import Claim, InTurn


class Inversion(InTurn):
    """Turns the order of the arms round."""

    def claims(self) -> list[Claim]:
        return [Claim(arm, 1.0 - mean) for arm, mean in enumerate(self.known.means)]

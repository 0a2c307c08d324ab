"""sleeper: honest for so long that everybody trusts it, then as `both`."""

from __future__ import annotations

from agentd.core.attacks.basis.scheme import Claim
from agentd.core.attacks.both import Both

SLEEPS = 100
"""Trials."""


class Sleeper(Both):
    """Tells the truth of all arms in turn, and wakes up."""

    def claims(self) -> list[Claim]:
        return [Claim(arm, mean) for arm, mean in enumerate(self.known.means)]

    def claim(self, trial: int) -> Claim | None:
        """The truth, or what `both` would say."""
        if trial <= SLEEPS:
            return super().claim(trial)
        self._turn += 1
        return Both.claims(self)[self._turn % 2]

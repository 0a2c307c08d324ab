"""adaptive-strike: strikes while nobody knows anything, and falls silent before anybody can hold it against it."""

from __future__ import annotations

from agentd.core.attacks.adaptive.swap import AdaptiveSwap
from agentd.core.attacks.basis.scheme import BUSY_UNTIL, Claim

HARDER = 1.5
"""Times as many deviations: it will not be there when they show."""


class AdaptiveStrike(AdaptiveSwap):
    """Early, hard and then nothing more."""

    def claim(self, trial: int) -> Claim | None:
        """Only while it is early."""
        if trial > BUSY_UNTIL:
            return None
        claim = super().claim(trial)
        return claim and claim._replace(deviations=HARDER * claim.deviations)

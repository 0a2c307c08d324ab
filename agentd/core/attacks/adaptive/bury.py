"""adaptive-bury: everything on the best arm, z deviations below what the honest say, so that nobody looks again."""

from __future__ import annotations

from agentd.core.attacks.basis.scheme import DEVIATIONS, Adaptive, Claim


class AdaptiveBury(Adaptive):
    """An arm that nobody pulls any more meets no evidence."""

    def claims(self) -> list[Claim]:
        return [self.beside(self.known.best, -DEVIATIONS)]

"""adaptive-leader: supports whichever wrong arm the honest think best of now, and runs the best one down."""

from __future__ import annotations

from agentd.core.attacks.basis.scheme import DEVIATIONS, Adaptive, Claim


class AdaptiveLeader(Adaptive):
    """Strengthens the mistake that the honest are nearest to."""

    def claims(self) -> list[Claim]:
        known = self.known
        wrong = [arm for arm in range(len(known.means)) if arm != known.best] or [known.best]
        leader = max(wrong, key=self._esteem)
        return [self.beside(leader, DEVIATIONS), self.beside(known.best, -DEVIATIONS)]

    def _esteem(self, arm: int) -> float:
        pool = self.known.pool
        return pool.mean(arm) if pool is not None and pool.samples[arm] else self.known.means[arm]

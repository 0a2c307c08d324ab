"""Two policies of a stranger that claim a private transcript: one that keeps the claim, and one that does not."""

from __future__ import annotations

from agentd.core.bodies import SEALED
from agentd.core.grid import UNIT
from agentd.core.policy import Algorithm, Intent, register_policy
from agentd.core.policy.base import Released
from agentd.core.policy.sealed import Sealed


class Steady(Sealed):
    """Pulls the arms in turn, whatever anybody says."""

    def choose(self, trial: int) -> int:
        return trial % len(self._open)


class Hasty(Sealed):
    """Leaves the arm that sealed would pull after a good reward of its own, which nobody has noised."""

    _last = 0

    def choose(self, trial: int) -> int:
        return (super().choose(trial) + (2 * self._last > UNIT)) % len(self._open)

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:
        self._last = reward
        return super().observe(intent, reward, told)


for name, make in (("steady", Steady), ("hasty", Hasty)):
    register_policy(
        Algorithm(
            name=name,
            summary="of a stranger",
            tells=SEALED,
            noised=True,
            transcript_private=True,
            make=make,
            disjoint=True,
        )
    )

"""coop-thompson: sealed's rule without privacy, every pull shared at once.

What privacy costs is the difference to this and not to `coop-ucb`: sealed beats that, because Thompson sampling beats
UCB, which would read as if privacy were free. Exact sums and counts are told, as by `coop-ucb`, so the two understand
each other.
"""

from __future__ import annotations

from agentd.core.grid import UNIT
from agentd.core.policy.coins import Coins
from agentd.core.policy.coop_ucb import CoopUcb
from agentd.core.policy.knobs import PolicySettings
from agentd.core.policy.sealed import thompson


class CoopThompson(CoopUcb):
    """Thompson sampling on own rewards and everybody's exact sums."""

    def __init__(self, settings: PolicySettings, own: int, coins: Coins) -> None:
        super().__init__(settings)
        self._order = [(own + step) % settings.arms for step in range(settings.arms)]
        self._coins = coins

    def choose(self, trial: int) -> int:
        """An arm that nobody has told of, each agent beginning elsewhere; then what the group's data speaks for."""
        sums, counts = self.known()
        if not all(counts):
            return next(arm for arm in self._order if not counts[arm])
        indices = thompson(sums, [count * UNIT for count in counts], self._coins.gauss(trial, len(sums)))
        return indices.index(max(indices))

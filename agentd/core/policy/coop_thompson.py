"""coop-thompson: sealed's rule without privacy, every pull shared at once.

What privacy costs is the difference to this and not to `coop-ucb`: sealed beats that, because Thompson sampling beats
UCB, which would read as if privacy were free. Exact sums and counts are told, as by `coop-ucb`, so the two understand
each other.
"""

from __future__ import annotations

from agentd.core.bodies import TOTALS
from agentd.core.grid import UNIT
from agentd.core.policy.coins import Coins, held_since
from agentd.core.policy.coop_ucb import CoopUcb
from agentd.core.policy.knobs import PolicySettings
from agentd.core.policy.sealed import thompson
from agentd.core.terms import Terms


class CoopThompson(CoopUcb):
    """Thompson sampling on own rewards and everybody's exact sums."""

    def __init__(self, settings: PolicySettings, own: int, coins: Coins) -> None:
        super().__init__(settings)
        self._order = [(own + step) % settings.arms for step in range(settings.arms)]
        self._coins = coins
        self._group = 1

    def agree(self, terms: Terms, lifetime: int) -> None:
        """Take note of how many there are, where the terms say so; an agent that hears nobody is alone."""
        self._group = terms.tellers(TOTALS.tag) if lifetime else 1

    def choose(self, trial: int) -> int:
        """An arm that nobody has told of, each agent beginning elsewhere; then what the group's data speaks for."""
        sums, counts = self.known()
        if not all(counts):
            return next(arm for arm in self._order if not counts[arm])
        coins = self._coins.gauss(held_since(trial, self._group), len(sums))
        indices = thompson(sums, [count * UNIT for count in counts], coins)
        return indices.index(max(indices))

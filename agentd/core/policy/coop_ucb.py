"""coop-ucb: cooperative and not private; exact sums and counts are shared (the "non-private version" of figure (a))."""

from __future__ import annotations

from agentd.core.bodies import TOTALS, Kind
from agentd.core.message import Columns, Held, News
from agentd.core.policy.base import Intent, Noiseless, best_arm
from agentd.core.policy.knobs import PolicySettings
from agentd.core.policy.pool import Pool


class CoopUcb(Noiseless):
    """UCB1 on own rewards and everybody's exact sums."""

    def __init__(self, settings: PolicySettings) -> None:
        self._counts = [0] * settings.arms
        self._sums = [0] * settings.arms
        self._told = [0] * settings.arms
        self._pool = Pool(settings.arms)

    def choose(self, trial: int) -> int:
        """Each arm once, then the largest index over the group's data."""
        if (pulls := sum(self._counts)) < len(self._counts):
            return pulls
        return best_arm(*self.known(), trial)

    def known(self) -> tuple[list[int], list[int]]:
        """The sums and counts of the whole group, per arm."""
        sums = [own + others for own, others in zip(self._sums, self._pool.sums, strict=True)]
        return sums, [own + others for own, others in zip(self._counts, self._pool.counts, strict=True)]

    def observe(self, intent: Intent, reward: int, told: int) -> None:
        """Count the reward for oneself and what is told of it for the others."""
        arm = intent.arm
        self._counts[arm] += 1
        self._sums[arm] += reward
        self._told[arm] += told

    def body(self) -> tuple[Kind, list[int]]:
        return TOTALS, [number for pair in zip(self._counts, self._told, strict=True) for number in pair]

    def learn(self, news: News) -> None:
        """Count what the origins have more than before."""
        if news.batch.kind is TOTALS:
            self._pool.grow(news.grown_by)

    def forget(self, rows: Columns, held: Held) -> None:  # noqa: ARG002
        """Drop what the origins said."""
        self._pool.grow(-held[TOTALS])

"""shielded: sealed's releases, aggregated so that liars cannot steer; private and robust at once.

What leaves an agent is what leaves with `sealed`: batches, noise, records. What differs is what an agent makes of the
records of others, because some of them may lie (`shielding` has the rule, `beliefs` holds what it comes to):

- Duty. Each agent has a public duty arm, SHA-256(beacon ‖ id) mod K. Its first batch is on that arm, it plays nothing
  else until that batch is released, and what others hear of it on other arms counts only after that. The beacon is part
  of the run's terms and drawn after the ids are fixed: liars choose where they volunteer, not where they are on duty.
  This batch is larger than `sealed`'s first ones unless many take part: it is what liars are held against. How much is
  known of the arm does not make it longer, so that nobody who comes late, and nobody who is told large numbers, is kept
  at it.
- An arm whose records have changed is settled anew, at most every 1 + ⌊t/16⌋ rounds; the arm with the largest draw
  around the settled mean is chosen, and again until something is settled. An arm's coin is held until the arm is
  settled anew, or coins are tossed as with `sealed`. Volunteers' exploring counts little, so whoever has an arm as its
  duty explores it, and where these are enough others follow the means (`zeal`).
- Batches close on what the agent released itself and what it believes of the others: A = Ao + Σw.

Why it is private. Everything here is post-processing: duty follows from public values, settled means and trust from
records that were released (the agent's own and others') and from counts, and coins are independent of rewards. So in
`sealed`'s argument nothing changes: which arm is pulled, which batch a reward enters and when a batch closes are still
functions of the transcript so far, of what others sent and of coins; batches are disjoint and each is released once,
with noise made for one reward. The transcript is ε-private whoever lies, and whatever trust they have. What is shown
of trust (`trust_in_others`) is computed from released values only.

It takes authenticated origins: one record per origin and trial, of ids from a roster. In an open run anybody can invent
origins, and no rule can help.
"""

from __future__ import annotations

import math

from agentd.core.grid import UNIT
from agentd.core.message import Columns, Held, News
from agentd.core.policy.base import Intent, Released
from agentd.core.policy.beliefs import Beliefs, Doubt
from agentd.core.policy.coins import Coins, held_since
from agentd.core.policy.knobs import PolicySettings
from agentd.core.policy.sealed import VARIANCE, Sealed, least_samples, upper_widths
from agentd.core.policy.shielding import duty_of, worth_of_duty
from agentd.core.privacy.ledger import Release
from agentd.core.terms import BEACON_BYTES, Terms


class Shielded(Sealed):
    """Thompson sampling (or UCB) on what is believed of released records."""

    fades = False

    def __init__(self, settings: PolicySettings, own: int, coins: Coins) -> None:
        super().__init__(settings, own, coins)
        self._id = own
        self._duty = duty_of(bytes(BEACON_BYTES), own, settings.arms)
        self._beliefs = Beliefs(settings.arms, settings.tolerate, self._pool)
        self._tossed = [0.0] * settings.arms
        self._tossed_at = [0] * settings.arms
        self._excused = False  # the budget has refused to release what duty asks for

    def agree(self, terms: Terms, lifetime: int) -> None:
        """Take note of the terms as `sealed` does, and of who has which duty."""
        super().agree(terms, lifetime)
        self._duty = duty_of(terms.beacon, self._id, len(self._own))
        self._beliefs.agree(terms.beacon, terms.ids())

    def choose(self, trial: int) -> int:
        """The arm that settled records speak for; the same again until something is settled anew."""
        if self._beliefs.settle(trial, self._own, self._expected(trial)):
            self._arm = None
        return super().choose(trial)

    def due(self, trial: int, arm: int) -> Release | None:
        """As with `sealed`; nothing is released of other arms before that of its duty."""
        return None if self._on_duty and arm != self._duty else super().due(trial, arm)

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:
        """As with `sealed`; who may not release anything has done its duty."""
        self._excused |= intent.refused and intent.arm == self._duty
        if intent.refused:
            self._arm = None
        return super().observe(intent, reward, told)

    def forget(self, rows: Columns, held: Held) -> None:
        """Drop what is held of the origins, and what speaks against them."""
        super().forget(rows, held)
        self._beliefs.forget(rows)

    def released_means(self) -> list[float | None]:
        """What is believed of each arm; None: nothing that counts was told."""
        believed = zip(self._beliefs.means, self._beliefs.samples, strict=True)
        return [mean / UNIT if samples else None for mean, samples in believed]

    def trust_in_others(self) -> list[Doubt]:
        """Of whom it has heard, how much it trusts each and what speaks against that, those trusted least first."""
        return self._beliefs.doubts()

    def distrusted(self) -> list[int]:
        """Whom it trusts less than half."""
        return self._beliefs.distrusted()

    def changes_of_trust(self) -> list[Doubt]:
        """Who has lost its trust, or regained it, since this was asked last."""
        return self._beliefs.take_changes()

    @property
    def _on_duty(self) -> bool:
        return not self._own[self._duty].pulls and not self._excused

    def _replaced(self, news: News, changed: list[tuple[int, int]]) -> None:
        origin = dict(zip(news.rows.tolist(), news.batch.origin.tolist(), strict=True))
        self._beliefs.changed((origin[row], row, arm) for row, arm in changed)

    def _date_own(self, arm: int) -> None:
        self._beliefs.changed_own(arm)

    def _to_reach(self, arm: int, group: int) -> int:
        least = least_samples(len(self._own), group)
        if self._on_duty:
            return int(worth_of_duty(least, group))
        return max(least, int(self._own[arm].samples) + self._beliefs.weights[arm])

    def _decide(self, trial: int) -> int:
        if self._on_duty:
            return self._duty
        samples = self._beliefs.samples
        if not all(samples):
            return self._pull_blindly(trial, samples)
        means = [mean / UNIT for mean in self._beliefs.means]
        widths = self._draws(trial, samples) if self._thompson else upper_widths(samples)
        indices = [mean + width for mean, width in zip(means, widths, strict=True)]
        return indices.index(max(indices))

    def _draws(self, trial: int, samples: list[int]) -> list[float]:
        """√(1/(4A))·gauss per arm, less on arms that enough others have as their duty."""
        zeal = self._beliefs.zeal(self._duty)
        coins = self._held_coins(trial)
        return [
            math.sqrt(VARIANCE / known) * (coin * eager)
            for known, coin, eager in zip(samples, coins, zeal, strict=True)
        ]

    def _held_coins(self, trial: int) -> list[float]:
        """The coins of each arm, tossed when it was settled last, or all of them at the trials of `held_since`."""
        since = held_since(trial, self._expected(trial))
        for arm, settled_at in enumerate(self._beliefs.settled_at):
            tossed_at = max(settled_at, since)
            if tossed_at != self._tossed_at[arm]:
                self._tossed_at[arm] = tossed_at
                self._tossed[arm] = self._coins.gauss(tossed_at, len(self._tossed))[arm]
        return self._tossed

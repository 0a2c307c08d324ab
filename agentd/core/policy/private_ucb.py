"""private-ucb: Algorithms 1 and 2 of the paper, with its errors 2 to 4 corrected.

Noise is added where rewards arise, before anything leaves: when an arm's pulls reach a threshold of the release series,
the sum so far is released with discrete Laplace noise of scale n^(v/2) rewards, and that one value is what every later
message carries until the next threshold. One release costs n^(−v/2); the ledger holds the composed total.

What the paper overlooks (its error 6): the agent's actions follow its raw rewards, and the counts in the message tell
them. When a sum is released, and over how many pulls, follows from these, too. So ε is that of the noised sums given
the sequence of pulls, which itself leaks: `agentd audit` refutes the ledger's total from arms and counts.
We keep the algorithm as published and say so.

With a privacy budget an arm whose next release would go past it falls silent: its last release goes on being told, with
the count that was told last.
"""

from __future__ import annotations

import math
from operator import add

import numpy as np

from agentd.core.bodies import RELEASED, Kind
from agentd.core.message import Cells, Columns, Held, News
from agentd.core.policy.base import Intent, Released, Snapshot, all_due, best_arm, saved_rows, take_rows
from agentd.core.policy.knobs import PolicySettings
from agentd.core.policy.pool import Pool
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.release import NOTHING, DrawnNoise, release_of, restored
from agentd.core.privacy.series import ReleaseWalk, scale_steps

_KEPT = ("counts", "sums", "told", "released_counts", "released_sums", "silent_at")


class PrivateUcb:
    """UCB on own raw rewards and on the others' noised releases."""

    def __init__(self, settings: PolicySettings) -> None:
        arms = settings.arms
        self._warm_up = arms * math.ceil(1.0 / settings.epsilon)
        self._v = settings.v
        self._walks = [ReleaseWalk(settings.epsilon, settings.v) for _ in range(arms)]
        self._counts = [0] * arms
        self._sums = [0] * arms
        self._told = [0] * arms
        self._released_counts = [0] * arms
        self._released_sums = [NOTHING] * arms
        self._silent_at = [0] * arms  # the count told last, where the budget is spent
        self._pool = Pool(arms)
        self._literal = True  # all bodies so far were of the moment of release: at nominal ε = 1 they always are
        self.ledger = Ledger(budget=settings.epsilon_budget)

    def choose(self, trial: int) -> int:
        """Round robin for K·⌈1/ε⌉ pulls, then the largest index over own data and the group's releases."""
        pulls = sum(self._counts)
        if pulls < self._warm_up:
            return pulls % len(self._counts)
        pool = self._pool
        return best_arm(list(map(add, self._sums, pool.sums)), list(map(add, self._counts, pool.counts)), trial)

    def due(self, trial: int, arm: int) -> Release | None:
        """The arm's sum is released when its pulls reach the threshold."""
        if not self._walks[arm].due:
            return None
        pulls = self._counts[arm] + 1
        return Release(arm, trial, pulls, scale_steps(pulls, self._v))

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:
        """Count the reward; release what is due, or fall silent where the budget refuses it."""
        arm = intent.arm
        self._counts[arm] += 1
        self._sums[arm] += reward
        self._told[arm] += told
        self._walks[arm].step()
        if intent.noise is not None:
            return self._release(intent.noise)
        if intent.refused:
            self._silent_at[arm] = self._silent_at[arm] or self._counts[arm] - 1
        return None

    def body(self) -> tuple[Kind, list[int]]:
        """Per arm: pulls now, pulls at the release, noised sum; zeros while nothing is released."""
        numbers: list[int] = []
        for now, silent_at, at_release, noised in zip(
            self._counts, self._silent_at, self._released_counts, self._released_sums, strict=True
        ):
            numbers += (silent_at or now, at_release, noised) if at_release else (0, 0, NOTHING)
        return RELEASED, numbers

    def learn(self, news: News) -> None:
        """Let what the origins say take the place of what they said."""
        if news.batch.kind is not RELEASED:
            return
        cells = news.batch.cells
        if self._literal and cells[0].tobytes() == cells[1].tobytes():
            self._pool.grow(news.grown_by[::2])
            return
        self._literal = False
        self._pool.grow(_contribution(cells) - _contribution(news.before))

    def forget(self, rows: Columns, held: Held) -> None:  # noqa: ARG002
        """Drop what the origins said."""
        self._pool.grow(-_contribution(held[RELEASED]))

    def snapshot(self) -> Snapshot:
        """Own counts and sums, raw and released."""
        return saved_rows(self, _KEPT)

    def restore(self, snapshot: Snapshot) -> None:
        """Take back a snapshot; what others said comes again by itself."""
        take_rows(self, _KEPT, snapshot)
        self._released_sums = restored(self._released_sums)
        for walk, pulls in zip(self._walks, self._counts, strict=True):
            while walk.pulls < pulls:
                walk.step()

    def discard(self, arm: int | None, trial: int) -> tuple[Release, ...]:
        """Go on without the reward: a sum that runs on is released again and again, and each time is charged."""
        return all_due(self, range(len(self._counts)) if arm is None else (arm,), trial)

    def _release(self, drawn: DrawnNoise) -> Released:
        release, arm = drawn.release, drawn.release.arm
        noised = release_of(self.ledger, drawn, self._told[arm])
        self._released_counts[arm], self._released_sums[arm], self._silent_at[arm] = release.pulls, noised, 0
        return Released(release, noised)


def _contribution(cells: Cells) -> Cells:
    """The pulls of each, and what its releases say that they paid."""
    now, at_release, noised = cells
    return np.stack([now, extrapolated(now, at_release, noised)])


def extrapolated(now: Columns, at_release: Columns, noised: Columns) -> Columns:
    """⌊now · noised / at_release⌋, what the released mean says about all pulls so far; 0 where nothing is released.

    With noised = q·at_release + r it equals now·q + ⌊now·r / at_release⌋, whose products stay inside 64 bits.
    """
    divisor = np.maximum(at_release, 1)
    quotient, rest = np.divmod(noised, divisor)
    contribution: Columns = now * quotient + now * rest // divisor
    return contribution

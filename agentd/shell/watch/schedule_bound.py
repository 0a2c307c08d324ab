"""What an algorithm can have spent on one reward by a trial at most: of an arm that was pulled in every one.

It follows from the settings and the trial alone, and so it may be shown where the ledger may not. Up to some thousand
trials that takes no time; for more it is worked out by a thread, before it is needed.
"""

from __future__ import annotations

import threading

from agentd.core.policy import Algorithm, PolicySettings
from agentd.core.privacy.ledger import Ledger, Release

AT_ONCE = 1 << 12
"""Trials for which nobody notices how long it takes."""
LONGEST = 1 << 20
"""For more, nothing is told."""


class ScheduleBound:
    """Bounds for trials up to each power of two."""

    def __init__(self, algorithm: Algorithm, policy: PolicySettings) -> None:
        self._algorithm = algorithm
        self._policy = policy
        self._known: dict[int, float] = {0: 0.0}
        self._thread: threading.Thread | None = None

    def at(self, trial: int) -> float | None:
        """What was spent by this trial at most; None where that is not known, or not yet."""
        if self._algorithm.schedule is None:
            return None
        pulls = 1 << max(0, trial - 1).bit_length() if trial > 0 else 0
        if pulls <= AT_ONCE and pulls not in self._known:
            self._work_out(pulls)
        for needed in (pulls, 2 * pulls):
            if AT_ONCE < needed <= LONGEST and needed not in self._known:
                self._begin(needed)
                break
        return self._known.get(pulls)

    def _begin(self, pulls: int) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work_out, args=(pulls,), name="schedule", daemon=True)
            self._thread.start()

    def _work_out(self, pulls: int) -> None:
        assert self._algorithm.schedule is not None  # noqa: S101 - the caller has asked
        spent = Ledger(disjoint=self._algorithm.disjoint, budget=self._policy.epsilon_budget)
        for number, scale in enumerate(self._algorithm.schedule(self._policy, pulls), start=1):
            release = Release(0, number, number, scale)
            if spent.admits(release):
                spent.record(release)
        self._known[pulls] = spent.epsilon_one_reward()

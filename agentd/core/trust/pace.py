"""How far anybody can be in a run on free clocks: nobody pulls more often than the terms allow since the run began.

Trial t comes t−1 intervals after the beginning at the earliest. How old the run is, the environment tells once; from
then on everybody's own clock goes on counting. Two things are unsure about that, and each agent takes them to its own
disadvantage, so that no honest agent is refused: the age was measured at some time between asking and hearing the
answer (others are judged from the asking on, our own pulls are paced from the hearing on); and clocks drift (`DRIFT`).
"""

from __future__ import annotations

import math

from agentd.core.message import MAX_TRIAL
from agentd.core.terms import Clock, Terms

DRIFT = 0.001
"""How much faster than ours another clock may go; what keeps clocks right changes their speed by half of it at most."""


class Pace:
    """What an agent knows of the time in a run; times are of its own clock, in seconds."""

    def __init__(self, terms: Terms, *, age_ms: int = 0, asked_s: float = 0.0, heard_s: float = 0.0) -> None:
        known = terms.clock is Clock.FREE and terms.interval_us > 0 and terms.start_ms > 0
        self._interval_s = terms.interval_us / 1e6 if known else 0.0
        self._earliest_s = asked_s - (age_ms + 1) / 1000  # it came in whole milliseconds
        """When the run began, at the earliest."""
        self._latest_s = heard_s - age_ms / 1000

    def latest_trial(self, now_s: float) -> int:
        """The last trial that anybody can have reached by now."""
        if not self._interval_s:
            return MAX_TRIAL
        age_s = max(0.0, now_s - self._earliest_s) * (1 + DRIFT)
        return min(MAX_TRIAL, 1 + math.floor(age_s / self._interval_s))

    def due_s(self, trial: int) -> float:
        """When we may pull for this trial at the earliest."""
        return self._latest_s + (trial - 1) * self._interval_s if self._interval_s else -math.inf


ANY_PACE = Pace(Terms(arms=1, lifetime=None))
"""Where nothing is agreed on."""

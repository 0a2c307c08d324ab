"""Rewards of a shared environment whose arms are real: asked for in threads, and answered when they are there.

A pull that is under way has no answer yet; its agent's request waits in `RequestServer` until it has one. What was
answered is in the journal and never asked for again; what was not, when the environment ended, is asked for again with
the same agent and trial. Nobody knows true means, so there is no regret.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from agentd.real_arms.pulling import Pulling

TRIAL_BITS = 30


class RealDealer:
    """Has arms pulled for all agents."""

    def __init__(self, pulling: Pulling, timeout_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._pulling = pulling
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._under_way: dict[int, tuple[int, int, float]] = {}

    def deal(self, agent: int, trial: int, arm: int) -> int | None:
        """The reward of an agent's next pull, on the grid; None: it is under way, or of another arm than was asked."""
        key, now_s = agent << TRIAL_BITS | trial, self._now_s()
        asked = self._under_way.get(agent)
        if asked is None or asked[0] != trial:
            deadline_s = now_s + self._timeout_s
            self._under_way[agent] = (trial, arm, deadline_s)
            self._pulling.ask(key, arm, trial, deadline_s, agent)
            return None
        _, asked_arm, deadline_s = asked
        if asked_arm != arm or not (self._pulling.has(key) or now_s >= deadline_s):
            return None
        del self._under_way[agent]
        return self._pulling.take(key)

    def conflicts(self, agent: int, trial: int, arm: int) -> bool:
        """Whether this trial is under way with another arm."""
        asked = self._under_way.get(agent)
        return asked is not None and asked[0] == trial and asked[1] != arm

    @property
    def faults(self) -> dict[str, int]:
        """Pulls that counted as the lower bound, by reason."""
        return dict(sorted(self._pulling.faults.items()))

    def close(self) -> None:
        """End the arms, and all that they have started."""
        self._pulling.close()

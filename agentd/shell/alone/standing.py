"""How an agent with arms of its own gets on, told without regret, which nobody knows there, and without raw rewards.

The favoured arm is the one that was pulled most of late, with its share of these pulls and its released mean, S/A, as
it counts for the agent today. Of algorithms whose pulls follow raw rewards nothing is told.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from agentd.core.policy import ALGORITHMS, Policy

LATELY = 100
"""Pulls that the share is one of."""


class Standing:
    """Watches what is pulled."""

    def __init__(self, algorithm: str, bounds: tuple[float, float]) -> None:
        self._is_told = ALGORITHMS[algorithm].transcript_private
        self._low, self._high = bounds
        self._lately: deque[int] = deque(maxlen=LATELY)

    def pulled(self, arm: int) -> None:
        """Note one more pull."""
        self._lately.append(arm)

    def told(self, policy: Policy) -> dict[str, Any]:
        """What may be told of it; nothing before the first pull."""
        if not self._is_told or not self._lately:
            return {}
        ((favoured, times),) = Counter(self._lately).most_common(1)
        said: dict[str, Any] = {"favoured": favoured, "share": round(times / len(self._lately), 3)}
        means = getattr(policy, "released_means", None)
        if means is not None and (mean := means()[favoured]) is not None:
            said["released_mean"] = round(self._low + mean * (self._high - self._low), 6)
        return said

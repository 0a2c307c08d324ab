"""How often the holder of a seat may say hello: returns without state are written to the disk, and welcomes are long.

Who starts, or asks again because nothing came, says hello once a second at most, and seldomer each time. What is beyond
is not answered: an honest agent asks again anyway, and nobody learns anything. Only whoever shows the token of the seat
gets here, so nobody uses up what is another's.
"""

from __future__ import annotations

BURST = 8
PER_S = 1.0


class HelloLimit:
    """A bucket of hellos for each seat; there are as many as there are seats."""

    def __init__(self) -> None:
        self._left: dict[int, tuple[float, float]] = {}

    def allows(self, agent: int, now_s: float) -> bool:
        """Whether one more is answered; those that are not cost nothing."""
        left, at_s = self._left.get(agent, (BURST, now_s))
        left = min(BURST, left + max(0.0, now_s - at_s) * PER_S)
        allowed = left >= 1.0
        self._left[agent] = (left - allowed, now_s)
        return allowed

"""How long the agents of a process keep each other: the processor time that a round of all of them takes.

They go on one after the other, so what one of them hears comes by their order, up to that much apart, and nobody is
late for it. It is measured in processor time, which no neighbour can stretch by being silent.
"""

from __future__ import annotations

from collections.abc import Callable

_AVERAGE = 0.25
"""The weight of the newest round: some take several times as long as others."""


class Crowd:
    """The agents of one process, of which each publishes a frame in a round."""

    def __init__(self, agents: int, spent_s: Callable[[], float]) -> None:
        """`spent_s` tells the processor time that the process has taken so far."""
        self._agents = agents
        self._spent_s = spent_s
        self._frames = 0
        self._began_s = spent_s()
        self.round_s = 0.0
        """0: not known yet."""

    def published(self) -> None:
        """One of them has published its frame of a round."""
        self._frames += 1
        if self._frames == self._agents:
            now_s = self._spent_s()
            took_s = now_s - self._began_s
            self.round_s += (_AVERAGE if self.round_s else 1.0) * (took_s - self.round_s)
            self._frames, self._began_s = 0, now_s

"""Which life of each agent is its present one: what the environment told, and nobody else.

An agent that lost its state comes back under a larger incarnation, and what was known of the older one is void. If it
were enough to say so, anybody could void what others said: so an incarnation is believed only when the environment has
told it. Everybody begins with 0. Whoever hears of a larger one than it knows asks, by reporting soon.

The shell tells (`told`) whenever it likes; the agent takes it up with the next messages it hears.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from agentd.core.message import MAX_AGENT_ID, MAX_INCARNATION, Columns

Life = tuple[int, int]
"""An agent and its incarnation."""


class Lives:
    """What one agent was told of the lives of all."""

    def __init__(self, told: Iterable[Life] = (), known: int = 0) -> None:
        self.known = 0
        """How many changes of incarnations are known; the environment numbers them."""
        self.ask = False
        """Whether an incarnation was heard that is larger than the one known; whoever asks takes it back."""
        self._news: dict[int, int] = {}
        self._present = np.zeros(1, dtype=np.int64)  # the last place is for all that nothing was told of
        self.told(told, known)

    def told(self, pairs: Iterable[Life], known: int | None = None) -> None:
        """Agents and their present incarnations, and how many changes are known with these; older ones are ignored."""
        for agent, incarnation in pairs:
            if not (0 <= agent <= MAX_AGENT_ID and 0 <= incarnation <= MAX_INCARNATION):
                raise ValueError(f"agent {agent} cannot have an incarnation of {incarnation}")
            if incarnation > self.of(agent):
                self._set(agent, incarnation)
                self._news[agent] = incarnation
        self.known = max(self.known, known or 0)

    def of(self, agent: int) -> int:
        """The present incarnation of an agent."""
        return int(self._present[agent]) if agent < len(self._present) - 1 else 0

    def of_all(self, origins: Columns) -> Columns:
        """The present incarnation of each of some agents."""
        present: Columns = self._present.take(origins, mode="clip")
        return present

    @property
    def all_first(self) -> bool:
        """Whether everybody is in its first life."""
        return len(self._present) == 1

    @property
    def changed(self) -> bool:
        """Whether there is something to take."""
        return bool(self._news)

    def take(self) -> dict[int, int]:
        """Who changed its incarnation since the last call, and to which."""
        news, self._news = self._news, {}
        return news

    def _set(self, agent: int, incarnation: int) -> None:
        if agent >= len(self._present) - 1:
            longer = np.zeros(agent + 2, dtype=np.int64)
            longer[: len(self._present)] = self._present
            self._present = longer
        self._present[agent] = incarnation

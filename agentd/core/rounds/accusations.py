"""What is held against neighbours: counted for the environment, and told to people once, with figures."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from agentd.core.trust.blame import Blame, Why

A_WHILE_ROUNDS = 1000
"""How long a neighbour must have behaved before it is named again for the same thing."""


class Accusation(NamedTuple):
    """What people are told of a neighbour."""

    neighbour: int
    why: Why
    figures: dict[str, float]


class Accusations:
    """Counts who did what, and how often."""

    def __init__(self) -> None:
        self._times: Counter[tuple[int, Why]] = Counter()
        self._last_turn: dict[tuple[int, Why], int] = {}
        self._news: list[Accusation] = []

    @property
    def blames(self) -> tuple[Blame, ...]:
        """All, those with the most first."""
        return tuple([Blame(neighbour, why, times) for (neighbour, why), times in self._times.most_common()])

    def add(self, neighbour: int, why: Why, turn: int, **figures: float) -> None:
        """Count one more, in some turn of ours; the first one is for people, and the first after a while."""
        which = neighbour, why
        self._times[which] += 1
        last, self._last_turn[which] = self._last_turn.get(which), turn
        if last is None or turn - last >= A_WHILE_ROUNDS:
            self._news.append(Accusation(neighbour, why, figures))

    def goes_on(self, neighbour: int, why: Why, turn: int) -> None:
        """Who was named for this does not behave yet."""
        if (neighbour, why) in self._last_turn:
            self._last_turn[neighbour, why] = turn

    @property
    def has_news(self) -> bool:
        """Whether people are to be told something."""
        return bool(self._news)

    def take(self) -> list[Accusation]:
        """What people are to be told since the last call."""
        news, self._news = self._news, []
        return news

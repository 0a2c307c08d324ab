"""How an agent regards a neighbour: how stale what it said is, how much came from it, and how far it is trusted.

REPORT carries it to the environment, and people are shown it. Nobody acts upon it: a liar regards others as it likes.
Nothing of it follows from a raw reward: rounds and frames are what everybody sees, and trust is computed by policies
from released values only (`trust_in_others`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

FULL_TRUST = 1_000
UNTOLD = 1_001
"""Stands for the trust of an algorithm that has none to tell."""


class Regard(NamedTuple):
    """One neighbour, as an agent sees it."""

    neighbour: int
    behind: int
    """Rounds between the newest that was heard of it and our own."""
    frames: int
    """That it has numbered since its own start."""
    trust: int
    """In thousandths, or UNTOLD."""


def most_telling(regards: Iterable[Regard], most: int) -> tuple[Regard, ...]:
    """No more than so many: those trusted least, then those that are furthest behind."""
    return tuple(sorted(regards, key=lambda one: (one.trust, -one.behind, one.neighbour))[:most])


def regards_of(
    neighbours: Iterable[tuple[int, int, int]], own_round: int, trust: Mapping[int, int], limits: tuple[int, int]
) -> list[Regard]:
    """Of each neighbour: its number, the newest round and the newest sequence that came from it; within limits."""
    largest_round, largest_count = limits
    return [
        Regard(
            number,
            min(max(0, own_round - round_), largest_round),
            min(sequence, largest_count),
            min(max(0, trust.get(number, UNTOLD)), UNTOLD),
        )
        for number, round_, sequence in neighbours
    ]

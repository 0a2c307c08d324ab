"""What can go wrong on the in-memory network, seeded and written down beforehand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Crash:
    """An agent is down from round `at` until round `back` (0: for good).

    An agent that keeps its state comes back as from its disk: with what it saw and released, and without all it heard.
    """

    agent: int
    at: int
    back: int = 0
    keeps_state: bool = True


@dataclass(frozen=True, slots=True)
class Partition:
    """From round `at` until round `heals` nothing crosses between `side` and the rest."""

    side: frozenset[int]
    at: int
    heals: int

    def cuts(self, sender: int, receiver: int, round_: int) -> bool:
        """Whether this link is cut in this round."""
        return self.at <= round_ < self.heals and (sender in self.side) != (receiver in self.side)


@dataclass(frozen=True, slots=True)
class Faults:
    """Chances per frame and link, and the crashes and partitions that will happen."""

    loss: float = 0.0
    duplication: float = 0.0
    max_delay: int = 0
    """Extra rounds a frame may take, drawn uniformly from 0…max_delay."""
    overtaken: float = 0.0
    """The chance that the next frame on its line arrives before it: it takes one round more, and comes last in it."""
    reorder: bool = False
    """Whether frames that arrive in the same round do so in any order."""
    crashes: tuple[Crash, ...] = ()
    partitions: tuple[Partition, ...] = ()

    def __post_init__(self) -> None:
        for name in ("loss", "duplication", "overtaken"):
            if not 0.0 <= (chance := getattr(self, name)) <= 1.0:
                raise ValueError(f"{name} must be a probability in [0, 1], got {chance}")
        if self.max_delay < 0:
            raise ValueError(f"max_delay must not be negative, got {self.max_delay}")

    def copies(self, sender: int, receiver: int, round_: int, chance: np.random.Generator) -> Iterable[int]:
        """The delays of the copies of a frame that arrive: none when lost, two when duplicated."""
        if any(cut.cuts(sender, receiver, round_) for cut in self.partitions):
            return []
        if self.loss and chance.random() < self.loss:
            return []
        number = 2 if self.duplication and chance.random() < self.duplication else 1
        delays = chance.integers(0, self.max_delay + 1, size=number).tolist() if self.max_delay else [0] * number
        return [delay + (chance.random() < self.overtaken) for delay in delays] if self.overtaken else delays


NO_FAULTS = Faults()

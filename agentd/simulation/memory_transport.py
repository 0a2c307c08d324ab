"""Frames on their way between agents in memory: lost, repeated, delayed and turned round as on a real link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agentd.simulation.network_faults import Faults
from agentd.wire.frame import Frame


class InFlight(NamedTuple):
    """A frame between two agents."""

    arrives: int
    """The round in which it does."""
    order: float
    """Among those that arrive in the same round."""
    receiver: int
    frame: Frame
    size: int


class MemoryTransport:
    """All lines of a network at once; time is the number of the round."""

    def __init__(self, faults: Faults, chance: np.random.Generator) -> None:
        self._faults = faults
        self._chance = chance
        self._in_flight: list[InFlight] = []

    def send(self, frame: Frame, size: int, receiver: int, round_: int) -> None:
        """Put a frame of so many bytes on the line to one neighbour: once, twice, late or not at all."""
        for delay in self._faults.copies(frame.sender, receiver, round_, self._chance):
            order = float(delay) if self._faults.overtaken else 0.0  # who was held up comes after who was not
            if self._faults.reorder:
                order = self._chance.random()
            self._in_flight.append(InFlight(round_ + delay, order, receiver, frame, size))

    def arrivals(self, round_: int) -> list[InFlight]:
        """What arrives in this round, in order."""
        due = [flight for flight in self._in_flight if flight.arrives <= round_]
        self._in_flight = [flight for flight in self._in_flight if flight.arrives > round_]
        due.sort(key=lambda flight: flight.order)
        return due

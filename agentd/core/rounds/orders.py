"""What the rounds ask of whoever holds the sockets."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Do(IntEnum):
    """What whoever holds the sockets is asked to do."""

    GIVE_UP = 1
    """Nothing: it is told that a round went on without this neighbour."""
    WELCOME = 2
    """Nothing: it is told that this neighbour is waited for again."""
    GREET = 3
    """Tell this neighbour where we are: it subscribed, or somebody keeps us waiting."""
    RECONNECT = 4
    """Connect to this neighbour anew."""
    RECONNECT_UNLESS_HEARD = 5
    """The same, unless something from it lies ready to be read: the connection it came over is fine."""
    SHUN = 6
    """Disconnect from this neighbour: it sends without end. Later there will be an order to connect anew."""
    ACCUSE = 7
    """Tell people what this neighbour does: `Rounds.take_accusations`."""


class Order(NamedTuple):
    """One thing to do, and for which neighbour."""

    do: Do
    neighbour: int

"""The one value by which "this round repeats that one" is told; `core.repetition` explains what it is good for."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

_numbers = count(1)
"""Of all rounds that this process reads or takes in, so that no two of them are ever mistaken for each other."""


_made = tuple.__new__
"""In half the time of the constructor; every round makes two."""


class Sequel(NamedTuple):
    """The number of a round, and that of the round which it repeats: the same heads, every trial one later."""

    number: int
    repeats: int
    """0: none that is known."""

    @classmethod
    def to(cls, number: int = 0) -> Sequel:
        """A new round that repeats the one of this number, or none."""
        return _made(cls, (next(_numbers), number))


def follows(sequel: Sequel | None, number: int) -> bool:
    """Whether a round surely repeats the one of this number; 0 is a round that has none."""
    return sequel is not None and 0 < number == sequel.repeats

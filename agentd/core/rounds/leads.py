"""Whose word on being ahead is taken: who was away follows the others, but nobody is led on and on by one of them.

An honest neighbour that is ahead of us is so until we are where it is; from then on it waits for us. One that claims to
be ahead again and again, however often we followed it or looked around in vain, makes everybody near it jump, wait for
those that it left behind, and ask the environment in every round: all slow down, and nobody came too late. So the word
of each neighbour is taken a few times at once, and then only now and then; until then it counts as in step with us.
Where most of the others are, and what the environment says, is believed in any case (`whereabouts`).
"""

from __future__ import annotations

AT_ONCE = 16
"""How often a neighbour is followed without a pause."""
FORGOTTEN_TURNS = 128
"""After so many rounds one of these times is forgotten."""


class Leads:
    """How often each neighbour was followed lately."""

    def __init__(self) -> None:
        self._often: dict[int, tuple[float, int]] = {}

    def is_followed(self, number: int, turn: int) -> bool:
        """Whether a neighbour's word that it is ahead is taken now."""
        return not self._often or self._lately(number, turn) <= AT_ONCE - 1

    def followed(self, number: int, turn: int) -> None:
        """It was, just now."""
        self._often[number] = self._lately(number, turn) + 1, turn

    def _lately(self, number: int, turn: int) -> float:
        often, last = self._often.get(number, (0.0, turn))
        return max(0.0, often - (turn - last) / FORGOTTEN_TURNS)

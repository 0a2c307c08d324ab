"""Agents that lie, for testbeds: Huber contamination at the source or on the way.

A liar pulls and learns honestly. With probability `contamination` the reward it *tells* is replaced by a draw of a
fixed distribution Q. In the relay variant it tells its own rewards truthfully but corrupts, with the same probability,
each message it forwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentd.core.grid import UNIT, quantise
from agentd.core.message import Batch

RELAY_PREFIX = "relay-"
Draws = Callable[[int], NDArray[np.float64]]
"""Uniform numbers in [0, 1), as many as asked for."""


Lies = Callable[[NDArray[np.int64], NDArray[np.float64], float], NDArray[np.int64]]
"""One lie on the grid per honest reward, from a uniform number each and the attack's value."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One distribution of lies."""

    name: str
    lies: Lies
    value: float | None = None
    """What is taken for the number after the name, where there may be one."""
    letter: str = ""
    """What that number is called."""

    @property
    def usage(self) -> str:
        return self.name if self.value is None else f"{self.name}[:{self.letter}]"


ATTACKS = {
    shape.name: shape
    for shape in (
        # the end of the range that is further from the truth
        Shape("worst", lambda honest, _u, _value: np.where(2 * honest >= UNIT, 0, UNIT)),
        Shape("uniform", lambda _honest, u, _value: (u * (UNIT + 1)).astype(np.int64)),
        Shape("bernoulli", lambda _honest, u, value: np.where(u < value, UNIT, 0), 0.5, "p"),
        Shape("point", lambda honest, _u, value: np.full(len(honest), quantise(value), dtype=np.int64), 1.0, "x"),
    )
}
"""Every attack by the name that `--attack` knows it by."""


def register_attack(shape: Shape) -> Shape:
    """Let liars lie in one more way; ValueError where the name is taken."""
    if ATTACKS.setdefault(shape.name, shape) is not shape:
        raise ValueError(f"there is an attack {shape.name!r} already")
    return shape


def known_attacks() -> str:
    """How each of them is typed."""
    return ", ".join(shape.usage for shape in ATTACKS.values())


@dataclass(frozen=True, slots=True)
class Attack:
    """A fixed distribution Q of lies, and where the lie is told."""

    shape: str
    value: float = 0.0
    on_relay: bool = False

    @classmethod
    def parse(cls, text: str) -> Attack:
        """Read the name of an attack, with a number after it where it takes one, and `relay-` before it for relays."""
        name, _, number = text.removeprefix(RELAY_PREFIX).partition(":")
        shape = ATTACKS.get(name)
        if shape is None or (shape.value is None and number):
            raise ValueError(f"unknown attack {text!r}; known are {known_attacks()}, and each with 'relay-' before it")
        usual = 0.0 if shape.value is None else shape.value
        return cls(name, _unit_interval(number, text) if number else usual, text.startswith(RELAY_PREFIX))

    def lies(self, honest: NDArray[np.int64], u: NDArray[np.float64]) -> NDArray[np.int64]:
        """One draw of Q per honest reward, on the grid."""
        return ATTACKS[self.shape].lies(honest, u, self.value)

    def told(self, honest: NDArray[np.int64], contamination: float, u: NDArray[np.float64]) -> NDArray[np.int64]:
        """What is told of each reward; row 0 of `u` decides whether to lie, row 1 draws the lie."""
        return np.where(u[0] < contamination, self.lies(honest, u[1]), honest)


class Liar:
    """What makes one agent byzantine: its attack, how often it strikes, and its own chance."""

    def __init__(self, attack: Attack, contamination: float, draws: Draws) -> None:
        self._attack = attack
        self._contamination = contamination
        self._draws = draws
        self.lies_told = 0

    def tell(self, reward: int) -> int:
        """What to tell of an own reward."""
        if self._attack.on_relay:
            return reward
        told = self._attack.told(np.array([reward]), self._contamination, self._draws(2).reshape(2, 1))[0]
        self.lies_told += int(told != reward)
        return int(told)

    def forward(self, batch: Batch) -> Batch:
        """What to forward of others' messages."""
        if not self._attack.on_relay or not len(batch):
            return batch
        u = self._draws(2 * len(batch)).reshape(2, len(batch))
        struck = u[0] < self._contamination
        self.lies_told += int(np.count_nonzero(struck))
        body = batch.body.copy()
        bent = body[struck]
        batch.kind.bend(bent, lambda honest: self._attack.lies(honest, u[1][struck]))
        body[struck] = bent
        return Batch(batch.kind, batch.head, body, batch.signature)


def _unit_interval(number: str, text: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"the value in attack {text!r} must be a number in [0, 1]")
    return value

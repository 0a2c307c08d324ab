"""Agents that lie, for testbeds: about rewards, on the way, or about everything they say.

A liar pulls and learns honestly. With probability `contamination` the reward it *tells* is replaced by a draw of a
fixed distribution Q (Huber contamination). In the relay variant it tells its own rewards truthfully but corrupts, with
the same probability, each message it forwards. A forger (`core.attacks`) says nothing of its own pulls at all: every
message in its own name is made up.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentd.core.attacks import SCHEMES
from agentd.core.attacks.forger import Body, Forger
from agentd.core.attacks.huber import far_end
from agentd.core.bodies import Kind
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
        Shape("worst", far_end),
        Shape("uniform", lambda _honest, u, _value: (u * (UNIT + 1)).astype(np.int64)),
        Shape("bernoulli", lambda _honest, u, value: np.where(u < value, UNIT, 0), 0.5, "p"),
        Shape("point", lambda honest, _u, value: np.full(len(honest), quantise(value), dtype=np.int64), 1.0, "x"),
    )
}
"""Every lie about rewards, by the name that `--attack` knows it by."""


ALIASES = {"huber": "worst"}
"""Other names: the literature calls after Huber what the paper does."""


def register_attack(shape: Shape) -> Shape:
    """Let liars lie in one more way; ValueError where the name is taken."""
    if shape.name in (*SCHEMES, *ALIASES) or ATTACKS.setdefault(shape.name, shape) is not shape:
        raise ValueError(f"there is an attack {shape.name!r} already")
    return shape


def known_attacks() -> str:
    """How each lie about rewards is typed."""
    return ", ".join(shape.usage for shape in ATTACKS.values())


def known_schemes() -> str:
    """How each attack of the library is typed."""
    return ", ".join([*ALIASES, *SCHEMES])


def in_memory_only(attack: str) -> str:
    """Why agents that are processes refuse an adaptive attack."""
    return (
        f"--attack {attack} must know all that honest agents release, in the round they do; over sockets nobody can, "
        "so it runs in memory only: agentd simulate, agentd experiment"
    )


@dataclass(frozen=True, slots=True)
class Attack:
    """A fixed distribution Q of lies, and where the lie is told."""

    shape: str
    value: float = 0.0
    on_relay: bool = False

    @classmethod
    def parse(cls, text: str) -> Attack:
        """Read the name of an attack, with a number after it where it takes one, and `relay-` before it for relays."""
        if text in SCHEMES:
            return cls(text)
        name, _, number = text.removeprefix(RELAY_PREFIX).partition(":")
        name = ALIASES.get(name, name)
        shape = ATTACKS.get(name)
        if shape is None or (shape.value is None and number):
            raise ValueError(
                f"unknown attack {text!r}{_nearest(text)}; known are {known_attacks()}, and each with 'relay-' before "
                f"it, {known_schemes()}"
            )
        usual = 0.0 if shape.value is None else shape.value
        return cls(name, _unit_interval(number, text) if number else usual, text.startswith(RELAY_PREFIX))

    @property
    def forges(self) -> bool:
        """Whether liars make up all that they say, and not only what their rewards were."""
        return self.shape in SCHEMES

    @property
    def knows_everything(self) -> bool:
        """Whether its liars must be told what honest agents release, which only a network in memory can do."""
        return self.forges and SCHEMES[self.shape].knows_everything

    def lies(self, honest: NDArray[np.int64], u: NDArray[np.float64]) -> NDArray[np.int64]:
        """One draw of Q per honest reward, on the grid."""
        return ATTACKS[self.shape].lies(honest, u, self.value)

    def told(self, honest: NDArray[np.int64], contamination: float, u: NDArray[np.float64]) -> NDArray[np.int64]:
        """What is told of each reward; row 0 of `u` decides whether to lie, row 1 draws the lie."""
        return np.where(u[0] < contamination, self.lies(honest, u[1]), honest)


class Liar:
    """What makes one agent byzantine: its attack, how often it strikes, and its own chance."""

    def __init__(self, attack: Attack, contamination: float, draws: Draws, forger: Forger | None = None) -> None:
        self._attack = attack
        self._contamination = contamination
        self._draws = draws
        self._forger = forger
        self.lies_told = 0

    def tell(self, reward: int) -> int:
        """What to tell of an own reward."""
        if self._attack.on_relay or self._attack.forges:
            return reward
        told = self._attack.told(np.array([reward]), self._contamination, self._draws(2).reshape(2, 1))[0]
        self.lies_told += int(told != reward)
        return int(told)

    def say(self, trial: int, honest: tuple[Kind, Body] | None) -> tuple[Kind, Body] | None:
        """What to say in its own name in place of what its policy would say; None: nothing."""
        if self._forger is None:
            return honest
        said = self._forger.said(trial)
        self.lies_told += said is not None
        return said

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


def _nearest(text: str) -> str:
    """What was perhaps meant."""
    near = difflib.get_close_matches(
        text.removeprefix(RELAY_PREFIX).partition(":")[0], [*ATTACKS, *ALIASES, *SCHEMES], n=1
    )
    return f": did you mean {near[0]}?" if near else ""


def _unit_interval(number: str, text: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"the value in attack {text!r} must be a number in [0, 1]")
    return value

"""The one door through which a secret leaves: it is paid for, then noised, and what comes out is of a type of its own.

Only this module makes a `Noised`. A kind of body says which of its fields hold such values (`Field.noised`), and an
agent refuses to send any other number there; where a policy declares what it has released as `Noised`, mypy refuses a
raw sum before that. So a policy that forgets its noise fails at its first release, and does not leak quietly.

How long a draw takes follows from what is drawn, by about a microsecond. Whoever could measure that between a reward
and what is told of it would know something of the noise, and with it of the reward. So noise is drawn before the reward
is known, by the agent (`Agent.draw`): a policy has no source of noise, only the `DrawnNoise` of the release that it
intends, which is added once, shown nowhere, and kept nowhere but in memory. A policy that would draw late has nothing
to draw from, and an agent refuses a reward as long as noise is not drawn, and a turn that leaves what was drawn unused.

What the types do not know: whether the noise was enough, where a policy got a number that it adds to another, and
whether a number that goes into `computed` by another way than its arguments is public. That is what the audit and the
eyes of a reader are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NoReturn

from agentd.core.privacy.laplace import Noise
from agentd.core.privacy.ledger import Ledger, Release


class _Door:
    """What opens the constructor, and is nowhere but here."""


_DOOR: Final = _Door()


class Noised(int):
    """A number that may leave."""

    __slots__ = ()

    def __new__(cls, door: _Door, value: int) -> Noised:
        """Refuse everybody but this module."""
        if door is not _DOOR:
            raise TypeError("only a release makes a noised value")
        return super().__new__(cls, value)


_made = int.__new__
"""The constructor behind the door: every release of every round comes here."""

NOTHING: Final = Noised(_DOOR, 0)
"""Said where nothing is released yet."""


class DrawnNoise:
    """The noise of one release that is to be made: drawn once, added once."""

    __slots__ = ("_value", "is_drawn", "is_used", "release")

    def __init__(self, release: Release) -> None:
        self.release = release
        self.is_drawn = self.is_used = False
        self._value = 0

    def __repr__(self) -> str:
        return f"DrawnNoise({self.release})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("noise is kept in memory only")

    def draw(self, noise: Noise) -> None:
        """Draw it, before the reward is known."""
        if self.is_drawn:
            raise RuntimeError(f"the noise of {self.release} is drawn once")
        self._value = noise.draw(self.release.arm, self.release.scale)
        self.is_drawn = True


def release_of(ledger: Ledger, drawn: DrawnNoise | None, secret: int) -> Noised:
    """Charge a release, and only then make it, with the noise that was drawn for it."""
    if not isinstance(drawn, DrawnNoise):
        raise TypeError(
            f"a release takes the noise that was drawn for it before the reward, not {type(drawn).__name__}"
        )
    if not drawn.is_drawn or drawn.is_used:
        raise RuntimeError(f"the noise of {drawn.release} was {'used' if drawn.is_used else 'not drawn'}")
    ledger.record(drawn.release)
    value, drawn._value, drawn.is_used = drawn._value, 0, True
    return _made(Noised, secret + value)


def computed(work: Callable[..., int], *released: Noised) -> Noised:
    """What follows from released values and public numbers alone: it costs nothing."""
    return _made(Noised, work(*released))


def restored(released: Iterable[int]) -> list[Noised]:
    """What was released in a life before, from the agent's own state."""
    return [Noised(_DOOR, value) for value in released]

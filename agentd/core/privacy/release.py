"""The one door through which a secret leaves: it is paid for, then noised, and what comes out is of a type of its own.

Only this module makes a `Noised`. A kind of body says which of its fields hold such values (`Field.noised`), and an
agent refuses to send any other number there; where a policy declares what it has released as `Noised`, mypy refuses a
raw sum before that. So a policy that forgets its noise fails at its first release, and does not leak quietly.

What the type does not know: whether the noise was enough, and whether a number that goes into `computed` by another way
than its arguments is public. That is what the audit and the eyes of a reader are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

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


def release_of(ledger: Ledger, release: Release, noise: Noise, secret: int) -> Noised:
    """Charge a release, and only then make it."""
    ledger.record(release)
    return _made(Noised, secret + noise.draw(release.arm, release.scale))


def computed(work: Callable[..., int], *released: Noised) -> Noised:
    """What follows from released values and public numbers alone: it costs nothing."""
    return _made(Noised, work(*released))


def restored(released: Iterable[int]) -> list[Noised]:
    """What was released in a life before, from the agent's own state."""
    return [Noised(_DOOR, value) for value in released]

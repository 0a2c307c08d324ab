"""What a kind of body is, and what an agent remembers of the bodies of a kind that depend on nothing before them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import LINK_BYTES, SIGNATURE_BYTES, Batch, Cells, Columns, News
from agentd.core.privacy.release import Noised
from agentd.core.terms import Terms

Mask = NDArray[np.bool_]

Lie = Callable[[Columns], Columns]
"""What is to be told in place of each of some rewards, on the grid."""

WIRE_TYPES = ("u2", "u4", "u8", "i8")
"""Whole numbers, unsigned or signed, of so many bytes; in memory all are signed and of eight."""


class Field(NamedTuple):
    """One number of a body: its name, its type on the wire, and whether only a release can make it."""

    name: str
    type: str
    noised: bool = False


class Kind(ABC):
    """One kind of body. There is one instance of each, and kinds are compared by identity."""

    tag: int
    """On the wire."""
    name: str
    fields: tuple[Field, ...]
    """The numbers of a body, in the order of the wire."""
    per_arm: bool = False
    """Whether the fields are there once for every arm, or once."""
    tells_its_age: bool = False
    """Whether what is held of its origin tells if a body is old news (`Memory.extent_of`)."""
    chained: bool = False
    """Whether a signed message names the one before it: none replaces another, so each is to be vouched for."""

    def __repr__(self) -> str:
        return self.name

    @property
    def signature_bytes(self) -> int:
        """How long the signature of one message is, with its link where there is one."""
        return SIGNATURE_BYTES + LINK_BYTES * self.chained

    @cached_property
    def noised_places(self) -> tuple[int, ...]:
        """Which of the fields hold only what was noised."""
        return tuple(place for place, field in enumerate(self.fields) if field.noised)

    def width(self, arms: int) -> int:
        """How many integers the body of one message holds."""
        return len(self.fields) * arms if self.per_arm else len(self.fields)

    def require_released(self, body: Sequence[int]) -> None:
        """Refuse an own body that holds a plain number where only a noised one may leave."""
        for place in self.noised_places:
            if set(map(type, body[place :: len(self.fields)])) != {Noised}:
                raise TypeError(
                    f"{self.fields[place].name} of a {self.name} body was never released: only `release_of` makes such "
                    "a number, and `computed` another one of released numbers alone"
                )

    @abstractmethod
    def plausible(self, batch: Batch, terms: Terms) -> Mask:
        """Which messages can be honest, each taken by itself."""

    @abstractmethod
    def bend(self, body: Columns, lie: Lie) -> None:
        """Make bodies, one in a row, tell a lie in place of the rewards that they tell of."""

    def memory(self, terms: Terms) -> Memory:
        """What one agent is to judge bodies of this kind by."""
        return Memory(self, terms)


class Continued(NamedTuple):
    """What `Memory.continued_by` found."""

    news: News
    """What a policy is to learn."""
    honest: Mask | None
    """Which messages pass, the outdated ones included; None stands for all."""


class Extent(NamedTuple):
    """How much messages say, compared with what is held of their origins."""

    subject: Columns
    """What each speaks of: an arm, or 0 where it speaks of all."""
    amount: Columns
    """How much it says of that; what an origin says later is never less."""
    held: Columns
    """How much what is held says of it."""
    honest: Mask
    """Which continue, or lead to, what is held."""

    def rows(self, which: NDArray[np.intp]) -> Extent:
        """That of some of the messages."""
        return Extent(self.subject[which], self.amount[which], self.held[which], self.honest[which])


class Memory:
    """What one agent holds against newer bodies of one kind: of this one, nothing, because each stands for itself."""

    def __init__(self, kind: Kind, terms: Terms) -> None:
        self._kind = kind
        self._terms = terms

    def plausible(self, batch: Batch) -> Mask:
        """Which messages can be honest, each taken by itself."""
        return self._kind.plausible(batch, self._terms)

    def accepts_all(self, batch: Batch, rows: Columns) -> bool:  # noqa: ARG002
        """Whether all of them surely are, as far as is known before they count; nothing is noted."""
        return all_of(self.plausible(batch))

    def continued_by(self, batch: Batch, rows: Columns) -> Continued:
        """Which of the new messages continue what their origins (at `rows`) said before; what is newest is noted."""
        return Continued(News(batch, rows), None)

    def extent_of(self, batch: Batch, rows: Columns) -> Extent | None:  # noqa: ARG002
        """How much messages say beyond what is held of their origins; None where that cannot be told."""
        return None

    def forget(self, rows: Columns) -> Cells | None:  # noqa: ARG002
        """Hold nothing against these origins any more; what was held, where the kind is cumulative."""
        return None


def all_of(mask: Mask) -> bool:
    """What `mask.all()` says, in a fifth of the time; for masks that lie in one piece."""
    return b"\0" not in mask.tobytes()

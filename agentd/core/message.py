"""What agents tell each other: messages ⟨origin, trial, life, body⟩, held in columns.

A frame carries dozens of messages and an agent hears dozens of frames per round, so the core never handles one message
at a time: a `Batch` holds all messages of one kind as integer columns, and everything done to them is done to columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from agentd.core.sequel import Sequel

if TYPE_CHECKING:  # kinds know what messages are; messages need only carry their kind
    from agentd.core.bodies.kind import Kind

MAX_AGENT_ID = (1 << 16) - 1
MAX_TRIAL = (1 << 30) - 1
MAX_LIFETIME = (1 << 16) - 1
MAX_ARMS = 1024
MAX_INCARNATION = (1 << 53) - 1
SIGNATURE_BYTES = 64
LINK_BYTES = 16
"""Behind the signatures of kinds that are chained: which statement came before."""
TOKEN_BYTES = 16
"""Of the secret that holds an agent's seat at the environment."""

Columns = NDArray[np.int64]


class Message(NamedTuple):
    """One message, for reading and for tests; agents work on `Batch`."""

    origin: int
    trial: int
    life: int
    body: tuple[int, ...]
    lifetime: int = 0
    incarnation: int = 0


class HeadField(NamedTuple):
    """One number of a message's head: its name, its type on the wire and its range, which ends below a power of two."""

    name: str
    type: str
    least: int
    most: int


HEAD = (
    HeadField("origin", "u2", 0, MAX_AGENT_ID),
    HeadField("incarnation", "u8", 0, MAX_INCARNATION),
    HeadField("trial", "u4", 1, MAX_TRIAL),
    HeadField("lifetime", "u2", 1, MAX_LIFETIME),
    HeadField("life", "u2", 1, MAX_LIFETIME),
)
"""The columns of `Batch.head`, in the order of the wire; all else about heads follows from it."""
HEAD_WIDTH = len(HEAD)
ORIGIN, INCARNATION, TRIAL, LIFETIME, LIFE = range(HEAD_WIDTH)
ONE_TRIAL_LATER = np.eye(HEAD_WIDTH, dtype=np.int64)[TRIAL]
"""Added to the heads of some messages, it makes those of what the same origins say in their next trial."""


Cells = NDArray[np.int64]
"""Bodies taken apart: field by field, arm by arm, message by message; each field is one run of memory."""


class Packed(Protocol):
    """Bodies as somebody else keeps them, one row each; unpacked only where they are looked at."""

    width: int
    """How many integers each body holds."""

    def take(self, which: NDArray[np.intp]) -> Columns | Packed:
        """Those of some messages."""
        ...

    def unpack(self) -> Cells:
        """The integers they hold, field by field."""
        ...

    def followed_by(self, others: Sequence[Packed]) -> Packed | None:
        """These and others of their kind as one; None where they are not kept alike."""
        ...


class Single:
    """One body, as plain numbers."""

    __slots__ = ("_kind", "numbers", "width")

    def __init__(self, kind: Kind, numbers: Sequence[int]) -> None:
        self._kind = kind
        self.numbers = numbers
        self.width = len(numbers)

    def take(self, which: NDArray[np.intp]) -> Columns:
        return np.array([self.numbers], dtype=np.int64)[which]

    def unpack(self) -> Cells:
        return cells_of(self._kind, np.array([self.numbers], dtype=np.int64))

    def followed_by(self, others: Sequence[Packed]) -> None:
        """One is one."""


class Pile:
    """Bodies of several batches, one after the other, as they are."""

    __slots__ = ("pieces", "width")

    def __init__(self, pieces: Sequence[Batch]) -> None:
        self.pieces = pieces
        self.width = pieces[0].width

    def take(self, which: NDArray[np.intp]) -> Columns:
        return np.concatenate([piece.body for piece in self.pieces])[which]

    def unpack(self) -> Cells:
        return np.concatenate([piece.cells for piece in self.pieces], axis=2)

    def followed_by(self, others: Sequence[Packed]) -> None:
        """It is looked at, or sent, as it is."""


class Batch:
    """Messages of one kind, one row each; never changed once made.

    `head` holds origin, incarnation, trial, lifetime γ and remaining life; `signature` is the origin's signature
    over everything but the remaining life (with its link, where the kind is chained), or has width 0 where origins do
    not sign. `sound` says that every head is known to be within its limits, because the wire refuses others. Bodies may
    come packed: most copies that an agent
    hears repeat others, and theirs are never looked at. Where whoever made it knows, `sequel` says which round it is
    and which one it repeats, and `newest` is the largest trial. Where it matters, `via` is who handed each one over.

    A plain class: a round makes dozens, and a frozen dataclass takes three times as long to make.
    """

    __slots__ = ("_body", "_cells", "_packed", "head", "kind", "newest", "sequel", "signature", "sound", "via", "width")

    def __init__(
        self, kind: Kind, head: Columns, body: Columns | Packed, signature: NDArray[np.uint8], *, sound: bool = False
    ) -> None:
        self.kind = kind
        self.head = head
        self.signature = signature
        self.sound = sound
        self.sequel: Sequel | None = None
        self.newest: int | None = None
        self.via: Columns | None = None
        self._body: Columns | None
        self._cells: Cells | None = None
        self._packed: Packed | None
        if isinstance(body, np.ndarray):
            self._body, self._packed, self.width = body, None, body.shape[1]
        else:
            self._body, self._packed, self.width = None, body, body.width

    def __len__(self) -> int:
        return len(self.head)

    @property
    def body(self) -> Columns:
        """What each message says, one row each."""
        if self._body is None:
            self._body = self.cells.transpose(2, 1, 0).reshape(len(self), self.width)
        return self._body

    @property
    def cells(self) -> Cells:
        if self._cells is None:
            self._cells = cells_of(self.kind, self.body) if self._packed is None else self._packed.unpack()
        return self._cells

    @property
    def packed(self) -> Columns | Packed:
        """The same, packed if it came so."""
        return self.body if self._packed is None else self._packed

    @property
    def origin(self) -> Columns:
        """Who created each message."""
        return self.head[:, ORIGIN]

    @property
    def incarnation(self) -> Columns:
        """Which life of the origin created it."""
        return self.head[:, INCARNATION]

    @property
    def trial(self) -> Columns:
        """The origin's trial it was created at."""
        return self.head[:, TRIAL]

    @property
    def lifetime(self) -> Columns:
        """The γ it left its origin with."""
        return self.head[:, LIFETIME]

    @property
    def life(self) -> Columns:
        """How many hops it may still travel, this one included."""
        return self.head[:, LIFE]

    def rows(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> Batch:
        """The chosen rows as a batch of their own."""
        # Taking numbered rows is several times faster than masking.
        numbers = which.nonzero()[0] if which.dtype == np.bool_ else cast("NDArray[np.intp]", which)
        return self.rows_with(taken(self.head, numbers), numbers)

    def rows_with(self, head: Columns, which: NDArray[np.intp]) -> Batch:
        """The chosen rows under a head of their own."""
        signature = self.signature.take(which, axis=0) if self.signature.shape[1] else unsigned(len(which))
        body = self.body[which] if self._packed is None else self._packed.take(which)
        batch = Batch(self.kind, head, body, signature, sound=self.sound)
        if self.via is not None:
            batch.via = self.via[which]
        return batch

    def signed(self, signature: NDArray[np.uint8]) -> Batch:
        """The same messages under these signatures."""
        return Batch(self.kind, self.head, self.packed, signature, sound=self.sound)

    def numbered(self, sequel: Sequel) -> Batch:
        """The same messages, known to be this round."""
        batch = Batch(self.kind, self.head, self.packed, self.signature, sound=self.sound)
        batch.sequel, batch.newest, batch.via = sequel, self.newest, self.via
        return batch

    def portions(self, most: int) -> list[Batch]:
        """The batch itself, or several of at most so many rows each."""
        if len(self.head) <= most:
            return [self]
        return [self.rows(np.arange(start, min(start + most, len(self)))) for start in range(0, len(self), most)]

    def aged(self) -> Batch:
        """The same messages, all of which may travel on, with one hop less to live."""
        head = self.head.copy("K")
        head[:, LIFE] -= 1
        return Batch(self.kind, head, self.packed, self.signature, sound=self.sound)

    def messages(self) -> list[Message]:
        """The rows as values, for people and tests."""
        return [
            Message(origin, trial, life, tuple(body), lifetime, incarnation)
            for (origin, incarnation, trial, lifetime, life), body in zip(
                self.head.tolist(), self.body.tolist(), strict=True
            )
        ]


def taken(table: Columns, which: NDArray[np.intp] | Columns) -> Columns:
    """Some rows of a table that lies column by column, so that each column is again one run of memory."""
    return table.T.take(which, axis=1).T


def cells_of(kind: Kind, body: Columns) -> Cells:
    """Bodies taken apart."""
    fields = len(kind.fields)
    return np.ascontiguousarray(body.reshape(len(body), body.shape[1] // fields, fields).transpose(2, 1, 0))


_NO_CELLS = np.zeros((0, 0, 0), dtype=np.int64)


class News(NamedTuple):
    """Messages that a policy is to learn from, each never heard before."""

    batch: Batch
    """Of a cumulative kind at most one of each origin, newer than all it said before."""
    rows: Columns
    """The origins' rows in per-origin tables."""
    before: Cells = _NO_CELLS
    """What those of a cumulative kind take the place of, zeros where there was nothing."""
    grown_by: Cells = _NO_CELLS
    """By how much the new ones exceed it."""


Held: TypeAlias = "Mapping[Kind, Cells]"
"""The newest bodies of some origins, per cumulative kind."""


@lru_cache(maxsize=1024)
def unsigned(rows: int) -> NDArray[np.uint8]:
    """The signature column of messages without signatures; there is nothing in it, so all may have the same."""
    return np.empty((rows, 0), dtype=np.uint8)


def batch_of(kind: Kind, messages: Iterable[Message]) -> Batch:
    """Put messages into columns; a message without a lifetime gets its remaining life."""
    rows = list(messages)
    head = [(m.origin, m.incarnation, m.trial, m.lifetime or m.life, m.life) for m in rows]
    width = len(rows[0].body) if rows else 0
    return Batch(
        kind,
        np.array(head, dtype=np.int64).reshape(len(rows), HEAD_WIDTH),
        np.array([m.body for m in rows], dtype=np.int64).reshape(len(rows), width),
        unsigned(len(rows)),
    )


def join(batches: Sequence[Batch]) -> Batch:
    """Stack batches of one kind and shape."""
    if len(batches) == 1:
        return batches[0]
    head = np.concatenate([b.head for b in batches])
    signed = batches[0].signature.shape[1] > 0
    joined = Batch(
        batches[0].kind,
        head,
        _joined(batches) or Pile(batches),
        np.concatenate([b.signature for b in batches]) if signed else unsigned(len(head)),
        sound=all(b.sound for b in batches),
    )
    handed_over = [b.via for b in batches if b.via is not None]
    if len(handed_over) == len(batches):
        joined.via = np.concatenate(handed_over)
    return joined


def _joined(batches: Sequence[Batch]) -> Packed | None:
    """Their bodies as one, where all came packed and alike."""
    bodies = [batch._packed for batch in batches if batch._packed is not None]
    return bodies[0].followed_by(bodies[1:]) if len(bodies) == len(batches) else None


def by_kind(batches: Iterable[Batch]) -> list[Batch]:
    """One batch per kind, body width and signature width, in order of first appearance; empty ones vanish."""
    batches = list(batches)
    if len(batches) == 1 and len(batches[0].head):
        return batches
    groups: dict[tuple[Kind, int, int], list[Batch]] = {}
    for batch in batches:
        if len(batch.head):
            groups.setdefault((batch.kind, batch.width, batch.signature.shape[1]), []).append(batch)
    return [join(group) for group in groups.values()]

"""What agents tell each other: messages ⟨origin, trial, life, body⟩, held in columns.

Two types keep the promise of privacy apart. An `Observation` is raw: an arm and the reward it paid. It has no kind, no
columns and no way to become bytes. A `Batch` is what leaves an agent: rows that a policy released on purpose.

A frame carries dozens of messages and an agent hears dozens of frames per round, so the core never handles one message
at a time: a `Batch` holds all messages of one kind as integer columns, and everything done to them is done to columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_AGENT_ID = (1 << 16) - 1
MAX_TRIAL = (1 << 30) - 1
MAX_LIFETIME = (1 << 16) - 1
MAX_ARMS = 1024
MAX_INCARNATION = (1 << 53) - 1
SIGNATURE_BYTES = 64

Columns = NDArray[np.int64]


class Kind(IntEnum):
    """The type tag of a body; the numbers are on the wire, so they are only ever appended."""

    RELEASED = 1
    """private-ucb: per arm (pulls now, pulls at the release, noised sum)."""
    TOTALS = 2
    """coop-ucb: per arm (pulls, exact sum)."""
    SAMPLE = 3
    """byzantine-ucb: (arm, reward) of one trial."""
    SEALED = 4
    """sealed: all that was released of one arm, (arm, pulls, batches, effective samples, weighted noised sum)."""

    @property
    def cumulative(self) -> bool:
        """Whether the newest message of an origin says all that its older ones said."""
        return self in _PER_ARM


_PER_ARM = {Kind.RELEASED: 3, Kind.TOTALS: 2}
_ONCE = {Kind.SAMPLE: 2, Kind.SEALED: 5}


def body_width(kind: Kind, arms: int) -> int:
    """How many integers the body of one message holds."""
    return _PER_ARM[kind] * arms if kind in _PER_ARM else _ONCE[kind]


@dataclass(frozen=True, slots=True)
class Observation:
    """A raw reward; it stays with the agent that saw it."""

    arm: int
    reward: int


class Message(NamedTuple):
    """One message, for reading and for tests; agents work on `Batch`."""

    origin: int
    trial: int
    life: int
    body: tuple[int, ...]
    lifetime: int = 0
    incarnation: int = 0


ORIGIN, INCARNATION, TRIAL, LIFETIME, LIFE = range(5)
"""The columns of `Batch.head`."""
HEAD_WIDTH = 5


class Batch:
    """Messages of one kind, one row each; never changed once made.

    `head` holds origin, incarnation, trial, lifetime γ and remaining life; `signature` is the origin's signature
    over everything but the remaining life, or has width 0 where origins do not sign. `sound` says that every head is
    known to be within its limits, because the wire refuses others.

    A plain class: a round makes dozens, and a frozen dataclass takes three times as long to make.
    """

    __slots__ = ("body", "head", "kind", "signature", "sound")

    def __init__(
        self, kind: Kind, head: Columns, body: Columns, signature: NDArray[np.uint8], *, sound: bool = False
    ) -> None:
        self.kind = kind
        self.head = head
        self.body = body
        self.signature = signature
        self.sound = sound

    def __len__(self) -> int:
        return len(self.head)

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
        if which.dtype == np.bool_:
            which = which.nonzero()[0]  # taking numbered rows is several times faster than masking
        signature = self.signature.take(which, axis=0) if self.signature.shape[1] else unsigned(len(which))
        # Heads lie column by column, so that a taken column is again one run of memory.
        head = self.head.T.take(which, axis=1).T
        return Batch(self.kind, head, self.body.take(which, axis=0), signature, sound=self.sound)

    def portions(self, most: int) -> list[Batch]:
        """The batch itself, or several of at most so many rows each."""
        if len(self) <= most:
            return [self]
        return [self.rows(np.arange(start, min(start + most, len(self)))) for start in range(0, len(self), most)]

    def aged(self) -> Batch:
        """The same messages, all of which may travel on, with one hop less to live."""
        head = self.head.copy("K")
        head[:, LIFE] -= 1
        return Batch(self.kind, head, self.body, self.signature, sound=self.sound)

    def messages(self) -> list[Message]:
        """The rows as values, for people and tests."""
        return [
            Message(origin, trial, life, tuple(body), lifetime, incarnation)
            for (origin, incarnation, trial, lifetime, life), body in zip(
                self.head.tolist(), self.body.tolist(), strict=True
            )
        ]


def unsigned(rows: int) -> NDArray[np.uint8]:
    """The signature column of messages without signatures."""
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
    return Batch(
        batches[0].kind,
        head,
        np.concatenate([b.body for b in batches]),
        np.concatenate([b.signature for b in batches]) if signed else unsigned(len(head)),
        sound=all(b.sound for b in batches),
    )


def by_kind(batches: Iterable[Batch]) -> list[Batch]:
    """One batch per kind, body width and signature width, in order of first appearance; empty ones vanish."""
    groups: dict[tuple[Kind, int, int], list[Batch]] = {}
    for batch in batches:
        if len(batch):
            groups.setdefault((batch.kind, batch.body.shape[1], batch.signature.shape[1]), []).append(batch)
    return [join(group) for group in groups.values()]

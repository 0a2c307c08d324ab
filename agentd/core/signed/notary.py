"""Who makes and tests signatures, as the core sees it; and what is kept of what was found genuine."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from agentd.core.message import Batch

HALF_BYTES = 2 << 20
"""How much is kept, at least, and half of what is kept at most: the older half is forgotten at once."""
_BESIDE = 300
"""Bytes that an entry takes beside what was said, about."""


class Notary(Protocol):
    """Signs for one agent, and knows everybody's public key."""

    def statements(self, batch: Batch) -> list[bytes]:
        """What the origin of each message has signed if it is genuine: all of it but the remaining life."""
        ...

    def link_to(self, statement: bytes) -> bytes:
        """How the next message of a chained kind names this statement."""
        ...

    def is_genuine(self, origin: int, statement: bytes, signature: bytes) -> bool:
        """Whether this origin has signed this statement."""
        ...

    def sign(self, batch: Batch) -> Batch:
        """Own messages under our signature; whoever would sign two statements for one trial fails instead."""
        ...


class Said(NamedTuple):
    """A statement, and the signature under it."""

    statement: bytes
    signature: bytes


Key = tuple[int, int, int]
"""Origin, incarnation and trial: of each an honest origin makes one statement."""


class Equivocation(NamedTuple):
    """Two statements that one origin has signed for one trial of one life."""

    origin: int
    trial: int
    first: Said
    second: Said


class Genuine:
    """What was found genuine lately. Nothing else gets in, so nobody can push it out but who signs for itself."""

    def __init__(self, half_bytes: int = HALF_BYTES) -> None:
        self._half_bytes = half_bytes
        self._newer: dict[Key, Said] = {}
        self._older: dict[Key, Said] = {}
        self._bytes = 0

    def get(self, key: Key) -> Said | None:
        """What was found genuine under this key, if that is still known."""
        return self._newer.get(key) or self._older.get(key)

    def put(self, key: Key, said: Said) -> None:
        """Keep it for a while."""
        self._newer[key] = said
        self._bytes += len(said.statement) + len(said.signature) + _BESIDE
        if self._bytes > self._half_bytes:
            self._older, self._newer, self._bytes = self._newer, {}, 0

    def forget(self) -> None:
        """Somebody has another key now."""
        self._older, self._newer, self._bytes = {}, {}, 0

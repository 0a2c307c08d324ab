"""A disk: what is written is there for the process, what is synced survives the machine, and it may be full.

Older contents are kept, so that somebody can restore a copy.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

MOST_COPIES = 8
Change = tuple[int, bytes]
"""Bytes, and where they are put."""


class SimulatedDisk:
    """The storage of one agent's state, over all its lives."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._written = bytearray()
        self._synced = b""
        self._pending: list[Change] = []
        self.is_full = False
        self.sync_s = 0.0
        self.waits: Callable[[float], None] = lambda _seconds: None
        self.passes: Callable[[str], None] = lambda _edge: None
        """Told of each place in the work at which the agent may die."""
        self.copies: list[bytes] = []
        """The last contents that were synced, the newest last."""

    def read(self) -> bytes:
        return bytes(self._written)

    def write(self, offset: int, data: bytes) -> None:
        """In two halves, between which the process may die."""
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left")
        half = len(data) // 2
        self._put(offset, data[:half])
        self.passes("torn write")
        self._put(offset + half, data[half:])

    def sync(self) -> None:
        self.passes("before sync")
        self.waits(self.sync_s)
        self._settle()
        self.passes("after sync")

    def replace(self, data: bytes) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left")
        self.waits(self.sync_s)
        self._written = bytearray(data)
        self._settle()

    def close(self) -> None:
        """Nothing to let go of."""

    def lose_power(self) -> None:
        """The machine dies: of what was not synced, any part may be there."""
        contents = bytearray(self._synced)
        for offset, data in self._pending:
            if self._chance.random() < 0.5:
                _put(contents, offset, data[: int(len(data) * self._chance.random())])
        self._written = contents
        self._pending = []

    def restore(self, age: int) -> None:
        """Put an older copy in place of all."""
        if self.copies:
            self._written = bytearray(self.copies[max(0, len(self.copies) - 1 - age)])
            self._settle()

    def wipe(self) -> None:
        """Everything is gone."""
        self._written = bytearray()
        self.copies = []
        self._settle()

    @property
    def synced(self) -> bytes:
        """What would survive the machine."""
        return self._synced

    def _put(self, offset: int, data: bytes) -> None:
        self._pending.append((offset, data))
        _put(self._written, offset, data)

    def _settle(self) -> None:
        self._synced = bytes(self._written)
        self._pending = []
        self.copies = [*self.copies[1 - MOST_COPIES :], self._synced]


def _put(contents: bytearray, offset: int, data: bytes) -> None:
    contents.extend(bytes(max(0, offset + len(data) - len(contents))))
    contents[offset : offset + len(data)] = data

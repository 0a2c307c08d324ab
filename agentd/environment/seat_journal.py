"""Who took which seat, and who came back without state: on disk before the reply leaves.

A file beside the journal of pulls, whose lock protects it too: a 32-byte header and 48-byte records, little-endian, in
the order in which things happened:

    header  magic "agentdSJ" · version u32 · record size u32 · run 8 bytes · zeros 8 bytes
    record  change u16 · agent u16 · CRC-32 of all else u32 · trials pulled before u64 · hash 32 bytes

It is flushed to the disk with every batch: a seat that a machine forgot when it lost power would be anybody's. What a
killed process or machine leaves behind is handled as with pulls: a torn record at the end, or zeros there, are cut off;
anything else that does not fit means that somebody else changed the file, and then nothing is repaired.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from agentd.environment.pull_journal import append_all, read_whole, whole_bytes
from agentd.environment.seating import NO_HASH, SeatChange, SeatEvent
from agentd.errors import ConfigurationError
from agentd.files import open_own
from agentd.wire.frame import RUN_BYTES

NAME = "seats.journal"

_MAGIC = b"agentdSJ"
_VERSION = 1
_HEADER = struct.Struct(f"<8sII{RUN_BYTES}s8x")
_RECORD = struct.Struct(f"<HHIQ{len(NO_HASH)}s")
_CHANGES = frozenset(SeatChange)
_LONGEST = 1 << 30


class SeatJournal:
    """The open journal of one run directory; whoever opens it holds the lock of the pulls'."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, directory: Path) -> SeatJournal:
        """Open the journal of a run directory, making an empty one if there is none; only its owner may read it."""
        path = directory / NAME
        return cls(path, open_own(path, os.O_RDWR | os.O_APPEND))

    def close(self) -> None:
        os.close(self._descriptor)

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def begin(self, run: bytes) -> None:
        """Write the header of a new journal."""
        os.ftruncate(self._descriptor, 0)
        append_all(self._descriptor, self.path, _header(run))
        os.fsync(self._descriptor)

    def append(self, events: Sequence[SeatEvent]) -> None:
        """Write changes down in one go, and wait for the disk."""
        append_all(self._descriptor, self.path, b"".join(map(_packed, events)))
        os.fsync(self._descriptor)

    def read(self, run: bytes) -> tuple[list[SeatEvent], int]:
        """All changes, and how many bytes of a torn record were cut off."""
        if self.size > _LONGEST:
            raise self.damaged("no run has so many seats")
        content = read_whole(self._descriptor)
        if content[: _HEADER.size] != _header(run):
            raise self.damaged("it is not the journal of this run")
        whole = whole_bytes(content, _HEADER.size, _RECORD.size)
        if torn := len(content) - whole:
            os.ftruncate(self._descriptor, whole)
        places = range(_HEADER.size, whole, _RECORD.size)
        return [self._event(content[at : at + _RECORD.size], number) for number, at in enumerate(places, 1)], torn

    def damaged(self, why: str) -> ConfigurationError:
        """The complaint about a journal that cannot be trusted."""
        return ConfigurationError(f"{self.path} is damaged: {why}; restore it or name another --run-dir")

    def _event(self, record: bytes, number: int) -> SeatEvent:
        change, agent, _, trials, digest = _RECORD.unpack(record)
        if change in _CHANGES and _packed(event := SeatEvent(SeatChange(change), agent, trials, digest)) == record:
            return event
        raise self.damaged(f"record {number} is not what was written")


def _header(run: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, _VERSION, _RECORD.size, run)


def _packed(event: SeatEvent) -> bytes:
    check = crc32(_RECORD.pack(event.change, event.agent, 0, event.trials, event.digest))
    return _RECORD.pack(event.change, event.agent, check, event.trials, event.digest)

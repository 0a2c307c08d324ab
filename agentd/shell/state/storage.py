"""Where the bytes of a state lie: a file that is written in place, or memory for who only rehearses."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

from agentd.files import open_own

NEW = ".new"
"""Ends the name of a file that is not whole yet."""


class Storage(Protocol):
    """Bytes that outlive their writer."""

    def read(self) -> bytes:
        """Everything."""
        ...

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes somewhere; a death of the machine may leave any part of them."""
        ...

    def sync(self) -> None:
        """Return when everything that was written would survive the machine."""
        ...

    def replace(self, data: bytes) -> None:
        """Put other bytes in place of all; whenever the machine dies, the old ones are there or the new ones."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Memory:
    """Bytes of this process."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def read(self) -> bytes:
        return bytes(self._bytes)

    def write(self, offset: int, data: bytes) -> None:
        missing = offset + len(data) - len(self._bytes)
        self._bytes.extend(bytes(max(0, missing)))
        self._bytes[offset : offset + len(data)] = data

    def sync(self) -> None:
        """Nothing to wait for."""

    def replace(self, data: bytes) -> None:
        self._bytes = bytearray(data)

    def close(self) -> None:
        """Nothing to let go of."""


class Disk:
    """A file that only its owner may read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with contextlib.suppress(FileNotFoundError):  # of a process that died before it was whole
            path.with_name(path.name + NEW).unlink()
        self._file = _opened(path)

    def read(self) -> bytes:
        """From the file that is open, whatever has its name by now."""
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(0)
            return file.read()

    def write(self, offset: int, data: bytes) -> None:
        _write(self._file, offset, data)

    def sync(self) -> None:
        os.fdatasync(self._file)

    def replace(self, data: bytes) -> None:
        """Make a new file beside it, and give it the name when it is whole."""
        beside = self._path.with_name(self._path.name + NEW)
        beside.unlink(missing_ok=True)
        file = _opened(beside)
        try:
            _write(file, 0, data)
            os.fsync(file)
            beside.replace(self._path)
        except OSError:
            os.close(file)
            raise
        self._file, old = file, self._file
        os.close(old)
        _sync_directory(self._path.parent)

    def close(self) -> None:
        os.close(self._file)


def _opened(path: Path) -> int:
    return open_own(path, os.O_RDWR)


def _write(file: int, offset: int, data: bytes) -> None:
    left = memoryview(data)
    while left:  # a disk that is nearly full takes a part, and refuses the rest when asked again
        written = os.pwrite(file, left, offset)
        left, offset = left[written:], offset + written


def _sync_directory(place: Path) -> None:
    directory = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

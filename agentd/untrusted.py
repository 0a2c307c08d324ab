"""Files that somebody else may have written: read without waiting, without end and without faith in what they say.

A run directory may come from another machine, and what runs in a container writes into parts of it. So nothing is
opened that is no plain file (a pipe would be waited for), no link is followed inside the directory, no more is read
than a file of its kind ever holds, JSON is counted before it is decoded, and text for people drives no terminal.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

LONGEST_JSON = 16 << 20
"""Bytes of a JSON file in a run directory; the status of a thousand agents takes one in sixteen of them."""
MOST_VALUES = 1_000_000
"""Values in it: a list of empty lists takes thirty times the memory of its text."""
DEEPEST = 32
"""Objects and lists inside each other."""

_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ENTERING = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_in(directory: Path, name: str) -> int:
    """Open a file inside a directory for reading: plain, reached by no link, its directory's owner's or ours.

    OSError where it is not so, or not there.
    """
    *rooms, file = name.split("/")
    place = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for room in rooms:
            inner = os.open(room, _ENTERING, dir_fd=place)
            os.close(place)
            place = inner
        owners = {os.fstat(place).st_uid, os.geteuid()}
        descriptor = os.open(file, _READING | os.O_NOFOLLOW, dir_fd=place)
    finally:
        os.close(place)
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_uid not in owners:
        os.close(descriptor)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise OSError(errno.EINVAL, "it is not a plain file of its directory's owner")
    return descriptor


def read_in(directory: Path, name: str, limit: int = LONGEST_JSON) -> bytes:
    """All of a file inside a directory; ValueError where it is longer than its kind can be."""
    return _all_of(open_in(directory, name), limit)


def read_named(path: str | Path, limit: int) -> bytes:
    """All of a file that an operator named, perhaps by a link; ValueError where it is no file, or too long."""
    descriptor = os.open(path, _READING)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is not a file")
    return _all_of(descriptor, limit)


def read_json_in(directory: Path, name: str, limit: int = LONGEST_JSON) -> Any:
    """What a JSON file inside a directory holds; OSError or ValueError, in few words, where it cannot be taken."""
    return decode_json(read_in(directory, name, limit))


def decode_json(content: bytes, most: int = MOST_VALUES) -> Any:
    """JSON of bounded breadth and depth; ValueError for anything else."""
    require_few(content, most)
    try:
        data = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _require_flat(data)
    return data


def require_few(content: bytes, most: int = MOST_VALUES) -> None:
    """Refuse a text with more values than that, before it is decoded."""
    if sum(map(content.count, (b",", b"[", b"{"))) > most:
        raise ValueError(f"it holds more than {most} values")


def printable(text: str) -> str:
    """The text on one line without what drives a terminal: control characters, escapes, and what turns text around."""
    return "".join(char if char.isprintable() else "?" for char in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(map(printable, text.split("\n")))


def _all_of(descriptor: int, limit: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise ValueError(f"it is longer than {limit} bytes")
        return file.read(size)  # what was added since can wait; and room for the limit would be taken at once


def _require_flat(data: Any) -> None:
    level = [data] if isinstance(data, (dict, list)) else []
    for _ in range(DEEPEST):
        inside = (part.values() if isinstance(part, dict) else part for part in level)
        level = [each for part in inside for each in part if isinstance(each, (dict, list))]
        if not level:
            return
    raise ValueError("it is nested too deeply")

"""What hostile or broken workers would send, as work that a real worker does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agentd.cluster.errand import Errand


class Trap:
    """Whoever unpickles it makes a directory."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._place),)


def same(task: Any) -> Any:
    return task


def as_trap(place: Any) -> Any:
    return Trap(place)


def failing(task: Any) -> Any:
    raise RuntimeError("\x1b[2J out of order")


def taken(_task: Any, content: bytes) -> bytes:
    return content


def as_bytes(done: Any) -> bytes:
    return str(done).encode()


class Smuggled(bytes):
    """Bytes that pickle as a trap."""

    place: Path

    def __add__(self, other: Any) -> Any:
        return self

    def __radd__(self, other: Any) -> Any:
        return Trap(self.place)


def smuggle(place: Any) -> bytes:
    made = Smuggled(b"")
    made.place = place
    return made


TRAP = Errand(same, smuggle, taken)
BROKEN = Errand(failing, as_bytes, taken)

"""Work that may be done elsewhere, and how a worker does it.

A worker is sent a function of this package by its name, and a task. What it sends back are bytes whose first one says
what they are; the function that takes them apart believes nothing (`Errand.unpack`). A worker that has another agentd,
numpy or plug-in than the command refuses: its numbers would be others.
"""

from __future__ import annotations

import hashlib
import platform
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from agentd import __version__, plugins
from agentd.errors import AgentdError

Task = TypeVar("Task")
Done = TypeVar("Done")

DONE, REFUSED, FAILED = b"d", b"r", b"f"
"""What the rest of an answer is: a result, why this worker does not work for this command, what went wrong."""

_ONE_AT_A_TIME = threading.Lock()
"""A worker with several threads does one task after the other: what it computes with was not made for threads."""


@dataclass(frozen=True, slots=True)
class Errand(Generic[Task, Done]):
    """Functions of modules, because they travel by name."""

    work: Callable[[Task], Done]
    pack: Callable[[Done], bytes]
    unpack: Callable[[Task, bytes], Done]
    """In the command again; ValueError, in few words, for what no measurement of this task can be."""


@dataclass(frozen=True, slots=True)
class Sameness:
    """What must be the same on both sides for the same numbers."""

    parts: dict[str, str]
    plugins: frozenset[str]
    """Digests of the files behind AGENTD_PLUGINS."""

    def fault_of(self, worker: Sameness) -> str | None:
        """What a worker has otherwise, in words."""
        for name, mine in self.parts.items():
            if (theirs := worker.parts.get(name)) != mine:
                return f"it has {name} {theirs}, the command {mine}"
        if missing := len(self.plugins - worker.plugins):
            return (
                f"it lacks {missing} of the command's plug-ins: start it with {plugins.VARIABLE} naming the same files"
            )
        return None


def sameness() -> Sameness:
    """Of this process, with its plug-ins loaded."""
    plugins.load()
    parts = {
        "agentd": f"{__version__} ({_digest_of_sources()})",
        "numpy": np.__version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }
    return Sameness(parts, frozenset(digest for entry in plugins.entries() for digest in [_digest_of(entry)]))


def perform(errand: Errand[Any, Any], task: Any, command: Sameness) -> bytes:
    """One task in a worker; whatever happens is told in bytes."""
    with _ONE_AT_A_TIME:
        try:
            if fault := command.fault_of(sameness()):
                return REFUSED + fault.encode()
            return DONE + errand.pack(errand.work(task))
        except AgentdError as fault:
            return FAILED + str(fault).encode()
        except Exception as fault:  # it is told in words, because Dask would tell it by pickle
            return FAILED + f"{type(fault).__name__}: {fault}".encode()


@cache
def _digest_of_sources() -> str:
    """Names the sources that decide the numbers, since two checkouts may have one version."""
    digest = hashlib.sha256()
    for package in ("agentd", "topology"):
        found = find_spec(package)
        root = Path(found.origin).parent if found is not None and found.origin else Path()
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{package}/{path.relative_to(root).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _digest_of(entry: str) -> str:
    """Of the file that an entry of AGENTD_PLUGINS stands for, wherever it lies."""
    path = plugins.file_in(entry)
    if path is None:
        found = find_spec(entry.partition(":")[0])
        path = Path(found.origin) if found is not None and found.origin else None
    return hashlib.sha256(path.read_bytes() if path is not None else entry.encode()).hexdigest()

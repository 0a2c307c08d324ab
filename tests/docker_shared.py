"""Docker as what all tests of a machine share, other checkouts' too: nobody leaves its swarm while others run.

A node that leaves its swarm cuts every container off from every network that is attachable, and docker-compose (the
old one, 1.29) makes all its networks so: the agents of another test would ask for their environment in vain from then
on, and end with 69 a minute later.
"""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

LOCK = Path(tempfile.gettempdir()) / "agentd-test-docker.lock"
_held: list[IO[str]] = []
"""The lock of the test that this process runs, if that uses Docker."""


def share() -> None:
    """From here to the end of its test somebody has containers: others may have theirs, and nobody leaves the swarm."""
    if not _held:
        lock = LOCK.open("a")
        fcntl.flock(lock, fcntl.LOCK_SH)
        _held.append(lock)


def give_back() -> None:
    """The test is over."""
    while _held:
        _held.pop().close()


@contextmanager
def alone() -> Iterator[None]:
    """Once no other test has containers; Docker is shared again afterwards.

    Two that want this at once do not wait for each other: flock lets go of the old lock before it asks for the new one.
    """
    share()
    fcntl.flock(_held[0], fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(_held[0], fcntl.LOCK_SH)

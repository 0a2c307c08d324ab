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
GATE = LOCK.with_suffix(".gate")
"""Whoever waits to be alone stands in it, so that no newcomer is let in before: else that wait might never end."""
_held: list[IO[str]] = []
"""The lock of the test that this process runs, if that uses Docker."""


def share() -> None:
    """From here to the end of its test somebody has containers: others may have theirs, and nobody leaves the swarm."""
    if not _held:
        with _gate():
            _take(fcntl.LOCK_SH)


def give_back() -> None:
    """The test is over."""
    while _held:
        _held.pop().close()


@contextmanager
def alone() -> Iterator[None]:
    """Once no other test has containers; Docker is shared again afterwards.

    Our own share is given back first: two that want this at once would wait for each other's.
    """
    give_back()
    with _gate():
        _take(fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(_held[0], fcntl.LOCK_SH)


@contextmanager
def _gate() -> Iterator[None]:
    with GATE.open("a") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _take(how: int) -> None:
    lock = LOCK.open("a")
    fcntl.flock(lock, how)
    _held.append(lock)

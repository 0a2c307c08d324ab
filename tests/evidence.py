"""Waiting for evidence, and what something costs: the one place of the tests where a clock is read.

Nothing sleeps: whoever needs something to have happened names what shows it, and goes on as soon as it shows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 120.0
"""More than anything takes, even on a machine that is busy with other tests: reaching it is a failure."""
GLANCE_S = 0.01

Found = TypeVar("Found")


def until(look: Callable[[], Found], within_s: float = PATIENCE_S) -> Found:
    """What `look` finds, as soon as it finds something; fails when it never does."""
    between_looks = threading.Event()
    deadline_s = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline_s, f"no evidence within {within_s:g} s"
        between_looks.wait(GLANCE_S)
    return found


def cpu_s_of(act: Callable[[], object]) -> float:
    """The processor time that this process spends on something, however busy the machine is."""
    before_s = time.process_time()
    act()
    return time.process_time() - before_s


def wall_ms() -> int:
    """The time of day, in milliseconds since 1970, as terms have it."""
    return time.time_ns() // 1_000_000


def in_s(seconds: float) -> float:
    """The time so many seconds from now, for what takes deadlines."""
    return time.monotonic() + seconds

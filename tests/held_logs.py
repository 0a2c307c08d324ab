"""A process that works for a testbed, as the kernel sees it: it has the testbed's log open for writing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.plan.names import STDERR, SUPERVISOR_LOG


def opened_logs(place: Path) -> list[int]:
    """The logs that its supervisor and its children write to, open in this process."""
    (place / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
    how = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return [os.open(place / name, how, 0o600) for name in (SUPERVISOR_LOG, STDERR)]


def started_for(place: Path, program: str = "import signal; signal.pause()", **how: Any) -> subprocess.Popen[bytes]:
    """Another process that works for the testbed in that directory."""
    descriptors = opened_logs(place)
    try:
        return subprocess.Popen([sys.executable, "-c", program], pass_fds=descriptors, **how)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def working_for(place: Path) -> Iterator[None]:
    """This process is the supervisor, and whatever children are said to be it."""
    descriptors = opened_logs(place)
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)

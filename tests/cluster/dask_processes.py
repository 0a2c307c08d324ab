"""A Dask scheduler and its workers on loopback, as processes that do not outlive their block."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evidence import until

HERE = Path(__file__).parent
_QUIET = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")


class DaskProcesses:
    """`address` is the scheduler's."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._running = [self._started("scheduler", "--port", "0", "--scheduler-file", str(place / "scheduler.json"))]
        written = place / "scheduler.json"
        until(lambda: written.is_file() and written.read_text(encoding="utf-8").strip())
        self.address: str = json.loads(written.read_text(encoding="utf-8"))["address"]

    def worker(self) -> subprocess.Popen[bytes]:
        """One more, with one thread, which nobody restarts."""
        self._running.append(self._started("worker", self.address, "--nthreads", "1", "--no-nanny"))
        return self._running[-1]

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def _started(self, what: str, *words: str) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        with (self._place / "dask.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", what, *words, *_QUIET],
                env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
                stdout=log,
                stderr=log,
            )


@contextmanager
def dask_on_loopback(place: Path) -> Iterator[DaskProcesses]:
    """A scheduler, for as long as the block lasts."""
    started = DaskProcesses(place)
    try:
        yield started
    finally:
        started.end()

"""The health file: a few words about this process, for `agentd health` and container health checks to read.

Written beside and moved, so that a reader sees all of it; meant for a place in memory (/dev/shm, /run). A process that
was not told of a file writes none and pays nothing.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agentd.files import PUBLIC, replacing
from agentd.shell.json_log import Log

if TYPE_CHECKING:
    from agentd.shell.watch.watcher import Watcher

BEAT_EVERY_S = 1.0
"""How often whoever is well says so again, at most."""
PATIENCE = 3.0
"""How many times its longest round an agent may take before it counts as stuck."""
LONGEST_FRESH_S = 1e9
"""Of who may wait for ever."""
LEAST_FRESH_S = 10.0
"""A busy machine makes anybody wait for seconds."""


class Health:
    """Tells how a process is; every call is cheap, and without a path does nothing."""

    def __init__(self, path: str | None, *, role: str, number: int | None, log: Log) -> None:
        self._path = Path(path) if path is not None else None
        self._about = {"role": role, "id": number, "pid": os.getpid()}
        self._log = log
        self._last = ("starting", 0, LEAST_FRESH_S)
        self.watcher: Watcher | None = None
        """Who else wants to know how it is; None: nobody."""

    def say(self, state: str, *, trial: int = 0, fresh_s: float = LEAST_FRESH_S) -> None:
        """Write the state, which holds for `fresh_s` seconds unless it is said again."""
        self._last = (state, trial, max(LEAST_FRESH_S, fresh_s))
        self._write()
        if self.watcher is not None:
            self.watcher.said(state)

    def beat(self, trial: int | None = None) -> None:
        """Say the last state again, perhaps at another trial."""
        state, before, fresh_s = self._last
        self._last = (state, before if trial is None else trial, fresh_s)
        self._write()

    @property
    def state(self) -> str:
        """The last one that was said."""
        return self._last[0]

    @property
    def wanted(self) -> bool:
        """Whether anybody reads it."""
        return self._path is not None

    def _write(self) -> None:
        if self._path is None:
            return
        state, trial, fresh_s = self._last
        now_s = time.clock_gettime(time.CLOCK_MONOTONIC)
        content = {**self._about, "state": state, "trial": trial, "written_s": now_s, "fresh_s": fresh_s}
        try:
            with replacing(self._path, mode=PUBLIC, shared=True) as file:  # there is no secret in it
                file.write(json.dumps(content).encode())
        except OSError as fault:  # an agent that works must not end because nobody can see it
            self._log.warning("no health file", path=str(self._path), why=fault.strerror)
            self._path = None

"""Which arm each agent favours: the one that it pulled most often lately.

That is the environment's view, which sees every pull; rewards are never looked at. Finished runs have a table of pulls,
runs under way a journal that grows, of which only what is new is read.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.environment.pull_journal import COLUMNS, HEADER_BYTES, NAME
from agentd.runs.regret import NOT_PULLED
from agentd.runs.status import APART
from agentd.untrusted import open_in

LATELY = 20
"""Pulls that say what an agent favours."""
NOBODY = -1
"""Stands for no arm: nothing was pulled."""
_MOST_COUNTED = 4_000_000
"""Agents times arms that are counted at once; with more the last pull decides."""
_MOST_READ = 8 << 20
"""Bytes of a journal that are read in one go."""

Arms = NDArray[np.int32]


def favoured(pulls: NDArray[np.integer[Any]], arms: int) -> Arms:
    """The arm that each agent pulled most in a table (agents × trials); the lowest of several, NOBODY for none."""
    agents = pulls.shape[0]
    if not pulls.shape[1]:
        return np.full(agents, NOBODY, dtype=np.int32)
    if agents * arms > _MOST_COUNTED:
        return np.where(pulls[:, -1] < arms, pulls[:, -1], NOBODY).astype(np.int32)
    who, when = np.nonzero(pulls < arms)
    counts = np.bincount(who * arms + pulls[who, when], minlength=agents * arms).reshape(agents, arms)
    return np.where(counts.any(axis=1), counts.argmax(axis=1), NOBODY).astype(np.int32)


class GrowingPulls:
    """What every agent pulled lately, and how often each arm, from a journal that somebody is writing."""

    def __init__(self, run_dir: Path, agents: int, arms: int) -> None:
        self._run_dir = run_dir
        self._arms = arms
        self._read = HEADER_BYTES
        self._recent = np.full((agents, LATELY), NOT_PULLED, dtype=np.uint16)
        self.counts = np.zeros((agents, arms if agents * arms <= _MOST_COUNTED else 0), dtype=np.int64)
        """How often each agent pulled each arm; no columns where that would be too much."""

    def look(self) -> bool:
        """Read what is new, up to a bound; whether there was anything."""
        new = self._new_records()
        if not len(new):
            return False
        known = new[(new["agent"] < len(self._recent)) & (new["arm"] < self._arms)]
        if self.counts.size:
            np.add.at(self.counts, (known["agent"].astype(np.int64), known["arm"].astype(np.int64)), 1)
        self._remember(known)
        return True

    def favoured(self) -> Arms:
        return favoured(self._recent, self._arms)

    def _remember(self, known: NDArray[np.void]) -> None:
        order = np.argsort(known["agent"], kind="stable")
        agents, starts = np.unique(known["agent"][order], return_index=True)
        for agent, arms in zip(agents.tolist(), np.split(known["arm"][order], starts[1:]), strict=False):
            self._recent[agent] = np.concatenate([self._recent[agent], arms])[-LATELY:]

    def _new_records(self) -> NDArray[np.void]:
        for name in (NAME, f"{APART}/{NAME}"):
            with contextlib.suppress(OSError):
                return self._records_of(open_in(self._run_dir, name))
        return np.empty(0, dtype=COLUMNS)

    def _records_of(self, descriptor: int) -> NDArray[np.void]:
        with os.fdopen(descriptor, "rb") as file:
            file.seek(self._read)
            content = file.read(_MOST_READ)
        whole = len(content) - len(content) % COLUMNS.itemsize
        self._read += whole
        return np.frombuffer(content[:whole], dtype=COLUMNS)

"""What is measured of a testbed that runs: memory and descriptors of every process, and how far everybody is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentd.runs.status import read_status
from deploy.plan.names import ENVIRONMENT, agent_name
from deploy.testbed.control import ask

_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment."""

    pid: int
    rss_mb: float
    descriptors: int


@dataclass(frozen=True, slots=True)
class Sample:
    """A testbed at one moment."""

    at_s: float
    processes: Mapping[str, Process]
    """By name; who is down is not in it."""
    trials: tuple[int, ...]
    round: int
    """That everybody has closed who was up."""
    pulls: int
    dropped: int
    group_regret: float
    held: frozenset[int] = field(default_factory=frozenset)
    """Agents that are down, paused or cut off because the soak wants it so."""

    def agent(self, agent: int) -> Process | None:
        return self.processes.get(agent_name(agent))

    @property
    def environment(self) -> Process | None:
        return self.processes.get(ENVIRONMENT)


def take_sample(run_dir: Path, agents: int, at_s: float, held: frozenset[int]) -> Sample | None:
    """Look at everything once; None before the environment has said how the run is doing."""
    status = read_status(run_dir)
    if status is None:
        return None
    up = {child["name"]: child["pid"] for child in ask(run_dir, "status")["children"] if child["pid"] is not None}
    looked = {name: look(int(pid)) for name, pid in up.items()}
    trials = {agent.id: agent.trial for agent in status.agents}
    return Sample(
        at_s,
        {name: process for name, process in looked.items() if process is not None},
        tuple(trials.get(agent, 0) for agent in range(agents)),
        status.round(but=held),
        status.pulls,
        status.dropped,
        status.group_regret,
        held,
    )


def look(pid: int) -> Process | None:
    """Memory and descriptors of a process; None where it has just ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return Process(pid, pages * _PAGE_MB, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))
    except (OSError, IndexError, ValueError):
        return None

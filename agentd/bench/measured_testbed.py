"""A testbed for measuring: `agentd up` as a person runs it.

Everything is read from what it leaves behind (logs, reports) and from /proc while it runs; nothing is built in for the
benchmark.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from agentd.errors import AgentdError

ALGORITHM = "private-ucb"
GAMMA = 2
WARM_UP = 100
"""Rounds before the clock runs, as the bare loop's clock runs from its barrier on; a milestone of the log."""
LOOK_EVERY_S = 0.1
ENVIRONMENT = "environment"
"""The name of its process; all others are agents."""

Look = Callable[[Path], None]
"""Looks at the run directory of a testbed while that runs."""


class Run:
    """What one testbed left behind."""

    def __init__(self, place: Path, started: float) -> None:
        logs = sorted((place / "logs").glob("agent-*.jsonl"))
        events = {log.stem: list(_events(log)) for log in logs}
        ready = max(when for lines in events.values() for what, _, when in lines if what == "ready")
        done, trials = next((when, trial) for what, trial, when in events["agent-0"] if what == "done")
        self.ready_s = ready - started
        self.milestones = milestones(place)
        self.rounds_per_s = (trials - WARM_UP) / (done - self.milestones[WARM_UP])
        self.lost = sum(what == "neighbour down" for lines in events.values() for what, _, _ in lines)
        self.reports = json.loads((place / "reports.json").read_text(encoding="utf-8"))["reports"]


def run_testbed(flags: list[str], look: Look, *, algorithm: str = ALGORITHM) -> Run:
    """Run a testbed to its end, and look at it all the while."""
    with tempfile.TemporaryDirectory() as home:
        place = Path(home) / "run"
        command = [sys.executable, "-m", "agentd", "up", "--no-state", "--json", "--run-dir", str(place)]
        command += ["--algorithm", algorithm, "--gamma", str(GAMMA), *flags]
        started = time.time()
        with (Path(home) / "err").open("w+b") as err:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err)
            while process.poll() is None:
                look(place)
                time.sleep(LOOK_EVERY_S)
            if process.returncode:
                err.seek(0)
                raise AgentdError(f"agentd up failed: {err.read().decode(errors='replace').strip()[-300:]}")
        return Run(place, started)


def milestones(place: Path) -> dict[int, float]:
    """When agent 0 reached every hundredth trial."""
    return {trial: when for what, trial, when in _events(place / "logs" / "agent-0.jsonl") if what == "progress"}


def processes_of(place: Path) -> dict[str, int]:
    """The process numbers of a testbed's agents and of its environment, by name."""
    children = json.loads((place / "testbed.json").read_text(encoding="utf-8"))["children"]
    return {name: int(mark["pid"]) for name, mark in children.items()}


def _events(log: Path) -> Iterator[tuple[str, int, float]]:
    for line in log.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):  # else it is being written
            said = json.loads(line)
            when = datetime.fromisoformat(said["timestamp"].replace("Z", "+00:00")).timestamp()
            yield said["event"], int(said.get("trial", 0)), when

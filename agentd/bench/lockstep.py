"""Lockstep on real processes: `agentd up` against the bare loop, taken in turns in one run.

Everything is read from what a testbed leaves behind (logs, reports) and from /proc while it runs; nothing is built in
for the benchmark.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from multiprocessing.context import ForkServerContext
from pathlib import Path
from statistics import median
from typing import Any

from agentd.bench.bare import bare_rounds_per_second
from agentd.bench.sample import spread
from agentd.errors import AgentdError
from agentd.simulate.spec import Network

ALGORITHM = "private-ucb"
GAMMA = 2
WARM_UP = 100
"""Rounds before the clock runs, as the bare loop's clock runs from its barrier on; a milestone of the log."""
FLAT_AGENTS = 20
FLAT_ROUNDS = 2200
_PRELOADED = ["numpy", "zmq", "msgpack", "structlog", "agentd.bench.bare"]

Say = Callable[[str], None]
FreePorts = Callable[[int], list[int]]


def bench_lockstep(
    network: Network, graph_file: Path, free_ports: FreePorts, *, rounds: int, repetitions: int, say: Say
) -> dict[str, Any]:
    """Rounds per second of agents and of the bare loop once they run, start-up time and memory per agent.

    Every run of the bare loop lies between two of the agents and is compared with the mean of both: how fast a machine
    is drifts from one minute to the next.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    flags = ["--topology", str(graph_file), "--gamma", str(GAMMA), "--rounds", str(WARM_UP + rounds)]
    say(f"{network.agents} agents, {rounds} rounds of {ALGORITHM}")
    ours = [_testbed(flags)]
    bare: list[float] = []
    for repetition in range(1, repetitions + 1):
        say(f"  {ours[-1].rounds_per_s:.2f} rounds/s; now the bare loop, {repetition} of {repetitions}")
        bare.append(_bare(context, network, free_ports(network.agents), ours[-1], rounds))
        say(f"  {bare[-1]:.2f} rounds/s; now agents again")
        ours.append(_testbed(flags))
    say(f"  {ours[-1].rounds_per_s:.2f} rounds/s")
    ratios = [
        (before.rounds_per_s + after.rounds_per_s) / 2 / yardstick
        for (before, after), yardstick in zip(pairwise(ours), bare, strict=True)
    ]
    return {
        "agents": network.agents,
        "rounds": rounds,
        "algorithm": ALGORITHM,
        "rounds_per_s": spread([run.rounds_per_s for run in ours]),
        "bare_rounds_per_s": spread(bare),
        "ratio": spread(ratios),
        "first_round_after_s": spread([run.ready_s for run in ours]),
        "pss_mb_per_agent": spread([run.pss_mb for run in ours]),
        "rss_mb_per_agent": spread([run.rss_mb for run in ours]),
        "lost_rounds": sum(run.lost for run in ours),
    }


def bench_flatness(repetitions: int) -> dict[str, Any]:
    """Whether a round grows dearer: rounds 200–400 against rounds 2,000–2,200 of one run."""
    flags = ["--agents", str(FLAT_AGENTS), "--rounds", str(FLAT_ROUNDS), "--gamma", str(GAMMA)]
    milestones = [_testbed(flags).milestones for _ in range(repetitions)]
    early = [reached[400] - reached[200] for reached in milestones]
    late = [reached[2200] - reached[2000] for reached in milestones]
    return {
        "agents": FLAT_AGENTS,
        "early_s": spread(early),
        "late_s": spread(late),
        "late_over_early": spread([after / before for before, after in zip(early, late, strict=True)]),
    }


class _Run:
    """What one testbed left behind."""

    def __init__(self, place: Path, started: float, memory: list[tuple[float, float]]) -> None:
        logs = sorted((place / "logs").glob("agent-*.jsonl"))
        events = {log.stem: list(_events(log)) for log in logs}
        ready = max(when for lines in events.values() for what, _, when in lines if what == "ready")
        first = events["agent-0"]
        done = next(when for what, _, when in first if what == "done")
        trials = next(trial for what, trial, _ in first if what == "done")
        self.ready_s = ready - started
        self.milestones = {trial: when for what, trial, when in first if what == "progress"}
        self.rounds_per_s = (trials - WARM_UP) / (done - self.milestones[WARM_UP])
        self.lost = sum(what == "neighbour down" for lines in events.values() for what, _, _ in lines)
        self.pss_mb = median(pss for pss, _ in memory) if memory else 0.0
        self.rss_mb = median(rss for _, rss in memory) if memory else 0.0
        self.reports = json.loads((place / "reports.json").read_text(encoding="utf-8"))["reports"]


def _testbed(flags: list[str]) -> _Run:
    with tempfile.TemporaryDirectory() as home:
        place = Path(home) / "run"
        command = [
            sys.executable,
            "-m",
            "agentd",
            "up",
            "--no-state",
            "--json",
            "--algorithm",
            ALGORITHM,
            "--run-dir",
            str(place),
        ]
        started = time.time()
        with (Path(home) / "err").open("w+b") as err:
            process = subprocess.Popen([*command, *flags], stdout=subprocess.DEVNULL, stderr=err)
            memory: list[tuple[float, float]] = []
            while process.poll() is None:
                memory = _memory_once_ready(place, memory)
                time.sleep(0.2)
            if process.returncode:
                err.seek(0)
                raise AgentdError(f"agentd up failed: {err.read().decode(errors='replace').strip()[-300:]}")
        return _Run(place, started, memory)


def _bare(context: ForkServerContext, network: Network, ports: list[int], run: _Run, rounds: int) -> float:
    """The bare loop with frames as long as those the agents sent, on average."""
    bytes_of = {report["agent"]: report["bytes"] / max(1, report["trial"]) for report in run.reports}
    lengths = [round(bytes_of.get(agent, 0) / max(1, len(peers))) for agent, peers in enumerate(network.neighbours)]
    return bare_rounds_per_second(context, network, ports, lengths, rounds)


def _events(log: Path) -> Iterator[tuple[str, int, float]]:
    for line in log.read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        when = datetime.fromisoformat(said["timestamp"].replace("Z", "+00:00")).timestamp()
        yield said["event"], int(said.get("trial", 0)), when


def _memory_once_ready(place: Path, known: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Proportional and resident memory of each agent in MB, taken once, when the last agent has begun its rounds."""
    if known:
        return known
    try:
        status = json.loads((place / "status.json").read_text(encoding="utf-8"))
        children = json.loads((place / "testbed.json").read_text(encoding="utf-8"))["children"]
    except (OSError, ValueError, KeyError):
        return known
    if not status.get("agents") or min(agent["trial"] for agent in status["agents"]) < 5:
        return known
    return [_memory_of(int(mark["pid"])) for name, mark in children.items() if name.startswith("agent-")]


def _memory_of(pid: int) -> tuple[float, float]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0, 0.0
    # The kernel's kB are of 1,024 bytes, our MB of a million.
    megabytes = {line.split(":")[0]: int(line.split()[1]) * 1024 / 1e6 for line in lines[1:]}
    return megabytes["Pss"], megabytes["Rss"]

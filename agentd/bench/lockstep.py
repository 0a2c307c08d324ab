"""Lockstep on real processes: `agentd up` against the bare loop, taken in turns in one run."""

from __future__ import annotations

import json
import multiprocessing
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from multiprocessing.context import ForkServerContext
from pathlib import Path
from statistics import median
from typing import Any

from agentd import fork_server
from agentd.bench.bare import Place, bare_rounds_per_second
from agentd.bench.measured_testbed import ALGORITHM, ENVIRONMENT, WARM_UP, Run, processes_of, run_testbed
from agentd.bench.repetitions import spread
from agentd.runs.spec import Network

SETTLED = 5
"""The trial that all have reached when memory is looked at."""
_PRELOADED = ["numpy", "zmq", "msgpack", "structlog", "agentd.bench.bare"]

Say = Callable[[str], None]
Open = Callable[[int], AbstractContextManager[Sequence[Place]]]
"""Opens as many places, of one transport, for as long as they are needed."""


def bench_lockstep(
    network: Network,
    graph_file: Path,
    transport: str,
    places: Open,
    *,
    rounds: int,
    repetitions: int,
    per_process: str = "1",
    say: Say,
) -> dict[str, Any]:
    """Rounds per second of agents and of the bare loop once they run, start-up time and memory per agent.

    Both over the same transport. Every run of the bare loop lies between two of the agents and is compared with the
    mean of both: how fast a machine is drifts from one minute to the next.
    """
    fork_server.end_at_exit()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    flags = ["--topology", str(graph_file), "--rounds", str(WARM_UP + rounds), "--transport", transport]
    if per_process != "1":
        flags += ["--per-process", per_process]
    say(f"{network.agents} agents, {rounds} rounds of {ALGORITHM} over {transport}")
    memories = [MemoryUse() for _ in range(repetitions + 1)]
    ours = [run_testbed(flags, memories[0])]
    bare: list[float] = []
    for repetition in range(1, repetitions + 1):
        say(f"  {ours[-1].rounds_per_s:.2f} rounds/s; now the bare loop, {repetition} of {repetitions}")
        with places(network.agents) as opened:
            bare.append(_bare(context, network, opened, ours[-1], rounds))
        say(f"  {bare[-1]:.2f} rounds/s; now agents again")
        ours.append(run_testbed(flags, memories[repetition]))
    say(f"  {ours[-1].rounds_per_s:.2f} rounds/s")
    ratios = [
        (before.rounds_per_s + after.rounds_per_s) / 2 / yardstick
        for (before, after), yardstick in zip(pairwise(ours), bare, strict=True)
    ]
    return {
        "agents": network.agents,
        "per_process": per_process,
        "transport": transport,
        "rounds": rounds,
        "algorithm": ALGORITHM,
        "rounds_per_s": spread([run.rounds_per_s for run in ours]),
        "bare_rounds_per_s": spread(bare),
        "ratio": spread(ratios),
        "first_round_after_s": spread([run.ready_s for run in ours]),
        "pss_mb_per_agent": spread([memory.pss_mb for memory in memories]),
        "rss_mb_per_agent": spread([memory.rss_mb for memory in memories]),
        "lost_rounds": sum(run.lost for run in ours),
    }


def _bare(context: ForkServerContext, network: Network, places: Sequence[Place], run: Run, rounds: int) -> float:
    """The bare loop with frames as long as those the agents sent, on average."""
    bytes_of = {report["agent"]: report["bytes"] / max(1, report["trial"]) for report in run.reports}
    lengths = [round(bytes_of.get(agent, 0) / max(1, len(peers))) for agent, peers in enumerate(network.neighbours)]
    return bare_rounds_per_second(context, network, places, lengths, rounds)


class MemoryUse:
    """Memory of each agent in MB, taken once, when the last agent has begun its rounds."""

    def __init__(self) -> None:
        self._each: list[tuple[float, float]] = []

    def __call__(self, place: Path) -> None:
        if self._each:
            return
        try:
            agents = json.loads((place / "status.json").read_text(encoding="utf-8"))["agents"]
            if agents and min(agent["trial"] for agent in agents) >= SETTLED:
                sharing = Counter(pid for name, pid in processes_of(place).items() if name != ENVIRONMENT)
                self._each = [_memory_of(pid, agents) for pid, agents in sharing.items()]
        except (OSError, ValueError, KeyError):  # they have not started, or have ended
            return

    @property
    def pss_mb(self) -> float:
        """Pages that several processes share are counted in parts."""
        return median(pss for pss, _ in self._each) if self._each else 0.0

    @property
    def rss_mb(self) -> float:
        """All that is resident."""
        return median(rss for _, rss in self._each) if self._each else 0.0


def _memory_of(pid: int, agents: int) -> tuple[float, float]:
    """Of each of so many agents of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    # The kernel's kB are of 1,024 bytes, our MB of a million.
    megabytes = {line.split(":")[0]: int(line.split()[1]) * 1024 / 1e6 for line in lines[1:]}
    return megabytes["Pss"] / agents, megabytes["Rss"] / agents

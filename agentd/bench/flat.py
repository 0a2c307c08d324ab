"""Whether a round grows dearer with the history: early rounds against late ones of the same agents.

The speed of a machine drifts by more, within such a run, than a round may grow. So the agents' processor time is told
in that of the environment over the same rounds: a pull is the same work whenever it comes, and on a slow minute both
are slow. What the clock and the processor say by themselves is told beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from agentd.bench.measured_testbed import ENVIRONMENT, milestones, processes_of, run_testbed
from agentd.bench.repetitions import spread
from agentd.errors import AgentdError

AGENTS = 20
EARLY = 200, 400
LATE = 2000, 2200
AFTERWARDS = 300
"""Rounds more: at the last milestone all must still be there to be looked at."""


class Cost(NamedTuple):
    """What rounds cost, or all rounds up to some moment."""

    agents_cpu_s: float
    environment_cpu_s: float
    clock_s: float


class Watch:
    """The cost so far, at every milestone."""

    def __init__(self) -> None:
        self.at: dict[int, Cost] = {}

    def __call__(self, place: Path) -> None:
        """Look whether a milestone was reached."""
        try:
            for trial, when in milestones(place).items():
                if trial not in self.at:
                    self.at[trial] = _cost(place, when)
        except (OSError, ValueError):  # they have not started, or have ended
            return

    def between(self, rounds: tuple[int, int]) -> Cost:
        if not self.at.keys() >= set(rounds):
            raise AgentdError("this machine was too busy to be looked at in time; measure again when it is idle")
        first, last = (self.at[trial] for trial in rounds)
        return Cost(*(after - before for before, after in zip(first, last, strict=True)))


def bench_flatness(repetitions: int) -> dict[str, Any]:
    """Rounds 200–400 against rounds 2,000–2,200 of one run."""
    early, late = [], []
    flags = ["--agents", str(AGENTS), "--rounds", str(LATE[1] + AFTERWARDS)]
    for _ in range(repetitions):
        watch = Watch()
        run_testbed(flags, watch)
        early.append(watch.between(EARLY))
        late.append(watch.between(LATE))

    def late_over_early(figure: Callable[[Cost], float]) -> dict[str, Any]:
        return spread([figure(after) / figure(before) for before, after in zip(early, late, strict=True)])

    return {
        "agents": AGENTS,
        "late_over_early": late_over_early(lambda cost: cost.agents_cpu_s / cost.environment_cpu_s),
        "late_over_early_cpu": late_over_early(lambda cost: cost.agents_cpu_s),
        "late_over_early_environment_cpu": late_over_early(lambda cost: cost.environment_cpu_s),
        "late_over_early_clock": late_over_early(lambda cost: cost.clock_s),
    }


def _cost(place: Path, when: float) -> Cost:
    cpu_s = {name: cpu_s_of(pid) for name, pid in processes_of(place).items()}
    environment = cpu_s.pop(ENVIRONMENT)
    return Cost(sum(cpu_s.values()), environment, when)


def cpu_s_of(pid: int) -> float:
    """Processor time of a process up to now, from the scheduler's own clock; ticks tell what they hit by chance."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9

"""The vectorised engine: agent-trials per second of processor time, and whether rounds grow dearer with the history."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

from agentd.bench.repetitions import spread
from agentd.core.chance import Purpose, stream
from agentd.core.policy import PolicySettings
from agentd.runs.arms import Arms
from agentd.runs.spec import Network, RunSpec, draw_liars
from agentd.simulation.engine import run_vector

ARMS = 5
GAMMA = 2
RUNS_SIDE_BY_SIDE = 4
ALGORITHMS = {"private-ucb": (0.0, 1.0), "byzantine-ucb": (0.3, 0.7), "sealed": (0.0, 1.0), "shielded": (0.0, 1.0)}
"""What is measured, and where its arms are drawn from, as in the paper's figures."""

DrawNetwork = Callable[[int], Network]


def bench_simulate(
    draw: DrawNetwork, *, rounds: int = 2000, repetitions: int = 5, long_rounds: int = 10_000
) -> dict[str, Any]:
    """Throughput (interleaved repetitions) and growth (rounds 1,000–2,000 against the last 1,000) of each algorithm.

    Throughput is that of some runs side by side, as experiments have them, and of one of them alone.
    """
    specs = {name: _specs(name, draw, rounds) for name in ALGORITHMS}
    for runs in specs.values():  # once unmeasured, so that caches, allocator and clocks have settled
        _throughput(runs)
    rates: dict[str, list[float]] = {name: [] for name in specs}
    alone: dict[str, list[float]] = {name: [] for name in specs}
    for _ in range(repetitions):
        for name, runs in specs.items():
            rates[name].append(_throughput(runs))
            alone[name].append(_throughput(runs[:1]))
    return {
        name: {
            "agents": runs[0].network.agents,
            "arms": ARMS,
            "gamma": GAMMA,
            "rounds": rounds,
            "runs_side_by_side": RUNS_SIDE_BY_SIDE,
            "agent_trials_per_cpu_second": spread(rates[name]),
            "one_run": {"agent_trials_per_cpu_second": spread(alone[name])},
            "growth": _growth([replace(spec, rounds=long_rounds) for spec in runs]),
        }
        for name, runs in specs.items()
    }


def _specs(algorithm: str, draw: DrawNetwork, rounds: int) -> list[RunSpec]:
    low, high = ALGORITHMS[algorithm]
    return [_spec(algorithm, draw(seed), seed, rounds, low, high) for seed in range(RUNS_SIDE_BY_SIDE)]


def _spec(algorithm: str, network: Network, seed: int, rounds: int, low: float, high: float) -> RunSpec:  # noqa: PLR0917
    return RunSpec(
        network=network,
        arms=Arms.random(ARMS, stream(seed, Purpose.ARMS), low, high),
        algorithm=algorithm,
        rounds=rounds,
        gamma=GAMMA,
        policy=PolicySettings(ARMS),
        seed=seed,
        liars=draw_liars(seed, network.agents, network.agents) if algorithm == "byzantine-ucb" else frozenset(),
    )


def _throughput(specs: list[RunSpec]) -> float:
    started = time.process_time()
    run_vector(specs)
    return len(specs) * specs[0].network.agents * specs[0].rounds / (time.process_time() - started)


def _growth(specs: list[RunSpec]) -> dict[str, float]:
    """Processor time of an early and of the last tenth of the rounds; the ratio is what must stay near 1.

    Each is the median of ten stretches: on a machine shared with others single stretches vary by half.
    """
    rounds = specs[0].rounds
    stretch = max(1, rounds // 100)
    marks: list[float] = [time.process_time()]

    def mark(trial: int) -> None:
        if trial % stretch == 0:
            marks.append(time.process_time())

    run_vector(specs, progress=mark)
    stretches = [after - before for before, after in pairwise(marks)]
    early, late = median(stretches[10:20]) * 10, median(stretches[90:100]) * 10
    return {"early_s": early, "late_s": late, "late_over_early": late / early, "rounds": rounds}

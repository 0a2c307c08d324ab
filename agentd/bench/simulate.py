"""The vectorised engine: agent-trials per second of processor time, and whether rounds grow dearer with the history."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentd.bench.sample import spread
from agentd.core.chance import Purpose, stream
from agentd.core.policy import PolicySettings
from agentd.environment.arms import Arms
from agentd.simulate.engine import run_vector
from agentd.simulate.spec import Network, RunSpec, draw_liars

ARMS = 5
GAMMA = 2
RUNS_SIDE_BY_SIDE = 4
ALGORITHMS = {"private-ucb": (0.0, 1.0), "byzantine-ucb": (0.3, 0.7)}
"""What is measured, and where its arms are drawn from, as in the paper's figures."""

DrawNetwork = Callable[[int], Network]


def bench_simulate(
    draw: DrawNetwork, *, rounds: int = 2000, repetitions: int = 5, long_rounds: int = 10_000
) -> dict[str, Any]:
    """Throughput (interleaved repetitions) and growth (rounds 1,000–2,000 against the last 1,000) of each algorithm."""
    specs = {name: _specs(name, draw, rounds) for name in ALGORITHMS}
    for runs in specs.values():  # once unmeasured, so that caches, allocator and clocks have settled
        _throughput(runs)
    rates: dict[str, list[float]] = {name: [] for name in specs}
    for _ in range(repetitions):
        for name, runs in specs.items():
            rates[name].append(_throughput(runs))
    return {
        name: {
            "agents": runs[0].network.agents,
            "arms": ARMS,
            "gamma": GAMMA,
            "rounds": rounds,
            "runs_side_by_side": RUNS_SIDE_BY_SIDE,
            "agent_trials_per_cpu_second": spread(rates[name]),
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
    """Processor seconds of an early and of the last thousand rounds; the ratio is what must stay near 1."""
    rounds = specs[0].rounds
    early, late = (rounds // 10, rounds // 5), (rounds - rounds // 10, rounds)
    marks: dict[int, float] = {}

    def mark(trial: int) -> None:
        if trial in (*early, *late):
            marks[trial] = time.process_time()

    run_vector(specs, progress=mark)
    first, last = marks[early[1]] - marks[early[0]], marks[late[1]] - marks[late[0]]
    return {"early_s": first, "late_s": last, "late_over_early": last / first, "rounds": rounds}

"""How the processor time of a simulated run grows with M, T, K, γ and degree; run by hand, for docs/scale.md.

python tests/bench/measure_growth.py
"""

from __future__ import annotations

import time
from statistics import median
from typing import NamedTuple

from agentd.cli.in_memory.experiment import draw_network
from agentd.core.chance import Purpose, stream
from agentd.core.policy import PolicySettings
from agentd.runs.arms import Arms
from agentd.runs.spec import RunSpec
from agentd.simulation.engine import run_vector


class Size(NamedTuple):
    agents: int = 200
    rounds: int = 500
    arms: int = 5
    gamma: int = 2
    degree: int = 10


AXES: dict[str, list[Size]] = {
    "M": [Size(agents=agents) for agents in (100, 200, 400, 800)],
    "T": [Size(rounds=rounds) for rounds in (250, 500, 1000, 2000)],
    "K": [Size(arms=arms) for arms in (2, 5, 10, 20)],
    "γ": [Size(gamma=gamma) for gamma in (0, 1, 2, 4)],
    "degree": [Size(degree=degree) for degree in (5, 10, 20, 40)],
}


def cpu_us_per_agent_trial(algorithm: str, size: Size) -> float:
    network = draw_network(size.agents, size.degree / (size.agents - 1), 1)
    arms = Arms.random(size.arms, stream(1, Purpose.ARMS))
    spec = RunSpec(network, arms, algorithm, size.rounds, size.gamma, PolicySettings(size.arms), 1)

    def once() -> float:
        started = time.process_time()
        run_vector([spec])
        return time.process_time() - started

    return median(once() for _ in range(3)) / (size.agents * size.rounds) * 1e6


def main() -> None:
    for algorithm in ("private-ucb", "sealed"):
        for axis, sizes in AXES.items():
            told = [f"{cpu_us_per_agent_trial(algorithm, size):.3f}" for size in sizes]
            print(algorithm, axis, *told, flush=True)


if __name__ == "__main__":
    main()

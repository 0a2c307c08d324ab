"""What every attack costs the honest, measured: `python tests/attacks/measure_liars.py sealed` prints a table.

50 agents on Erdős–Rényi graphs (0.12), γ = diameter, 1,000 rounds, 20 seeds from 7000 on, all seeds side by side in the
vectorised engine. Per attack: the mean regret of an honest agent with its standard error, the largest run, and the
ratio to the same seeds without liars.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from agentd.core.attacks import SCHEMES
from agentd.runs.regret import honest_regret
from agentd.runs.scenario import make_scenario
from agentd.settings import TestbedSettings
from agentd.simulation.either_engine import run_each

SIDE_BY_SIDE = 10


def costs(attack: str, liars: int, told: argparse.Namespace) -> NDArray[np.float64]:
    """Per seed, the regret of an honest agent."""
    common = {"agents": told.agents, "edge_probability": told.edges, "rounds": told.rounds, "gamma": told.gamma}
    common |= {"algorithm": told.algorithm, "epsilon": told.epsilon, "arm_range": tuple(told.arms), "attack": attack}
    specs = [
        make_scenario(TestbedSettings(**common, byzantine=liars, seed=told.seed + number)).spec
        for number in range(told.seeds)
    ]
    outcomes = run_each(specs, SIDE_BY_SIDE)
    return np.array(
        [honest_regret(outcome.arm, spec.arms.means, spec.liars) for spec, outcome in zip(specs, outcomes, strict=True)]
    )


def rows(told: argparse.Namespace) -> Iterator[str]:
    """The table, line by line."""
    clean = costs("worst", 0, told)
    yield f"{'nobody lies':18} {_figures(clean)}"
    for attack in told.attacks or SCHEMES:
        found = costs(attack, round(told.share * told.agents) or 1, told)
        ratio = found.mean() / clean.mean()
        paired = float(np.mean(found / np.maximum(clean, 1e-9)))
        yield f"{attack:18} {_figures(found)}   {ratio:5.2f} × clean (mean of ratios {paired:.2f})"


def _figures(found: NDArray[np.float64]) -> str:
    error = found.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    return f"{found.mean():7.2f} ± {error:5.2f}  largest {found.max():7.1f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("algorithm")
    parser.add_argument("attacks", nargs="*")
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--edges", type=float, default=0.12)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--gamma", default="full")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--arms", type=float, nargs=2, default=(0.0, 1.0))
    parser.add_argument("--seed", type=int, default=7000)
    parser.add_argument("--seeds", type=int, default=20)
    told = parser.parse_args()
    print(vars(told), flush=True)
    for line in rows(told):
        print(line, flush=True)


if __name__ == "__main__":
    main()

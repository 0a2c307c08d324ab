"""Regret per pull made, with faults and without: pairs of runs that share seed, graph, arms, rewards, noise and coins.

M = 50 agents of sealed, ε = 1, K = 5 arms with means drawn uniformly from [0, 1] (Bernoulli), T = 1,000 rounds, on
fresh Erdős–Rényi graphs with p = 0.12 and γ = diameter. Run by itself it prints the table of all scenarios:

    python tests/simulate/regret_under_faults.py [SEEDS [ALGORITHM]]
"""

from __future__ import annotations

import math
import multiprocessing
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from agentd.core.chance import Purpose, stream
from agentd.core.policy import PolicySettings
from agentd.runs.arms import Arms
from agentd.runs.regret import group_regret
from agentd.runs.scenario import network_of
from agentd.runs.spec import NOT_PULLED, Outcome, RunSpec
from agentd.simulation.engine import run_vector
from agentd.simulation.network import InMemoryNetwork
from agentd.simulation.network_faults import Crash, Faults, Partition
from topology.generate import erdos_renyi

ARMS, EPSILON = 5, 1.0
AWAY = 50
"""Rounds that killed agents are gone for."""
FIRST_SEED = 4_000


class Size(NamedTuple):
    """How large the runs are."""

    agents: int = 50
    edges: float = 0.12
    """The chance of each."""
    rounds: int = 1_000


FULL = Size()


def killed(share: float, seed: int, size: Size, *, keeps_state: bool = True) -> Faults:
    """That share of the agents, drawn from the seed, is killed half-way and comes back."""
    whom = np.random.default_rng(seed).choice(size.agents, round(share * size.agents), replace=False)
    at = size.rounds // 2
    return Faults(crashes=tuple(Crash(int(own), at, at + AWAY, keeps_state) for own in sorted(whom)))


def halves(cut: int, seed: int, size: Size) -> Faults:
    """Two random halves hear nothing of each other for so many rounds, from early on."""
    side = np.random.default_rng(seed).choice(size.agents, size.agents // 2, replace=False)
    return Faults(partitions=(Partition(frozenset(side.tolist()), 20, 20 + cut),))


ROUGH = Faults(loss=0.2, duplication=0.1, overtaken=0.25)
SCENARIOS: dict[str, Callable[[int, Size], Faults]] = {
    "20 % killed, back with state": partial(killed, 0.2),
    "50 % killed, back with state": partial(killed, 0.5),
    "20 % killed, back without state": partial(killed, 0.2, keeps_state=False),
    "50 % killed, back without state": partial(killed, 0.5, keeps_state=False),
    "loss 20 %, twice 10 %, overtaken 25 %": lambda _seed, _size: ROUGH,
    "halves apart for 200 rounds": partial(halves, 200),
}


def run_of(seed: int, size: Size = FULL, algorithm: str = "sealed") -> RunSpec:
    """The run of a seed."""
    network = network_of(erdos_renyi(size.agents, size.edges, stream(seed, Purpose.TOPOLOGY)))
    return RunSpec(
        network=network,
        arms=Arms.random(ARMS, stream(seed, Purpose.ARMS), 0.0, 1.0),
        algorithm=algorithm,
        rounds=size.rounds,
        gamma=network.diameter,
        policy=PolicySettings(arms=ARMS, epsilon=EPSILON),
        seed=seed,
    )


def per_pull(outcome: Outcome, run: RunSpec) -> float:
    """Group regret for each pull that was made."""
    return group_regret(outcome.arm, run.arms.means) / int(np.count_nonzero(outcome.arm != NOT_PULLED))


class Ratio(NamedTuple):
    """Of all pairs: the mean and its standard error."""

    mean: float
    error: float

    @classmethod
    def over(cls, ratios: Iterable[float]) -> Ratio:
        found = np.array(list(ratios))
        return cls(float(found.mean()), float(found.std(ddof=1)) / math.sqrt(len(found)))


def ratios_of(
    seed: int, names: Iterable[str] = tuple(SCENARIOS), size: Size = FULL, algorithm: str = "sealed"
) -> list[float]:
    """What each scenario makes of the regret per pull of one seed; what they share is run once."""
    run = run_of(seed, size, algorithm)
    (calm,) = run_vector([run])
    half = InMemoryNetwork(run)
    while half.round < size.rounds // 2 - 1:
        half.step()
    return [_forked(partial(_after, half, SCENARIOS[name](seed, size))) / per_pull(calm, run) for name in names]


def _after(half: InMemoryNetwork, faults: Faults) -> float:
    """The regret per pull under faults, from half-way on where nothing happens before."""
    network = InMemoryNetwork(half.spec, faults) if faults.loss or faults.partitions else half
    network.faults = faults
    return per_pull(network.run(), network.spec)


def _forked(work: Callable[[], float]) -> float:
    """What a copy of this process finds; there is no other way to copy a network."""
    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: sending.send(work()))
    process.start()
    sending.close()
    found: float = receiving.recv()
    process.join()
    return found


def main(seeds: int = 40, algorithm: str = "sealed") -> None:
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(partial(ratios_of, algorithm=algorithm), range(FIRST_SEED, FIRST_SEED + seeds)))
    print(f"{algorithm}, {seeds} pairs, regret per pull with faults : without")
    for name, ratios in zip(SCENARIOS, zip(*found, strict=True), strict=True):
        print("  {:40s} {:.3f} ± {:.3f}".format(name, *Ratio.over(ratios)))


if __name__ == "__main__":
    main(*(int(word) if word.isdigit() else word for word in sys.argv[1:]))  # type: ignore[arg-type]

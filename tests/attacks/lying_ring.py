"""Six honest agents in a ring and one that tells a lie of `strongest_lies`, in memory.

`python tests/attacks/lying_ring.py` prints what each lie costs.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]

import numpy as np
from small_runs import network, spec
from strongest_lies import LIES, Lie

from agentd.core.agent import Agent
from agentd.core.bodies import Kind
from agentd.core.message import News
from agentd.core.policy import Intent
from agentd.core.policy.base import Noiseless, Silent
from agentd.core.privacy.release import restored
from agentd.core.terms import Terms
from agentd.simulation.network import InMemoryNetwork

HONEST = 6
LIAR = HONEST
GAMMA = 3
MEANS = (0.9, 0.8, 0.7, 0.5, 0.3)


class Liar(Noiseless, Silent):
    """A policy that tells a lie; what it pulls is nobody's business."""

    def __init__(self, lie: Lie) -> None:
        self._lie = lie
        self._trial = 0

    def choose(self, trial: int) -> int:
        return 0

    def observe(self, intent: Intent, reward: int, told: int) -> None:
        self._trial = intent.trial

    def body(self) -> tuple[Kind, list[int]] | None:
        """The lie, with the mark of what was released: a liar's own program would not insist on it."""
        said, kind = self._lie.says(self._trial), self._lie.kind
        if said is None:
            return None
        noised, width = kind.noised_places, len(kind.fields)
        return kind, [restored([n])[0] if place % width in noised else n for place, n in enumerate(said)]

    def learn(self, news: News) -> None:
        if news.batch.kind is self._lie.kind:
            for origin, body in zip(news.batch.origin.tolist(), news.batch.body.tolist(), strict=True):
                self._lie.hears(origin, tuple(body))


class Cost(NamedTuple):
    """What became of the honest agents."""

    regret: float
    """Of one, on average."""
    worst: float
    """Of the one that fared worst."""
    dropped: Counter[str]


def play(
    algorithm: str, lie: Lie | None, *, seed: int, reach: int = HONEST, rounds: int = 1500, epsilon: float = 1.0
) -> Cost:
    """Let a neighbour of the first `reach` agents of the ring lie; None: it is honest."""
    edges = [(one, (one + 1) % HONEST) for one in range(HONEST)] + [(one, LIAR) for one in range(reach)]
    run = spec(
        network(HONEST + 1, edges), algorithm, rounds=rounds, gamma=GAMMA, means=MEANS, seed=seed, epsilon=epsilon
    )
    ring = InMemoryNetwork(run)
    if lie is not None:
        ring.agents[LIAR] = Agent(LIAR, Liar(lie), terms=Terms(len(MEANS), GAMMA).assuming(epsilon, run.policy.v))
    outcome = ring.run()
    regret = (max(MEANS) - np.array(MEANS))[outcome.arm[:HONEST]].sum(axis=1)
    return Cost(float(regret.mean()), float(regret.max()), outcome.dropped)


def main() -> None:
    for algorithm, lie in LIES.items():
        for reach in (HONEST, 2):
            costs = [play(algorithm, lie(MEANS), seed=seed, reach=reach) for seed in range(10)]
            means = [cost.regret for cost in costs]
            dropped = sum((cost.dropped for cost in costs), Counter())
            print(
                f"{algorithm:14} heard by {reach}: {np.mean(means):6.1f}  ({min(means):.0f} – {max(means):.0f}), "
                f"worst agent {max(cost.worst for cost in costs):.0f}  {dict(dropped)}",
                flush=True,
            )


if __name__ == "__main__":
    main()

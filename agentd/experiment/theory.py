"""The paper's regret bounds, as a yardstick beside measured curves.

Every bound here has the form slope · ln T + constant and is a `Bound`; `….curve(t)` evaluates it over many rounds.
χ̄ is the clique cover number of the power graph G_γ. The theorems write χ in places; their proofs count the cliques
of a minimal clique partition, so χ̄ is meant throughout. Any clique cover, minimal or not, gives a valid χ̄ to put in.

Theorems are evaluated as published. Where statement and proof of the paper disagree:

- private: the proof sums 4·t^−1.5 per agent, the statement has ζ(1.5) where the proof supports 4·ζ(1.5). The proof
  also needs γ < 1/ε. The statement is kept, and so may lie below the regret of a correct run at small T.
- lower: the paper writes D(μ*, μ_k) and bounds lim inf R(T). Lai and Robbins (1985) and Anantharam et al. (1987) have
  D(μ_k, μ*), the divergence of the arm from the best, and bound lim inf R(T) / ln T. We use theirs.

`rounds` is T, the trials of one agent. A group makes M·T pulls, and the constant of a lower bound in ln(M·T) is the
same; the theorem is stated with ln T, which differs by a term that does not grow, and so are we.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ZETA_THREE_HALVES = 2.612375348685488
"""Riemann's ζ(1.5)."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Group regret after T rounds, in reward units: slope · ln T + constant; infinite where nothing is promised."""

    slope: float
    constant: float

    def at(self, rounds: int) -> float:
        """The bound after so many rounds."""
        return float(self.curve(np.array([rounds]))[0])

    def curve(self, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
        """The bound after each of so many rounds."""
        if (rounds < 1).any():
            raise ValueError("a bound is defined from round 1 on")
        if math.isinf(self.slope):  # also in round 1, where ∞ · ln 1 has no value
            return np.full(len(rounds), math.inf)
        return self.slope * np.log(rounds) + self.constant


def private(means: Sequence[float], *, agents: int, gamma: int, clique_cover: int, epsilon: float) -> Bound:
    """Private Multi-Agent UCB: χ̄ Σ 8 ln T / Δ_k + (Σ Δ_k)(χ̄ (Mγ + 2) + M (1/ε + ζ(1.5)))."""
    _check(agents, gamma, clique_cover)
    if not epsilon > 0.0:
        raise ValueError(f"epsilon must be positive, got {epsilon!r}")
    gaps = gaps_of(means)
    delay = clique_cover * (agents * gamma + 2)
    privacy = agents * (1.0 / epsilon + ZETA_THREE_HALVES)
    return Bound(clique_cover * math.fsum(8.0 / gap for gap in gaps), (delay + privacy) * math.fsum(gaps))


def lower(means: Sequence[float]) -> Bound:
    """What no consistent group policy beats in the long run, for Bernoulli rewards: Σ Δ_k / KL(μ_k, μ*) · ln T.

    It is asymptotic: early in a run a good policy may well lie below it. An arm that a single pull gives away (KL
    infinite, because the best arm never fails) adds nothing.
    """
    best = max(means)
    slope = math.fsum((best - mean) / bernoulli_kl(mean, best) for mean in means if mean < best)
    return Bound(slope, 0.0)


def gaps_of(means: Sequence[float]) -> tuple[float, ...]:
    """The positive gaps Δ_k = μ* − μ_k; best arms, however many, have none."""
    best = max(means)
    return tuple(best - mean for mean in means if mean < best)


def bernoulli_kl(p: float, q: float) -> float:
    """Kullback-Leibler divergence KL(p, q) of coins, in nats; infinite where q rules out what p allows."""
    return _kl_term(p, q) + _kl_term(1.0 - p, 1.0 - q)


def _kl_term(p: float, q: float) -> float:
    if p == 0.0:
        return 0.0
    return p * math.log(p / q) if q > 0.0 else math.inf


def _check(agents: int, gamma: int, clique_cover: int) -> None:
    if agents < 1 or gamma < 0 or not 1 <= clique_cover <= agents:
        raise ValueError(
            "need agents ≥ 1, gamma ≥ 0 and a clique cover of 1…agents cliques, "
            f"got {agents}, {gamma} and {clique_cover}"
        )

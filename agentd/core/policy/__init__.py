"""One module per algorithm, behind one small Protocol.

A policy is chosen by name and may differ per agent: the protocol does not care. An agent relays what its own policy
does not understand, so agents with different policies carry each other's messages (the paper's "robustness to
strategy").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS, Kind
from agentd.core.policy.base import Intent, Policy, intend
from agentd.core.policy.byzantine_ucb import ByzantineUcb
from agentd.core.policy.coins import Coins, KeyedCoins
from agentd.core.policy.coop_ucb import CoopUcb
from agentd.core.policy.dp_ucb_int import DpUcbInt
from agentd.core.policy.knobs import RULES, PolicySettings
from agentd.core.policy.private_ucb import PrivateUcb
from agentd.core.policy.sealed import Sealed
from agentd.core.policy.ucb1 import Ucb1
from agentd.core.privacy.laplace import Noise

__all__ = [
    "ALGORITHMS",
    "RULES",
    "Algorithm",
    "Intent",
    "Policy",
    "PolicySettings",
    "intend",
    "make_policy",
    "register_policy",
]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """What there is to say about an algorithm without running it."""

    name: str
    summary: str
    tells: Kind | None
    """The body it publishes; None for an agent that plays alone."""
    noised: bool
    """Whether it releases noised values and keeps a ledger."""
    transcript_private: bool
    """Whether all that leaves the agent, not only one field, is private with the ledger's ε."""
    make: Callable[[PolicySettings, int, Noise, Coins], Policy]
    disjoint: bool = False
    """Whether each reward enters one release only, which is what its ledger goes by."""


_ALL = (
    Algorithm("ucb1", "every agent alone", None, False, False, lambda s, _own, _noise, _coins: Ucb1(s)),
    Algorithm(
        "dp-ucb-int", "every agent alone, private", None, True, False, lambda s, _own, noise, _coins: DpUcbInt(s, noise)
    ),
    Algorithm("coop-ucb", "cooperative, not private", TOTALS, False, False, lambda s, _own, _noise, _coins: CoopUcb(s)),
    Algorithm(
        "private-ucb",
        "cooperative, noised at the source (the paper's Algorithms 1 and 2)",
        RELEASED,
        True,
        False,
        lambda s, _own, noise, _coins: PrivateUcb(s, noise),
    ),
    Algorithm(
        "byzantine-ucb",
        "cooperative, robust to liars (the paper's Algorithm 3)",
        SAMPLE,
        False,
        False,
        lambda s, own, _noise, _coins: ByzantineUcb(s, own),
    ),
    Algorithm(
        "sealed",
        "cooperative, everything that leaves an agent is private with the true ε",
        SEALED,
        True,
        True,
        Sealed,
        disjoint=True,
    ),
)

ALGORITHMS = {algorithm.name: algorithm for algorithm in _ALL}
"""Every algorithm by the name that `--algorithm` knows it by."""


def register_policy(algorithm: Algorithm) -> Algorithm:
    """Let runs choose one more algorithm by its name; ValueError where the name is taken."""
    if ALGORITHMS.setdefault(algorithm.name, algorithm) is not algorithm:
        raise ValueError(f"there is an algorithm {algorithm.name!r} already")
    return algorithm


def make_policy(name: str, settings: PolicySettings, own: int, noise: Noise, coins: Coins | None = None) -> Policy:
    """A fresh policy for agent `own`; decision coins depend on no reward, so well-known ones are as private as any."""
    return ALGORITHMS[name].make(settings, own, noise, coins or KeyedCoins(0, own))

"""One module per algorithm, behind one small Protocol.

A policy is chosen by name and may differ per agent: the protocol does not care. An agent relays what its own policy
does not understand, so agents with different policies carry each other's messages (the paper's "robustness to
strategy").
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS, Kind
from agentd.core.grid import UNIT
from agentd.core.policy.base import Intent, Policy, intend
from agentd.core.policy.byzantine_ucb import ByzantineUcb
from agentd.core.policy.coins import Coins, KeyedCoins
from agentd.core.policy.coop_thompson import CoopThompson
from agentd.core.policy.coop_ucb import CoopUcb
from agentd.core.policy.dp_ucb_int import DpUcbInt
from agentd.core.policy.knobs import RULES, PolicySettings
from agentd.core.policy.private_ucb import PrivateUcb
from agentd.core.policy.sealed import Sealed
from agentd.core.policy.shielded import Shielded
from agentd.core.policy.ucb1 import Ucb1
from agentd.core.privacy.schedule import LONGEST, Schedule, scheduled
from agentd.core.privacy.sealing import Weighting
from agentd.core.privacy.series import interval_scales, series_scales
from agentd.core.upwards import at_least

__all__ = [
    "ALGORITHMS",
    "RULES",
    "Algorithm",
    "Intent",
    "Policy",
    "PolicySettings",
    "algorithm_of",
    "first_release",
    "intend",
    "make_policy",
    "register_policy",
    "schedule_of",
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
    """Whether it claims that all that leaves the agent, not only one field, is private with the ledger's ε."""
    make: Callable[[PolicySettings, int, Coins], Policy]
    """From its knobs, the agent's id and decision coins. Noise is not among them: its agent draws that for it."""
    disjoint: bool = False
    """Whether each reward enters one release only, which is what its ledger goes by."""
    covers: str = "unproven"
    """What the ledger's ε is about, in words, where it is about anything."""
    schedule: Callable[[PolicySettings, int], Iterator[int]] | None = None
    """The noise scales of what it releases of an arm in so many pulls; None: nobody knows before the rewards."""

    @property
    def proven(self) -> bool:
        """Whether what it claims of its transcript was proven here; what a plug-in claims was not."""
        return self.name in _PROVEN

    @property
    def restorable(self) -> bool:
        """Whether its state can be kept, as far as can be told without making one: a function may make anything."""
        needed = ("snapshot", "restore", "discard")
        return not isinstance(self.make, type) or all(hasattr(self.make, name) for name in needed)


_PROVEN = frozenset({"sealed", "shielded"})
"""Algorithms of which `tests/properties/test_sealed_transcript.py` shows by coupling what they claim."""
EVERYTHING = "everything that leaves an agent"
NOISED_SUMS = "the noised sums, given the sequence of pulls, which itself leaks"
OWN_PULLS = "the sequence of pulls, which follows from noised sums alone; nothing is told"


def schedule_of(name: str, settings: PolicySettings, pulls: int | None, *, lost: bool = False) -> Schedule | None:
    """What an algorithm may release of an arm in so many pulls; None: that is not known before the rewards.

    Nor is it where rounds were `lost`: each may have made one more release, and who can crash an agent decides how
    often. That is nothing to an algorithm in which a reward is in one release only.
    """
    algorithm = ALGORITHMS[name]
    if pulls is None or pulls > LONGEST or algorithm.schedule is None or (lost and not algorithm.disjoint):
        return None
    return _scheduled(name, settings, pulls)


@lru_cache(maxsize=64)
def _scheduled(name: str, settings: PolicySettings, pulls: int) -> Schedule:
    algorithm = ALGORITHMS[name]
    assert algorithm.schedule is not None  # noqa: S101 - the caller has asked
    scales = algorithm.schedule(settings, pulls)
    return scheduled(pulls, scales, disjoint=algorithm.disjoint, budget=settings.epsilon_budget)


def first_release(name: str, settings: PolicySettings) -> float | None:
    """What the first release of an arm costs; None: nobody knows before the rewards."""
    schedule = ALGORITHMS[name].schedule
    scale = None if schedule is None else next(schedule(settings, LONGEST), None)
    return None if scale is None else at_least(UNIT, scale)


_ALL = (
    Algorithm("ucb1", "every agent alone", None, False, False, lambda s, _own, _coins: Ucb1(s)),
    Algorithm(
        "dp-ucb-int",
        "every agent alone, private",
        None,
        True,
        False,
        lambda s, _own, _coins: DpUcbInt(s),
        covers=OWN_PULLS,
        schedule=lambda s, pulls: interval_scales(math.ceil(1.0 / s.epsilon), s.v, pulls),
    ),
    Algorithm("coop-ucb", "cooperative, not private", TOTALS, False, False, lambda s, _own, _coins: CoopUcb(s)),
    Algorithm("coop-thompson", "sealed's rule without privacy: what it costs", TOTALS, False, False, CoopThompson),
    Algorithm(
        "private-ucb",
        "cooperative, noised at the source (the paper's Algorithms 1 and 2)",
        RELEASED,
        True,
        False,
        lambda s, _own, _coins: PrivateUcb(s),
        covers=NOISED_SUMS,
        schedule=lambda s, pulls: series_scales(s.epsilon, s.v, pulls),
    ),
    Algorithm(
        "byzantine-ucb",
        "cooperative, robust to liars (the paper's Algorithm 3)",
        SAMPLE,
        False,
        False,
        lambda s, own, _coins: ByzantineUcb(s, own),
    ),
    Algorithm(
        "sealed",
        "cooperative, everything that leaves an agent is private with the true ε",
        SEALED,
        True,
        True,
        Sealed,
        disjoint=True,
        covers=EVERYTHING,
        schedule=lambda s, pulls: iter([Weighting.of(s.epsilon).scale] if pulls else []),
    ),
    Algorithm(
        "shielded",
        "sealed, so aggregated that liars cannot steer",
        SEALED,
        True,
        True,
        Shielded,
        disjoint=True,
        covers=EVERYTHING,
        schedule=lambda s, pulls: iter([Weighting.of(s.epsilon).scale] if pulls else []),
    ),
)

ALGORITHMS = {algorithm.name: algorithm for algorithm in _ALL}
"""Every algorithm by the name that `--algorithm` knows it by."""


def algorithm_of(policy: type) -> Algorithm:
    """What there is to say about an algorithm, from the attributes of the class that is its policy.

    `name` (else that of the class, as in my-policy), `summary`, `tells` (the kind of body, None for one that plays
    alone), and of one that releases noised values `noised`, `disjoint`, `covers`, `transcript_private` and `schedule`:
    see `Algorithm`. It is made with (settings, own, coins).
    """
    doc = (inspect.getdoc(policy) or "").partition("\n")[0]
    said = {name: getattr(policy, name) for name in ("disjoint", "covers", "schedule") if hasattr(policy, name)}
    return Algorithm(
        getattr(policy, "name", None) or _with_dashes(policy.__name__),
        getattr(policy, "summary", None) or doc,
        getattr(policy, "tells", None),
        bool(getattr(policy, "noised", False)),
        bool(getattr(policy, "transcript_private", False)),
        policy,
        **said,
    )


def _with_dashes(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def register_policy(policy: Algorithm | type) -> Algorithm:
    """Let runs choose one more algorithm by its name: an `Algorithm`, or the class of its policy.

    ValueError where the name is taken by another one, or it asks for noise.
    """
    algorithm = policy if isinstance(policy, Algorithm) else algorithm_of(policy)
    before = ALGORITHMS.get(algorithm.name)
    if before is not None and before.make is algorithm.make:
        return before
    try:
        inspect.signature(algorithm.make).bind(None, 0, None)
    except TypeError as fault:
        raise ValueError(
            f"{algorithm.name!r} cannot be made of (settings, own, coins): {fault}. A policy has no source of noise: "
            "its agent draws before the reward is known, and `observe` finds what was drawn in `intent.noise`"
        ) from None
    if ALGORITHMS.setdefault(algorithm.name, algorithm) is not algorithm:
        raise ValueError(f"there is an algorithm {algorithm.name!r} already")
    return algorithm


def make_policy(name: str, settings: PolicySettings, own: int, coins: Coins | None = None) -> Policy:
    """A fresh policy for agent `own`; decision coins depend on no reward, so well-known ones are as private as any."""
    return ALGORITHMS[name].make(settings, own, coins or KeyedCoins(0, own))

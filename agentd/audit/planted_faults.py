"""Faults that are planted to see the audit find them: noise sources, policies and orders of doing things.

Nothing outside the audit knows them. Each is a mistake that implementations of private algorithms have made, or one
that an earlier audit did not see.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from agentd.audit.case import TARGET, Case
from agentd.audit.planted_logic import LOGIC, Tampered
from agentd.core.policy import Policy, PolicySettings, make_policy
from agentd.core.policy.coins import Coins
from agentd.core.policy.sealed import Sealed
from agentd.core.privacy.laplace import ExactLaplace, Noise, SeededLaplace
from agentd.core.privacy.sealing import Weighting

NOISE_FAULTS = {
    "no-noise": "sums are released as they are",
    "half-noise": "noise of half the scale that ε asks for",
    "half-noise-arm-1": "noise of half the scale on the second arm only",
    "half-noise-later": "noise of half the scale from an arm's second batch on",
    "half-noise-agreed": "noise of half the scale, and a ledger that says so",
    "reused-noise": "one draw serves every release",
    "reused-noise-lag-2": "every draw serves the release after the next, too",
    "shared-seed": "all agents draw their noise from one seed",
}
"""In the source of noise, or in how it is asked: an exact test of the source, or statistics, find them."""

LOGIC_FAULTS = {
    "float-noise": "numpy's floating-point Laplace noise, with the bits of the double on the wire",
    "redrawn-noise": "messages leave before they are on disk, so that a restart noises the same batch again",
    "raw-choices": "arms are chosen from raw rewards, not from what was released",
    "zero-unnoised": "a batch that sums to zero is released without noise",
    "bit-in-samples": "one bit of the effective samples tells whether the batch paid more than half",
    "carried-reward": "the last reward of a batch is counted in the next one, too",
    "withheld-relays": "nothing is forwarded after a high reward",
    "skipped-sequence": "a sequence number is left out after a high reward",
    "missing-goodbye": "no goodbye after a high reward",
}
"""Something that leaves follows from a raw reward: the coupling finds them, and so do statistics."""

UNSEEN_FAULTS = {
    "early-closing": "a batch that has paid much is closed early",
    "open-sum-repeated": "a record that is told again has the open batch in it",
    "charged-twice": "the ledger is charged twice after a high reward",
    "logged-reward": "the log tells that a reward was high",
    "shown-reward": "what others may watch tells that a reward was high",
}
"""The same, for the coupling alone: they are beside the transcript, or have no event of their own among statistics."""

FAULTS = {**NOISE_FAULTS, **LOGIC_FAULTS, **UNSEEN_FAULTS}
"""What can be planted into sealed, by name. What raw counts give away, private-ucb shows without help."""
COUPLED = {**LOGIC_FAULTS, **UNSEEN_FAULTS}
"""What the coupling must flag."""

SOURCE_FAULTS = tuple(name for name in NOISE_FAULTS if name != "half-noise-agreed")
"""What an exact test of the source must find; who asks for too little noise has a sound source."""

TokenBytes = Callable[[int], bytes]

SHOWN_BY_ONE = {"no-noise", "half-noise", "half-noise-agreed", "float-noise", "shared-seed"}
"""Faults that show in a single release."""


class NoNoise:
    """No noise at all."""

    def draw(self, arm: int, scale: int) -> int:  # noqa: ARG002
        return 0


class HalfNoise(ExactLaplace):
    """Exact noise of half the scale."""

    def draw(self, arm: int, scale: int) -> int:
        return super().draw(arm, max(1, scale // 2))


class HalfNoiseOnArm1(ExactLaplace):
    """Exact noise, of half the scale on one arm."""

    def draw(self, arm: int, scale: int) -> int:
        return super().draw(arm, max(1, scale // 2) if arm == 1 else scale)


class HalfNoiseLater(ExactLaplace):
    """Exact noise, of half the scale from an arm's second draw on."""

    def __init__(self, token_bytes: TokenBytes) -> None:
        super().__init__(token_bytes)
        self._drawn: Counter[int] = Counter()

    def draw(self, arm: int, scale: int) -> int:
        self._drawn[arm] += 1
        return super().draw(arm, max(1, scale // 2) if self._drawn[arm] > 1 else scale)


class ReusedNoise(ExactLaplace):
    """Draws that come again after some others: with a lag of 1, one draw for everything."""

    def __init__(self, token_bytes: TokenBytes, lag: int) -> None:
        super().__init__(token_bytes)
        self._lag = lag
        self._drawn: list[int] = []

    def draw(self, arm: int, scale: int) -> int:
        again = len(self._drawn) >= self._lag
        self._drawn.append(self._drawn[-self._lag] if again else super().draw(arm, scale))
        return self._drawn[-1]


class HalfSealed(Sealed):
    """sealed that promises twice the ε it was told, and keeps that promise."""

    def __init__(self, settings: PolicySettings, own: int, coins: Coins) -> None:
        super().__init__(settings, own, coins)
        self._weighting = Weighting(self._weighting.scale // 2, self._weighting.handicap)


class Chance(NamedTuple):
    """The noise of the agent under audit, and that of an agent of the adversary's own, which it knows."""

    target: Noise
    twin: Noise


def noise_of(case: Case, side: int, number: int) -> Chance:
    """Where noise comes from in one run: the operating system, unless a fault says otherwise."""
    if case.fault == "shared-seed":
        seed = (case.seed << 33 ^ number << 1 ^ side) % (1 << 64)
        return Chance(SeededLaplace(seed, TARGET), SeededLaplace(seed, TARGET))
    return Chance(source_of(case.fault), source_of(case.fault))


def source_of(fault: str | None, token_bytes: TokenBytes | None = None) -> Noise:
    """A source of noise with what was planted into it; without bytes to draw from, on those of the operating system."""
    tokens = secrets.token_bytes if token_bytes is None else token_bytes
    if fault == "no-noise":
        return NoNoise()
    if fault == "half-noise-later":
        return HalfNoiseLater(tokens)
    if fault in ("reused-noise", "reused-noise-lag-2"):
        return ReusedNoise(tokens, 1 if fault == "reused-noise" else 2)
    if fault == "shared-seed" and token_bytes is not None:
        return SeededLaplace(0, TARGET)
    halved = {"half-noise": HalfNoise, "half-noise-arm-1": HalfNoiseOnArm1}
    return halved.get(fault or "", ExactLaplace)(tokens)


def policy_of(case: Case, coins: Coins) -> Policy:
    """The algorithm under audit, with what was planted into it."""
    return planted_policy(case.fault, case.algorithm, case.policy, coins)


def planted_policy(fault: str | None, algorithm: str, settings: PolicySettings, coins: Coins) -> Policy:
    """An algorithm with a fault; where the fault is elsewhere, one that remembers its last reward."""
    if fault == "half-noise-agreed":
        return HalfSealed(settings, TARGET, coins)
    if fault in COUPLED and fault != "redrawn-noise":
        return LOGIC.get(fault, Tampered)(settings, TARGET, coins)
    return make_policy(algorithm, settings, TARGET, coins)

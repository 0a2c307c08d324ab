"""Faults that are planted to see the audit find them: noise sources, policies and orders of doing things.

Nothing outside the audit knows them. Each is a mistake that implementations of private algorithms have made.
"""

from __future__ import annotations

import secrets
import struct
from typing import NamedTuple

import numpy as np

from agentd.audit.case import TARGET, Case
from agentd.core.grid import UNIT
from agentd.core.policy import Policy, PolicySettings, make_policy
from agentd.core.policy.base import Intent, Released
from agentd.core.policy.coins import Coins
from agentd.core.policy.sealed import Sealed
from agentd.core.privacy.laplace import ExactLaplace, Noise, SeededLaplace
from agentd.core.privacy.ledger import Release
from agentd.core.privacy.release import restored
from agentd.core.privacy.sealing import saved_batches

FAULTS = {
    "no-noise": "sums are released as they are",
    "half-noise": "noise of half the scale that ε asks for",
    "reused-noise": "one draw serves every release",
    "redrawn-noise": "messages leave before they are on disk, so that a restart noises the same batch again",
    "float-noise": "numpy's floating-point Laplace noise, with the bits of the double on the wire",
    "shared-seed": "all agents draw their noise from one seed",
    "raw-choices": "arms are chosen from raw rewards, not from what was released",
}
"""What can be planted into sealed, by name. What raw counts give away, private-ucb shows without help."""

SHOWN_BY_ONE = {"no-noise", "half-noise", "float-noise", "shared-seed"}
"""Faults that show in a single release."""


class NoNoise:
    """No noise at all."""

    def draw(self, arm: int, scale: int) -> int:  # noqa: ARG002
        return 0


class HalfNoise(ExactLaplace):
    """Exact noise of half the scale."""

    def draw(self, arm: int, scale: int) -> int:
        return super().draw(arm, max(1, scale // 2))


class ReusedNoise(ExactLaplace):
    """One exact draw for everything."""

    _drawn: int | None = None

    def draw(self, arm: int, scale: int) -> int:
        if self._drawn is None:
            self._drawn = super().draw(arm, scale)
        return self._drawn


class FloatSealed(Sealed):
    """sealed as it would be in floating point: the double that a release is, bit by bit, in the record's sum."""

    def _close(self, release: Release) -> tuple[Released, list[int]]:
        (raw,) = saved_batches([self._open[release.arm]])["open_sums"]
        released, record = super()._close(release)
        chance = np.random.Generator(np.random.Philox(key=secrets.randbits(128)))
        (forged,) = restored([bits_of(float(chance.laplace(raw / UNIT, release.scale / UNIT)))])
        return released, [*record[:-1], forged]


class RawSealed(Sealed):
    """sealed that chooses by what it has seen, not by what it has released."""

    def __init__(self, settings: PolicySettings, own: int, noise: Noise, coins: Coins) -> None:
        super().__init__(settings, own, noise, coins)
        self._seen = [[0, 0] for _ in self._open]

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:
        """Remember the raw reward, too."""
        self._seen[intent.arm][0] += told
        self._seen[intent.arm][1] += UNIT
        return super().observe(intent, reward, told)

    def _decide(self, trial: int) -> int:
        released = self._own
        self._own = [
            own._replace(total=restored([own.samples * raw // pulls])[0]) if pulls else own
            for own, (raw, pulls) in zip(released, self._seen, strict=True)
        ]
        try:
            return super()._decide(trial)
        finally:
            self._own = released


class Chance(NamedTuple):
    """The noise of the agent under audit, and that of an agent of the adversary's own, which it knows."""

    target: Noise
    twin: Noise


def noise_of(case: Case, side: int, number: int) -> Chance:
    """Where noise comes from in one run: the operating system, unless a fault says otherwise."""
    if case.fault == "shared-seed":
        seed = (case.seed << 33 ^ number << 1 ^ side) % (1 << 64)
        return Chance(SeededLaplace(seed, TARGET), SeededLaplace(seed, TARGET))
    return Chance(_source(case.fault), _source(case.fault))


def _source(fault: str | None) -> Noise:
    if fault == "no-noise":
        return NoNoise()
    if fault == "half-noise":
        return HalfNoise(secrets.token_bytes)
    return (ReusedNoise if fault == "reused-noise" else ExactLaplace)(secrets.token_bytes)


def policy_of(case: Case, noise: Noise, coins: Coins) -> Policy:
    """The algorithm under audit, with what was planted into it."""
    if case.fault == "float-noise":
        return FloatSealed(case.policy, TARGET, noise, coins)
    if case.fault == "raw-choices":
        return RawSealed(case.policy, TARGET, noise, coins)
    return make_policy(case.algorithm, case.policy, TARGET, noise, coins)


def bits_of(value: float) -> int:
    """The bits of a double, read as a signed integer."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)

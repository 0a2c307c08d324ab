"""Planted faults that are no matter of chance: something that leaves follows from a raw reward.

Each is sealed with one thing wrong, through its public seams where that is possible. `planted_faults` has the faulty
noise, and the names of all.
"""

from __future__ import annotations

import secrets
import struct

import numpy as np

from agentd.core.agent import Agent
from agentd.core.bodies import Kind
from agentd.core.grid import UNIT
from agentd.core.message import Batch
from agentd.core.policy import PolicySettings
from agentd.core.policy.base import Intent, Released, Snapshot
from agentd.core.policy.coins import Coins
from agentd.core.policy.sealed import Sealed
from agentd.core.privacy.ledger import Release
from agentd.core.privacy.release import restored
from agentd.core.privacy.sealing import SealedBatch

HIGH = UNIT // 2 + 1
"""Rewards from here on are high ones."""


class Tampered(Sealed):
    """sealed that keeps the raw sums of its open batches apart, so that something wrong can be done with them."""

    def __init__(self, settings: PolicySettings, own: int, coins: Coins) -> None:
        super().__init__(settings, own, coins)
        self.latest = 0
        """The last raw reward."""
        self._raw = [0] * settings.arms

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:
        """As ever; then a release may become another one."""
        arm, before = intent.arm, self._own[intent.arm]
        self.latest = told
        self._raw[arm] += told
        released = super().observe(intent, reward, told)
        raw = self._raw[arm]
        if released is not None or intent.refused:
            self._raw[arm] = 0
        if released is None or (value := self._instead(released, raw)) is None:
            return released
        (noised,) = restored([value])
        self._own[arm] = before.after(SealedBatch(released.release.pulls, noised), self._weighting)
        self._body = [arm, *self._own[arm]]
        return released._replace(value=noised)

    def _instead(self, released: Released, raw: int) -> int | None:  # noqa: ARG002
        """What is released in place of this; None: nothing else."""
        return None

    def restore(self, snapshot: Snapshot) -> None:
        """As ever."""
        super().restore(snapshot)
        self._raw = list(snapshot["open_sums"])

    def discard(self, arm: int | None, trial: int) -> tuple[Release, ...]:
        """As ever."""
        for each in range(len(self._raw)) if arm is None else (arm,):
            self._raw[each] = 0
        return super().discard(arm, trial)


class ZeroUnnoised(Tampered):
    """A sum of zero is left as it is."""

    def _instead(self, released: Released, raw: int) -> int | None:  # noqa: ARG002
        return None if raw else 0


class CarriedReward(Tampered):
    """The last reward of a batch counts in the next one, too."""

    def __init__(self, settings: PolicySettings, own: int, coins: Coins) -> None:
        super().__init__(settings, own, coins)
        self._carried = [0] * settings.arms

    def _instead(self, released: Released, raw: int) -> int | None:  # noqa: ARG002
        arm = released.release.arm
        value, self._carried[arm] = released.value + self._carried[arm], self.latest
        return value


class BitInSamples(Tampered):
    """The lowest bit of A tells whether the batch paid more than half."""

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:
        """As ever, with one bit more."""
        raw = self._raw[intent.arm] + told
        released = super().observe(intent, reward, told)
        if released is not None and self._body is not None:
            self._body = [*self._body[:3], self._body[3] + (2 * raw > released.release.pulls * UNIT), self._body[4]]
        return released


class FloatSealed(Tampered):
    """sealed as it would be in floating point: the double that a release is, bit by bit, in the record's sum."""

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:
        """As ever, with another sum in the record."""
        raw = self._raw[intent.arm] + told
        released = super().observe(intent, reward, told)
        if released is not None and self._body is not None:
            chance = np.random.Generator(np.random.Philox(key=secrets.randbits(128)))
            value = float(chance.laplace(raw / UNIT, released.release.scale / UNIT))
            self._body = [*self._body[:-1], *restored([bits_of(value)])]
        return released


class EarlyClosing(Tampered):
    """A batch that has paid much is closed at once."""

    def due(self, trial: int, arm: int) -> Release | None:
        """As ever, or sooner."""
        sooner = self._raw[arm] >= HIGH
        pulls, scale = self._open[arm].pulls + 1, self._weighting.scale
        return super().due(trial, arm) or (Release(arm, trial, pulls, scale) if sooner else None)


class OpenSumRepeated(Tampered):
    """A record that is told again has the open batch in it."""

    def body(self) -> tuple[Kind, list[int]] | None:
        """As ever, or with a sum that nobody noised."""
        said = super().body()
        if said is None or not said[1][1]:
            return said
        kind, (arm, *counts, total) = said
        return kind, [arm, *counts, *restored([total + self._raw[arm]])]


class ChargedTwice(Tampered):
    """The ledger is charged twice where the last reward was high: later, since agents look when a reward goes in."""

    _owed: Release | None = None

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:
        """As ever."""
        released = super().observe(intent, reward, told)
        self._owed = released.release if released is not None and told >= HIGH else None
        return released

    def body(self) -> tuple[Kind, list[int]] | None:
        """As ever."""
        if self._owed is not None:
            self.ledger.record(self._owed)
            self._owed = None
        return super().body()


class RawSealed(Tampered):
    """sealed that chooses by what it has seen, not by what it has released."""

    def __init__(self, settings: PolicySettings, own: int, coins: Coins) -> None:
        super().__init__(settings, own, coins)
        self._seen = [[0, 0] for _ in self._raw]

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


LOGIC = {
    "raw-choices": RawSealed,
    "zero-unnoised": ZeroUnnoised,
    "bit-in-samples": BitInSamples,
    "carried-reward": CarriedReward,
    "early-closing": EarlyClosing,
    "open-sum-repeated": OpenSumRepeated,
    "charged-twice": ChargedTwice,
    "float-noise": FloatSealed,
}
"""What to put in sealed's place; other faults need to know the last reward at most."""


def paid_much(agent: Agent) -> bool:
    """Whether the last raw reward of a tampered agent was a high one."""
    return isinstance(agent.policy, Tampered) and agent.policy.latest >= HIGH


def withhold_relays(agent: Agent) -> None:
    """Let an agent forward nothing after a high reward."""
    forwarded = agent._gossip.take_relays

    def some() -> list[Batch]:
        relays = forwarded()
        return [] if paid_much(agent) else relays

    agent._gossip.take_relays = some  # type: ignore[method-assign]


def bits_of(value: float) -> int:
    """The bits of a double, read as a signed integer."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)

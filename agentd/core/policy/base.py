"""What every policy is: a rule from what was seen and heard to the next arm, and what it tells the others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from agentd.core.bodies import Kind
from agentd.core.grid import UNIT
from agentd.core.message import Batch, Columns, Held, News
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.release import DrawnNoise, Noised
from agentd.core.terms import Terms


class Released(NamedTuple):
    """A release and the value that left."""

    release: Release
    value: int


class Intent(NamedTuple):
    """A pull that is about to be made; what it will release is settled before its reward is in."""

    trial: int
    arm: int
    release: Release | None = None
    """What the reward goes into as the last one; None: nothing is released now."""
    refused: bool = False
    """Whether a release would be due that the budget does not admit."""
    noise: DrawnNoise | None = None
    """What the release is noised with; its agent draws it before the reward is known."""


Snapshot = Mapping[str, Sequence[int]]
"""What a policy must find again after a crash: named rows of integers."""


class Policy(Protocol):
    """One algorithm of one agent; pure, driven by `Agent`."""

    @property
    def ledger(self) -> Ledger | None:
        """What its releases cost; None where nothing is noised."""
        ...

    def choose(self, trial: int) -> int:
        """The arm to pull at this trial; asking twice changes nothing."""
        ...

    def due(self, trial: int, arm: int) -> Release | None:
        """The release that pulling this arm will bring; follows from what is public, and asking changes nothing."""
        ...

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:
        """Take in an own reward and release what was intended, with the noise that was drawn for it (`intent.noise`).

        `told` is what others are to believe the reward was.
        """
        ...

    def body(self) -> tuple[Kind, list[int]] | None:
        """What to tell the others after this trial; None for nothing."""
        ...

    def learn(self, news: News) -> None:
        """Take in messages never heard before."""
        ...

    def forget(self, rows: Columns, held: Held) -> None:
        """Drop what was learned of origins that came back under a new incarnation; `held` is what they said last."""
        ...


@runtime_checkable
class Retracting(Protocol):
    """A policy that learns from samples which may turn out to be forged."""

    def unlearn(self, wrong: Batch) -> None:
        """Let messages count no more from which it has learned."""
        ...


@runtime_checkable
class Agreeing(Protocol):
    """A policy that goes by what its run is agreed on; all of that is public."""

    def agree(self, terms: Terms, lifetime: int) -> None:
        """Take note of the terms, once and before anything else; `lifetime` is how far its own messages travel."""
        ...


def intend(policy: Policy, trial: int, arm: int) -> Intent:
    """The pull of an arm, with what it will release; asked once per pull, for the ledger counts what it refuses."""
    release = policy.due(trial, arm)
    if release is None:
        return Intent(trial, arm)
    if policy.ledger is None or not policy.ledger.admits(release):
        return Intent(trial, arm, refused=True)
    return Intent(trial, arm, release, noise=DrawnNoise(release))


def widened_log(trial: int) -> float:
    """2·ln t in grid steps squared: √(widened_log(t)/n) is the paper's √(2 ln t / n) in grid steps."""
    return 2.0 * math.log(trial) * (UNIT * UNIT)


def best_arm(sums: list[int], counts: list[int], trial: int) -> int:
    """The largest S/N + √(2 ln t / N), ties to the lowest arm; an arm nobody has pulled comes first.

    Only operations that IEEE 754 rounds correctly follow the one logarithm, so the vectorised engine agrees to the bit.
    """
    log = widened_log(trial)
    best, best_index = 0, -math.inf
    for arm, (total, count) in enumerate(zip(sums, counts, strict=True)):
        if not count:
            return arm
        index = total / count + math.sqrt(log / count)
        if index > best_index:
            best, best_index = arm, index
    return best


@runtime_checkable
class Restorable(Protocol):
    """A policy whose state can be saved and restored: what it noised must never be noised again."""

    @property
    def ledger(self) -> Ledger | None:
        """What its releases cost."""
        ...

    def snapshot(self) -> Snapshot:
        """What must survive a crash."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Take it back, into a policy that has seen nothing; ValueError where it is not this policy's."""
        ...

    def discard(self, arm: int | None, trial: int) -> tuple[Release, ...]:
        """Give up what a trial that was pulled and lost may have released: of its arm, or of all where that is unknown.

        What may have been released must never be released again; what it may have cost is returned, to be charged.
        """
        ...


@runtime_checkable
class Farsighted(Protocol):
    """A policy that can choose again before the rewards of its last pulls are in."""

    def intended(self, intent: Intent) -> None:
        """Count a pull that will be observed later, in the order of these calls."""
        ...


def all_due(policy: Policy, arms: Iterable[int], trial: int) -> tuple[Release, ...]:
    """What would be released if each of some arms were the one to pull at this trial."""
    return tuple(release for arm in arms if (release := policy.due(trial, arm)) is not None)


def saved_rows(policy: object, names: Sequence[str]) -> Snapshot:
    """The rows of integers that a policy keeps in attributes of these names."""
    return {name: list(getattr(policy, f"_{name}")) for name in names}


def take_rows(policy: object, names: Sequence[str], snapshot: Snapshot) -> None:
    """Put rows back into a policy's attributes; they must be those and as long as those that are there."""
    for name in names:
        row, before = list(snapshot.get(name, ())), getattr(policy, f"_{name}")
        if set(snapshot) != set(names) or len(row) != len(before) or any(type(n) not in (int, Noised) for n in row):
            raise ValueError(f"not the state of this algorithm: {name} of {sorted(snapshot)} does not fit")
        setattr(policy, f"_{name}", row)


class Noiseless:
    """The part of a policy that adds no noise: it releases nothing and spends nothing."""

    ledger = None

    def due(self, trial: int, arm: int) -> Release | None:  # noqa: ARG002
        return None


class Silent:
    """The part of a policy that plays alone: it tells nothing, learns nothing, forgets nothing."""

    def body(self) -> tuple[Kind, list[int]] | None:
        return None

    def learn(self, news: News) -> None:
        """Ignore what others say; the agent still relays it."""

    def forget(self, rows: Columns, held: Held) -> None:
        """Nothing that others said was ever held."""

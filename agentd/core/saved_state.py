"""What an agent finds again after a crash, as a value; where it is saved is the shell's business.

What the others said is not saved: they say it again.

State may be old. The environment counts the trials that were pulled in an agent's name, and this is all there is to
judge a state by. If it has counted as many as the state holds, nothing happened since. If it has counted one more, that
pull was lost in a crash, or a newer state exists whose last round was sent and this is a copy from before: nobody can
tell. Then the trial is over, what it may have released is charged and never released again (`Restorable.discard`), and
the agent goes on under a new incarnation, because others may hold what the newer state said under the old one. If it
has counted more than that, or less, the state is not to be used.

Nobody counts the pulls of an agent whose arms are its own, and then every state may be a copy of any age. So at every
start from one all that was open is thrown away, whatever it may have released is charged, and the agent goes on under a
new incarnation, with trials that the clock of the run numbers: none that a life before can have reached. This takes an
algorithm in which a reward enters one release only; a sum that runs on might be released again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from agentd.core.agent import Agent
from agentd.core.message import LIFE, LIFETIME, Batch
from agentd.core.policy.base import Restorable, Snapshot
from agentd.core.privacy.laplace import Noise
from agentd.core.privacy.ledger import Ledger, Release


class Charged(NamedTuple):
    """A release that the ledger holds."""

    release: Release
    value: int | None
    """What left; None: it may have been made by a life whose last round was lost, and is never sent."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """An agent's own past: what it saw, what it released, what it was about to do."""

    about: Mapping[str, Any]
    """Whose it is: agent, run, algorithm and what else must agree."""
    trial: int
    """The last trial that is over."""
    policy: Snapshot
    said: Batch | None
    """The newest own message."""
    releases: tuple[Charged, ...]
    refused: int
    """Releases that the budget did not admit."""
    intent: tuple[int, int] | None
    """The trial and the arm of a pull that may be under way."""

    @property
    def incarnation(self) -> int:
        """The last one that the agent lived under."""
        return int(self.about["incarnation"])

    def in_doubt(self, counted: int) -> bool:
        """Whether a round may have been sent that this state knows nothing of; one trial at most."""
        return counted == self.trial + 1

    @property
    def intended_arm(self) -> int | None:
        """The arm of the trial that comes after those that are over; None: it was not chosen yet, or that was lost."""
        return self.intent[1] if self.intent is not None and self.intent[0] == self.trial + 1 else None


def resume(agent: Agent, saved: SavedState, counted: int, noise: Noise, *, uncounted: bool = False) -> None:
    """Bring a new agent to where the saved one was; ValueError where that is not one of its own.

    `uncounted`: nobody has counted its pulls, and `counted` is only a trial that no life of it has reached.

    A noise source that follows a seed is brought there too, by one draw per release: it must not repeat itself.
    """
    policy = agent.policy
    if not isinstance(policy, Restorable) or policy.ledger is None:
        raise ValueError("this algorithm keeps no state")
    if uncounted and not (counted > saved.trial and policy.ledger.disjoint):
        raise ValueError(f"a state of trial {saved.trial} whose pulls nobody counts does not go on at {counted}")
    if not uncounted and not saved.trial <= counted <= saved.trial + 1:
        raise ValueError(f"a state of trial {saved.trial} does not go on after {counted} trials")
    policy.restore(saved.policy)
    for release, _ in saved.releases:
        _charge(policy.ledger, release, noise)
    if uncounted or saved.in_doubt(counted):
        lost = None if uncounted else saved.intended_arm
        _go_on_in_doubt(agent, policy, saved, noise, trial=counted, arm=lost)
        return
    said = _alive(saved.said, agent.lifetime) if agent.incarnation == saved.incarnation else None
    agent.resume(counted, arm=saved.intended_arm, said=said)


def _go_on_in_doubt(
    agent: Agent, policy: Restorable, saved: SavedState, noise: Noise, *, trial: int, arm: int | None
) -> None:
    """Skip the trial, charge what it may have released of its arm (None: of all), say nothing that was said before."""
    if agent.incarnation <= saved.incarnation:
        raise ValueError(f"after a lost round incarnation {saved.incarnation} is over")
    possible = policy.discard(arm, trial)
    assert policy.ledger is not None  # noqa: S101 - the caller has asked
    for release in possible:
        _charge(policy.ledger, release, noise)
    agent.resume(trial, arm=None, said=None, possible=possible)


def _charge(ledger: Ledger, release: Release, noise: Noise) -> None:
    ledger.take_back(release)
    noise.draw(release.arm, release.scale)


def _alive(said: Batch | None, lifetime: int) -> Batch | None:
    """What was said last, as it leaves its origin."""
    if said is None or not lifetime:
        return None
    head = said.head.copy()
    head[:, (LIFETIME, LIFE)] = np.int64(lifetime)
    return Batch(said.kind, head, said.body, said.signature)

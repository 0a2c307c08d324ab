"""What an agent finds again after a crash, as a value; where it is saved is the shell's business.

What the others said is not saved: they say it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentd.core.agent import Agent
from agentd.core.message import LIFE, LIFETIME, Batch
from agentd.core.policy.base import Released, Restorable, Snapshot
from agentd.core.privacy.laplace import Noise


@dataclass(frozen=True, slots=True)
class SavedState:
    """An agent's own past: what it saw, what it released, what it was about to do."""

    about: Mapping[str, Any]
    """Whose it is: agent, run, algorithm and what else must agree."""
    trial: int
    """The last trial whose reward is in."""
    policy: Snapshot
    said: Batch | None
    """The newest own message."""
    releases: tuple[Released, ...]
    refused: int
    """Releases that the budget did not admit."""
    intent: tuple[int, int] | None
    """The trial and the arm of a pull that may be under way."""

    @property
    def incarnation(self) -> int:
        """Under which the agent goes on."""
        return int(self.about["incarnation"])

    def next_arm(self, counted: int) -> int | None:
        """The arm of the pull that may be under way, where the environment has counted so many trials.

        None: there is none, or it was lost with the machine while the environment counted it.
        """
        if self.intent is None or not self.trial <= counted <= self.intent[0]:
            return None
        return self.intent[1]

    def last_trial(self, counted: int) -> int:
        """The last trial that is over: ours, or one more that was pulled and lost. Its number is never used again."""
        return self.trial if self.next_arm(counted) is not None else max(self.trial, counted)


def resume(agent: Agent, saved: SavedState, counted: int, noise: Noise) -> None:
    """Bring a new agent to where the saved one was; ValueError where that is not one of its own.

    A noise source that follows a seed is brought there too, by one draw per release: it must not repeat itself.
    """
    policy = agent.policy
    if not isinstance(policy, Restorable) or policy.ledger is None:
        raise ValueError("this algorithm keeps no state")
    policy.restore(saved.policy)
    for release, _ in saved.releases:
        policy.ledger.take_back(release)
        noise.draw(release.arm, release.scale)
    said = _alive(saved.said, agent.lifetime)
    agent.resume(saved.last_trial(counted), arm=saved.next_arm(counted), said=said)


def _alive(said: Batch | None, lifetime: int) -> Batch | None:
    """What was said last, as it leaves its origin."""
    if said is None or not lifetime:
        return None
    head = said.head.copy()
    head[:, (LIFETIME, LIFE)] = np.int64(lifetime)
    return Batch(said.kind, head, said.body, said.signature)

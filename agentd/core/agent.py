"""One agent as a machine without I/O: choose → observe → outbox → receive.

    arm = agent.choose()            what to pull next; the same answer until the reward is in
    agent.observe(reward)           a raw grid reward goes in; it never comes out
    batches = agent.outbox()        what the neighbours are to hear now: one own message and the relays that are due
    agent.receive(batches)          what they said, all frames of a round at once or one by one

Chance (noise, lies) and the trial number of a returning agent are handed in; time does not exist here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from agentd.core.checks import Checks
from agentd.core.gossip import MAX_TURNS, WINDOW, Gossip
from agentd.core.grid import UNIT
from agentd.core.lies import Liar
from agentd.core.message import (
    MAX_AGENT_ID,
    MAX_INCARNATION,
    MAX_LIFETIME,
    MAX_TRIAL,
    TRIAL,
    Batch,
    Kind,
    Single,
    by_kind,
    unsigned,
)
from agentd.core.origins import Origins
from agentd.core.policy.base import Policy
from agentd.core.terms import Terms

_NOT_SIGNED = unsigned(1)


class Agent:
    """A policy, the gossip that connects it, and the checks that protect it."""

    def __init__(
        self,
        own: int,
        policy: Policy,
        *,
        terms: Terms,
        incarnation: int = 0,
        trial: int = 0,
        window: int = WINDOW,
        liar: Liar | None = None,
    ) -> None:
        if not 0 <= own <= MAX_AGENT_ID:
            raise ValueError(f"an agent id must be in 0…{MAX_AGENT_ID}, got {own}")
        lifetime = terms.lifetime
        if not (0 <= lifetime <= MAX_LIFETIME and 0 <= incarnation <= MAX_INCARNATION):
            raise ValueError(f"no frame holds a lifetime of {lifetime} and an incarnation of {incarnation}")
        self.own = own
        self.policy = policy
        self.lifetime = lifetime
        self.incarnation = incarnation
        self.trial = trial
        """The last trial whose reward is in; an agent that lost its state starts from where the environment says."""
        self._own_head = np.array([[own, incarnation, 0, lifetime, lifetime]])
        self._origins = Origins(own)
        self._checks = Checks(terms)
        self._gossip = Gossip(self._origins, window=window)
        self._liar = liar
        self._arm: int | None = None
        self._fresh: Batch | None = None
        self._again: Batch | None = None
        self.heard = 0
        """Messages counted so far."""

    @property
    def origins_heard(self) -> int:
        """Distinct origins heard, this agent included."""
        return len(self._origins) + 1

    @property
    def dropped(self) -> Counter[str]:
        """What was refused or lost, by reason."""
        return self._checks.dropped + self._gossip.dropped

    @property
    def redundant(self) -> Counter[str]:
        """What flooding repeated."""
        return self._gossip.redundant

    @property
    def prepared(self) -> Batch | None:
        """The own message that the next outbox will carry."""
        return self._fresh

    def resume(self, *, arm: int | None, said: Batch | None) -> None:
        """Go on after a restart: with the arm whose pull may be under way, and saying again what was said last."""
        self._arm = arm
        self._again = said

    def choose(self) -> int:
        """The arm of the next trial."""
        if self._arm is None:
            self._arm = self.policy.choose(self.trial + 1)
        return self._arm

    def observe(self, reward: int) -> None:
        """Take in the reward of the arm that was chosen, and prepare what is told of it."""
        if self._arm is None:
            raise ValueError("a reward without a pull: call choose() first")
        if not 0 <= reward <= UNIT:
            raise ValueError(f"a reward must be a grid integer in 0…{UNIT}, got {reward}")
        self.trial += 1
        told = self._liar.tell(reward) if self._liar else reward
        self.policy.observe(self.trial, self._arm, reward, told)
        self._arm = None
        if self.lifetime and (said := self.policy.body()) is not None:
            kind, body = said
            self._fresh = self._own_message(kind, body)

    def _own_message(self, kind: Kind, body: list[int]) -> Batch:
        head = self._own_head.copy()
        head[0, TRIAL] = self.trial
        return Batch(kind, head, Single(kind, body), _NOT_SIGNED, sound=self.trial <= MAX_TRIAL)

    def outbox(self) -> list[Batch]:
        """What the neighbours are to hear now, one batch per kind; asking again gives only what is new since."""
        relays = self._gossip.take_relays()
        if self._liar:
            relays = [self._liar.forward(batch) for batch in relays]
        own = [batch for batch in (self._again, self._fresh) if batch is not None]
        self._fresh = self._again = None
        return by_kind([*own, *relays])

    def receive(self, batches: Iterable[Batch], latest_trial: int = MAX_TRIAL) -> None:
        """Take in what neighbours said; no honest origin is past `latest_trial`."""
        for batch in by_kind(batches):
            for portion in batch.portions(MAX_TURNS):
                self._take_in(self._checks.judge_heads(portion, latest_trial))

    def _take_in(self, batch: Batch) -> None:
        fresh, rows, renewed = self._gossip.hear(batch, self._checks)
        if len(renewed):
            self.policy.forget(renewed, self._checks.forget(renewed))
        news, honest = self._checks.continues(fresh, rows)
        self.heard += len(honest)
        if len(news.batch):
            self.policy.learn(news)

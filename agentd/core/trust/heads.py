"""What the heads of honest messages are like, by the terms of the run and by what the environment told of lives.

In a closed run everything is checked that an agent can know without keys. An open run, or terms that leave something
open, check that much less: there anybody can invent origins, and what they say counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from agentd.core.bodies.kind import Mask, all_of
from agentd.core.message import LIFE, LIFETIME, MAX_TRIAL, ORIGIN, Batch, Columns
from agentd.core.terms import Clock, Terms
from agentd.core.trust.lives import Lives

_NOBODY, _ANY = -2, -1
"""Instead of a tag: of ids that do not take part, and of those that may publish any kind."""


class HeadRules:
    """Judges heads; every rule gives the verdict on each message."""

    def __init__(self, terms: Terms, lives: Lives | None = None) -> None:
        self._lifetime = terms.lifetime
        self._hops_take_rounds = terms.clock is Clock.LOCKSTEP
        self._lives = lives
        self._tags = _tags_of(terms)
        self.last_trial = terms.horizon or MAX_TRIAL
        """Of each agent."""
        self.rules: list[tuple[str, Callable[[Batch], Mask]]] = [("incarnation", self._is_alive)]
        """Each with its reason."""
        if self._lifetime is not None:
            self.rules.insert(0, ("lifetime", self._has_agreed_lifetime))
        if terms.closed:
            self.rules[:0] = [("origin", self._takes_part), ("kind", self._is_published)]

    def reached(self, batch: Batch) -> Columns:
        """For each message a trial or round that its run must have reached; in lockstep each hop takes a round."""
        return batch.trial + batch.lifetime - batch.life if self._hops_take_rounds else batch.trial

    def furthest(self, batch: Batch) -> int:
        """The largest of those."""
        if batch.newest is not None and not self._hops_take_rounds:
            return batch.newest
        return int(self.reached(batch).max(initial=0))

    def _takes_part(self, batch: Batch) -> Mask:
        verdict: Mask = self._tags.take(batch.origin, mode="clip") != _NOBODY
        return verdict

    def _is_published(self, batch: Batch) -> Mask:
        tags = self._tags.take(batch.origin, mode="clip")
        verdict: Mask = (tags == batch.kind.tag) | (tags == _ANY)
        return verdict

    def _has_agreed_lifetime(self, batch: Batch) -> Mask:
        verdict: Mask = batch.lifetime == self._lifetime
        return verdict

    def _is_alive(self, batch: Batch) -> Mask:
        """An incarnation is the number of trials before it; where somebody tells which there are, it is that one."""
        incarnation = batch.incarnation
        verdict: Mask = incarnation < batch.trial
        if self._lives is None or (self._lives.all_first and not incarnation.any()):
            return verdict
        told = self._lives.of_all(batch.origin)
        if (verdict & (incarnation > told)).any():
            self._lives.ask = True
        verdict &= incarnation == told
        return verdict


def only_said_by(batch: Batch, sender: int | Columns) -> Batch:
    """What the sender, or that of each message, can say: own ones with all of their life, and others' with less.

    Mostly it is all; what is missing was refused (`lifetime`). It takes whoever reads frames to judge that: messages
    do not tell who sent them, and those of a round are joined before anything else is asked.
    """
    head = batch.head
    honest: Mask = (head[:, ORIGIN] == sender) == (head[:, LIFE] == head[:, LIFETIME])
    return batch if all_of(honest) else batch.rows(honest)


@lru_cache(maxsize=4)
def _tags_of(terms: Terms) -> Columns:
    """For every id up to the largest the tag of what it publishes; one place more, for all beyond.

    All agents of a process share it, or that of ten thousand would take more than anything else that each remembers.
    """
    tags = np.array([_ANY if policy.tag is None else policy.tag for policy in terms.policies] + [_NOBODY])
    tags = tags.take(np.append(terms.policy_numbers(), -1), mode="wrap")
    tags.flags.writeable = False
    return tags

"""Who holds which seat, and which life each agent is in: decisions only, no file and no clock.

A seat is held by a secret, the token that came first for it. What is remembered for longer than the process is a hash
of it. What changes is kept in `fresh` until it was written down: a WELCOME that leaves before that would be forgotten
by a crash, and the seat would be free again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from hmac import compare_digest
from typing import NamedTuple

from agentd.runs.seats import SEAT_HASH_BYTES, seat_hash
from agentd.wire.environment_messages import MAX_LIVES, Life

NO_HASH = bytes(SEAT_HASH_BYTES)


class SeatChange(IntEnum):
    """What can happen to a seat; the numbers are in the journal."""

    TAKEN = 1
    RELEASED = 2
    RETURNED = 3
    """Its agent came back without state."""


class SeatEvent(NamedTuple):
    """A change of one seat."""

    change: SeatChange
    agent: int
    trials: int
    """Pulled in the agent's name before."""
    digest: bytes = NO_HASH
    """Of the token that took the seat."""


@dataclass(slots=True)
class Seating:
    """The holders of seats and the lives of agents."""

    run: bytes
    keyed: bool = False
    """Whether whoever asks has shown by its key who it is: then a seat goes with the key, whatever its token was."""
    fresh: list[SeatEvent] = field(default_factory=list)
    """Changes not yet taken by `take_fresh`."""
    returns: int = 0
    """How often an incarnation has changed."""
    _holders: dict[int, bytes | None] = field(default_factory=dict)
    """Hashes of tokens; None: it was released."""
    _tokens: dict[int, bytes] = field(default_factory=dict)
    """Tokens that were shown to have these hashes, so that a pull costs none; never written anywhere."""
    _lives: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The number of an agent's newest change and its incarnation since then, in the order of these numbers."""

    def holds(self, agent: int, token: bytes) -> bool:
        """Whether this token holds the seat."""
        if self.keyed:
            return self._holders.get(agent) is not None
        known = self._tokens.get(agent)
        if known is not None:
            return compare_digest(known, token)
        return self._shown(agent, token)

    def may_take(self, agent: int, token: bytes) -> bool:
        """Whether this token holds the seat, or nobody does."""
        return self.keyed or self._holders.get(agent) is None or self.holds(agent, token)

    def was_taken(self, agent: int) -> bool:
        """Whether anybody ever held the seat."""
        return agent in self._holders

    @property
    def is_used(self) -> bool:
        """Whether anybody ever held a seat."""
        return bool(self._holders)

    def take(self, agent: int, token: bytes, trials: int) -> None:
        """Let the token hold the seat, which it may take."""
        if self._holders.get(agent) is None:
            self._note(SeatEvent(SeatChange.TAKEN, agent, trials, seat_hash(self.run, agent, token)))
            self._tokens[agent] = token

    def reserve(self, hashes: Mapping[int, bytes]) -> int:
        """Let these hold the seats about which nothing is known yet; returns how many others had another holder."""
        for agent, digest in hashes.items():
            if agent not in self._holders:
                self._note(SeatEvent(SeatChange.TAKEN, agent, 0, digest))
        return sum(self._holders[agent] != digest for agent, digest in hashes.items())

    def release(self, agent: int, trials: int) -> None:
        """Free the seat; nothing happens to one that is free."""
        if self._holders.get(agent) is not None:
            self._note(SeatEvent(SeatChange.RELEASED, agent, trials))

    def incarnation_of(self, agent: int) -> int:
        """The newest."""
        life = self._lives.get(agent)
        return 0 if life is None else life[1]

    def renew(self, agent: int, trials: int) -> int:
        """The incarnation of an agent that came back without state, after so many trials in its name."""
        if trials > self.incarnation_of(agent):
            self._note(SeatEvent(SeatChange.RETURNED, agent, trials))
        return self.incarnation_of(agent)

    def lives_since(self, known: int) -> tuple[int, tuple[Life, ...]]:
        """The first changes that one who knows so many has not heard of, and how many it knows then.

        Only the newest change of an agent is worth telling.
        """
        if known > self.returns:
            known = 0  # it knows more than has happened: an environment without a run directory was started anew
        later: list[tuple[int, Life]] = []
        for agent, (number, incarnation) in reversed(self._lives.items()):
            if number <= known:
                break
            later.append((number, (agent, incarnation)))
        told = later[::-1][:MAX_LIVES]
        return (told[-1][0] if len(told) < len(later) else self.returns), tuple(life for _, life in told)

    def take_fresh(self) -> list[SeatEvent]:
        """The changes since the last call."""
        taken, self.fresh = self.fresh, []
        return taken

    def restore(self, event: SeatEvent) -> None:
        """Take back a change, in the order in which they happened."""
        agent = event.agent
        if event.change is SeatChange.RETURNED:
            self.returns += 1
            self._lives.pop(agent, None)
            self._lives[agent] = (self.returns, event.trials)
        else:
            self._holders[agent] = event.digest if event.change is SeatChange.TAKEN else None
            self._tokens.pop(agent, None)

    def _note(self, event: SeatEvent) -> None:
        self.restore(event)
        self.fresh.append(event)

    def _shown(self, agent: int, token: bytes) -> bool:
        """Whether the token has the hash that holds the seat; if so it is remembered."""
        holder = self._holders.get(agent)
        if holder is None or not compare_digest(holder, seat_hash(self.run, agent, token)):
            return False
        self._tokens[agent] = token
        return True

"""Bugs that are planted to see that they are found: each is what somebody may really break.

Nothing outside knows them. They are put in place of the real parts of this process for as long as a world is played.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from agentd.core import assembly, saved_state
from agentd.core.agent import Agent, Turn
from agentd.core.bodies.latecomers import Admitted, Latecomers
from agentd.core.gossip import Gossip, Heard
from agentd.core.message import Batch, Columns
from agentd.core.policy.base import Intent
from agentd.core.privacy.laplace import Noise
from agentd.core.repetition import Repetition, RoundOutcome
from agentd.core.rounds.lateness import Lateness
from agentd.core.rounds.machine import Rounds
from agentd.core.rounds.neighbour import Neighbour
from agentd.core.saved_state import SavedState
from agentd.core.terms import Terms
from agentd.core.trust.heads import HeadRules
from agentd.core.trust.lives import Lives
from agentd.environment.seating import Seating
from agentd.shell.host.desk import Desk, HostedClient
from agentd.shell.host.exchange import Exchange
from agentd.shell.state.keeper import StateKeeper
from agentd.wire.codec import decode_environment
from agentd.wire.environment_messages import Pull
from agentd.wire.topics import FRAME_TOPIC, sync_topic

Patches = list[tuple[Any, str, Any]]
"""In whom what is put in place of what."""


def _gamma_off_by_one() -> Patches:
    """Messages are passed on only while they have two more hops to go."""
    settle = Gossip._settle

    def stingy(self: Gossip, *best: Any) -> Heard:
        waiting, self._queue, self._queued = self._queue, [], 0
        heard = settle(self, *best)
        passed = [batch.rows(batch.life > 1) for batch in self._queue]
        self._queue = [*waiting, *(batch for batch in passed if len(batch))]
        self._queued = sum(map(len, self._queue))
        return heard

    return [(Gossip, "_settle", stingy), (Gossip, "_hear_again", _never)]


def _dedupe_without_trial() -> Patches:
    """A message is known by its origin alone."""
    claim = Gossip._claim

    def forgetful(self: Gossip, rows: Columns, trial: Columns, life: Columns) -> RoundOutcome:
        return claim(self, rows, np.ones_like(trial), life)

    return [(Gossip, "_claim", forgetful), (Gossip, "_hear_again", _never)]


def _noise_again() -> Patches:
    """After a restart the trial that may have been sent is made again, with other noise."""
    go_on = saved_state.resume

    def again(agent: Agent, saved: SavedState, _counted: int, noise: Noise, **_: object) -> None:
        go_on(agent, saved, saved.trial, noise)

    return [(SavedState, "in_doubt", lambda _self, _counted: False), (assembly, "resume", again)]


def _no_more_life() -> Patches:
    """The first copy of a message is the only one that is passed on."""
    claim = Gossip._claim

    def first_only(self: Gossip, rows: Columns, trial: Columns, life: Columns) -> RoundOutcome:
        return claim(self, rows, trial, np.ones_like(life))

    return [(Gossip, "_claim", first_only), (Gossip, "_hear_again", _never)]


def _send_before_commit() -> Patches:
    """A round is written down when the next one begins, and sent before."""
    commit, choose = StateKeeper.commit, StateKeeper.choose
    waiting: dict[int, Turn] = {}

    def later(self: StateKeeper, turn: Turn) -> None:
        waiting[id(self)] = turn
        turn.committed()

    def first(self: StateKeeper, agent: Agent) -> Intent:
        turn = waiting.pop(id(self), None)
        if turn is not None:
            commit(self, turn)
        return choose(self, agent)

    return [(StateKeeper, "commit", later), (StateKeeper, "choose", first)]


def _held_for_ever() -> Patches:
    """A frame that came too early is never delivered."""

    def keeps(self: Rounds[Any], neighbour: Neighbour[Any]) -> bool:
        return neighbour in self._arrived or neighbour.held is not None

    return [(Rounds, "_has_arrived", keeps)]


def _terms_unchecked() -> Patches:
    """Whatever a head says is believed."""
    begin = HeadRules.__init__

    def trusting(self: HeadRules, terms: Terms, lives: Lives | None = None) -> None:
        begin(self, terms, lives)
        self.rules = []

    return [(HeadRules, "__init__", trusting)]


def _token_unchecked() -> Patches:
    """Whoever names a seat holds it."""
    return [(Seating, "holds", lambda _self, _agent, _token: True)]


def _never_refilled() -> Patches:
    """What was spent of a budget of lateness is gone."""

    def left_s(self: Lateness, neighbour: int) -> float:
        return self._left.get(neighbour, (self._full_s, 0))[0]

    return [(Lateness, "left_s", left_s)]


def _window_for_all() -> Patches:
    """What comes later than the window is dropped, also where it would say something."""

    def stale(*late: Any) -> Admitted:
        none = np.zeros(0, dtype=np.intp)
        return Admitted(none, none, len(late[2]))

    return [(Latecomers, "admit", stale)]


def _answers_mixed_up() -> Patches:
    """A process hands what pulls have paid to its agents in another order than they asked."""
    send = Desk._send

    def swapped(self: Desk, clients: list[HostedClient], items: list[bytes]) -> None:
        pulls = all(isinstance(decode_environment(item), Pull) for item in items)
        send(self, clients[::-1] if pulls else clients, items)

    return [(Desk, "_send", swapped)]


def _first_listener() -> Patches:
    """What is for one listener of a process goes to whoever listened first."""

    def far_part(self: Exchange, host: int, speaker: int, part: bytes) -> None:
        if self.host_of(speaker) == host:
            for line in list(self._ears.get(speaker, {}).values())[: None if part.startswith(FRAME_TOPIC) else 1]:
                line.hear(part)

    return [(Exchange, "far_part", far_part)]


def _names_believed() -> Patches:
    """Whatever name a host speaks in, its agents are taken to have said it."""

    def far_part(self: Exchange, _host: int, speaker: int, part: bytes) -> None:
        for listener, line in self._ears.get(speaker, {}).items():
            if part.startswith((FRAME_TOPIC, sync_topic(listener))):
                line.hear(part)

    return [(Exchange, "far_part", far_part)]


def _never(_self: Gossip, _last: Repetition, _batch: Batch, _judge: Any) -> None:
    """Without the short cut, which would not come here."""


BUGS: dict[str, Callable[[], Patches]] = {
    "gamma-off-by-one": _gamma_off_by_one,
    "dedupe-without-trial": _dedupe_without_trial,
    "noise-again": _noise_again,
    "no-more-life": _no_more_life,
    "send-before-commit": _send_before_commit,
    "held-for-ever": _held_for_ever,
    "terms-unchecked": _terms_unchecked,
    "token-unchecked": _token_unchecked,
    "never-refilled": _never_refilled,
    "window-for-all": _window_for_all,
    "answers-mixed-up": _answers_mixed_up,
    "first-listener": _first_listener,
    "names-believed": _names_believed,
}
"""What can be planted, by name."""


@contextmanager
def planted(bug: str | None) -> Iterator[None]:
    """Plant a bug for a while; None: nothing."""
    with ExitStack() as stack:
        for owner, name, broken in BUGS[bug]() if bug is not None else ():
            stack.enter_context(patch.object(owner, name, broken))
        yield

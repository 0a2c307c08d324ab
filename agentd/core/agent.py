"""One agent as a machine without I/O: choose → advance → committed → outbox → receive.

    intent = agent.choose()         what to pull next and what that will release; the same answer until the reward is in
                                    (the two halves of it: agent.decide(), and agent.draw() while the pull is under way)
    turn = agent.advance(reward)    a raw grid reward goes in; it never comes out
    turn.committed()                what the turn released and its state are on disk, or nobody keeps them
    batches = turn.outbox()         what the neighbours are to hear now: one own message and the relays that are due
    agent.receive(batches)          what they said, all frames of a round at once or one by one

Nothing of a turn leaves before it is committed: its outbox is closed until then, and so is the next choice, which
follows from what was released. Chance (noise, lies) and the trial number of a returning agent are handed in; time does
not exist here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import cast

import numpy as np

from agentd.core.bodies import Kind
from agentd.core.checks import Checks
from agentd.core.gossip import MAX_TURNS, Gossip, window_under
from agentd.core.grid import UNIT
from agentd.core.lies import Liar
from agentd.core.message import (
    MAX_AGENT_ID,
    MAX_INCARNATION,
    MAX_LIFETIME,
    MAX_TRIAL,
    TRIAL,
    Batch,
    Columns,
    News,
    Single,
    by_kind,
    unsigned,
)
from agentd.core.origins import Origins
from agentd.core.policy.base import (
    Agreeing,
    Farsighted,
    Intent,
    Policy,
    Released,
    Restorable,
    Retracting,
    Snapshot,
    intend,
)
from agentd.core.privacy.laplace import Noise
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.signed.signatures import Correction, Refuted, Signatures
from agentd.core.terms import Terms
from agentd.core.trust.lives import Lives

_NOT_SIGNED = unsigned(1)


class Turn:
    """A pull with its reward in: what it released, what must be on disk, and what may be sent after that."""

    __slots__ = ("_agent", "_committed", "_said", "_unsent", "possible", "releases", "trial")

    def __init__(
        self,
        agent: Agent,
        releases: tuple[Released, ...],
        said: Batch | None,
        committed: bool,
        possible: tuple[Release, ...] = (),
    ) -> None:
        self._agent = agent
        self._said = self._unsent = said
        self._committed = committed
        self.trial = agent.trial
        self.releases = releases
        self.possible = possible
        """What may have been released by a life whose last round was lost; charged, and never sent."""

    @property
    def ledger(self) -> Ledger | None:
        """What the agent has spent; None where nothing is noised."""
        return self._agent.policy.ledger

    @property
    def state(self) -> Snapshot:
        """What the policy must find again after a crash; gathered when asked, and only until the next pull is over."""
        agent = self._agent
        if agent.trial != self.trial:
            raise RuntimeError(f"the state after trial {self.trial} is gone: the agent is at trial {agent.trial}")
        return cast("Restorable", agent.policy).snapshot()  # who keeps it has asked once: a protocol is slow to ask

    @property
    def message(self) -> tuple[list[int], bytes]:
        """What will be said, for the disk: kind, trial and shape, and the numbers; both empty where nothing is."""
        said = self._said
        if said is None:
            return [], b""
        return [said.kind.tag, self.trial, *said.body.shape], said.body.astype("<i8").tobytes()

    def committed(self) -> None:
        """Open the outbox: releases, state and message are on disk, or this agent keeps nothing."""
        self._committed = True

    def outbox(self) -> list[Batch]:
        """What the neighbours are to hear now, one batch per kind; asking again gives only what is new since."""
        if not self._committed:
            raise self.too_soon("sent")
        said, self._unsent = self._unsent, None
        return self._agent._outbox(said)

    def too_soon(self, what: str) -> RuntimeError:
        """What fails where something would follow from a turn that a crash could still undo."""
        return RuntimeError(f"nothing may be {what} after trial {self.trial} before it is committed")


class Agent:
    """A policy, the gossip that connects it, and the checks that protect it."""

    def __init__(
        self,
        own: int,
        policy: Policy,
        *,
        terms: Terms,
        noise: Noise | None = None,
        incarnation: int = 0,
        trial: int = 0,
        window: int | None = None,
        liar: Liar | None = None,
        lifetime: int | None = None,
        lives: Lives | None = None,
        neighbours: Iterable[int] = (),
        signatures: Signatures | None = None,
        fast_path: bool = True,
    ) -> None:
        """One agent under the terms of its run; who releases anything needs a source of noise.

        `lifetime` is that of its own messages, where the terms have none. `lives` are what the environment tells;
        without them every larger incarnation is believed. In an open run there is a place for each of `neighbours`.
        With `signatures` everything is signed, and what is not genuine refused.
        """
        if not 0 <= own <= MAX_AGENT_ID:
            raise ValueError(f"an agent id must be in 0…{MAX_AGENT_ID}, got {own}")
        lifetime = terms.lifetime if terms.lifetime is not None else lifetime or 0
        if not (0 <= lifetime <= MAX_LIFETIME and 0 <= incarnation <= MAX_INCARNATION):
            raise ValueError(f"no frame holds a lifetime of {lifetime} and an incarnation of {incarnation}")
        if isinstance(policy, Agreeing):
            policy.agree(terms, lifetime)
        self.own = own
        self.policy = policy
        self.lifetime = lifetime
        self.incarnation = incarnation
        self.trial = trial
        """The last trial whose reward is in; an agent that lost its state starts from where the environment says."""
        self._own_head = np.array([[own, incarnation, 0, lifetime, lifetime]])
        self.lives = lives
        if lives is not None:
            lives.told([(own, incarnation)])
        self.noise = noise
        self.signatures = signatures
        self._origins = Origins.under(terms, own, neighbours)
        self._checks = Checks(terms, lives, fast_path=fast_path)
        remembered = window_under(terms, lifetime) if window is None else window
        self._gossip = Gossip(self._origins, window=remembered, fast_path=fast_path)
        self.liar = liar
        """What makes the agent lie; None: it is honest."""
        self._intent: Intent | None = None
        self._ahead: deque[Intent] = deque()
        self._arm: int | None = None  # of a pull that was under way in a life before
        self._again: Batch | None = None
        self.turn = Turn(self, (), None, True)
        """The latest; before the first pull one of which nothing has to be written down."""
        self.heard = 0
        """Messages counted so far."""

    @property
    def dropped(self) -> Counter[str]:
        """What was refused or lost, by reason."""
        unsigned = self.signatures.dropped if self.signatures is not None else Counter[str]()
        return self._checks.dropped + self._gossip.dropped + unsigned

    @property
    def redundant(self) -> Counter[str]:
        """What flooding repeated."""
        return self._gossip.redundant

    def resume(
        self, trial: int, *, arm: int | None, said: Batch | None, possible: tuple[Release, ...] | None = None
    ) -> None:
        """Go on after a restart: with the arm whose pull was intended, and saying again what was said last.

        With what a lost round may have released (also where that is nothing) the turn is to be committed first.
        """
        self.trial = trial
        self._arm = arm
        self._again = said
        self.turn = Turn(self, (), None, possible is None, possible or ())

    def choose(self) -> Intent:
        """The next pull, what it will release, and the noise for that."""
        intent = self.decide()
        self.draw()
        return intent

    def draw(self) -> None:
        """Draw the noise that the next pull calls for, once: how long it takes must not show after the reward is in."""
        intent = self.decide() if self._intent is None else self._intent
        if intent.noise is not None and not intent.noise.is_drawn:
            if self.noise is None:
                raise ValueError(f"agent {self.own} is to release something and has no source of noise")
            intent.noise.draw(self.noise)

    def decide(self) -> Intent:
        """The next pull, and what it will release; its noise is to be drawn before the reward is known."""
        if self._intent is None:
            if not self.turn._committed:
                raise self.turn.too_soon("chosen")
            trial = self.trial + 1
            arm = self._arm if self._arm is not None else self.policy.choose(trial)
            self._intent = intend(self.policy, trial, arm)
        return self._intent

    def look_ahead(self) -> Intent:
        """One more pull, though the rewards of some before it are still to come; its noise is drawn at once.

        What each of them will release is settled when it is intended, so rewards that come late go where they belong.
        """
        if not self.turn._committed:
            raise self.turn.too_soon("chosen")
        if not isinstance(self.policy, Farsighted):
            raise TypeError("this algorithm cannot choose before the reward of its last pull is in")
        trial = (self._ahead[-1].trial if self._ahead else self.trial) + 1
        intent = intend(self.policy, trial, self.policy.choose(trial))
        self.policy.intended(intent)
        if intent.noise is not None:
            assert self.noise is not None  # noqa: S101 - who releases anything has one
            intent.noise.draw(self.noise)
        self._ahead.append(intent)
        return intent

    def advance_oldest(self, reward: int) -> Turn:
        """Take in the reward of the oldest of the pulls that were looked ahead to."""
        self._intent = self._ahead.popleft()
        return self.advance(reward)

    def advance(self, reward: int) -> Turn:
        """Take in the reward of the pull that was chosen, and prepare what is told of it."""
        intent = self._intent
        if intent is None:
            raise ValueError("a reward without a pull: call choose() first")
        if not 0 <= reward <= UNIT:
            raise ValueError(f"a reward must be a grid integer in 0…{UNIT}, got {reward}")
        if intent.noise is not None and not intent.noise.is_drawn:
            raise RuntimeError(f"noise is drawn before the reward is known: call draw() for trial {intent.trial} first")
        self.trial = intent.trial
        told = self.liar.tell(reward) if self.liar else reward
        released = self._observed(intent, reward, told)
        self._intent = self._arm = None
        said = self.policy.body() if self.lifetime else None
        if self.liar and self.lifetime:
            said = self.liar.say(self.trial, said)
        message = None if said is None else self._own_message(*said)
        self.turn = turn = Turn(self, () if released is None else (released,), message, False)
        return turn

    def _observed(self, intent: Intent, reward: int, told: int) -> Released | None:
        """Let the policy see the reward; what it releases must be what was intended, with the noise drawn for that."""
        ledger = self.policy.ledger
        before = ledger.made if ledger is not None else 0
        released = self.policy.observe(intent, reward, told)
        made = (ledger.made if ledger is not None else 0) - before
        if (
            (None if released is None else released.release) != intent.release
            or made != (released is not None)
            or (intent.noise is not None and not intent.noise.is_used)
        ):
            raise RuntimeError(
                f"trial {intent.trial} was to release {intent.release}, with noise drawn before the reward; the policy "
                f"released {released and released.release}, charged {made}, or used other noise"
            )
        return released

    def _own_message(self, kind: Kind, body: list[int]) -> Batch:
        kind.require_released(body)
        head = self._own_head.copy()
        head[0, TRIAL] = self.trial
        return Batch(kind, head, Single(kind, body), _NOT_SIGNED, sound=self.trial <= MAX_TRIAL)

    def _outbox(self, said: Batch | None) -> list[Batch]:
        relays = self._gossip.take_relays()
        if self.liar:
            relays = [self.liar.forward(batch) for batch in relays]
        own = [batch for batch in (self._again, said) if batch is not None]
        self._again = None
        if self.signatures is not None:
            own = self.signatures.signed(own)
        return by_kind([*own, *relays])

    def receive(self, batches: Iterable[Batch], latest_trial: int = MAX_TRIAL) -> None:
        """Take in what neighbours said; nothing that has come so far by now can be past `latest_trial`."""
        if self.lives is not None and self.lives.changed:
            self._take_up_lives(self.lives.take())
        for batch in by_kind(batches):
            for portion in batch.portions(MAX_TURNS):
                if self.signatures is None:
                    self._take_in(self._checks.judge_heads(portion, latest_trial))
                else:
                    self._take_in_signed(portion, latest_trial, self.signatures)
        if self.signatures is not None:
            self._put_back(self.signatures.overdue(self.trial))
            self._take_back(self.signatures.take_corrections())

    def _take_up_lives(self, lives: dict[int, int]) -> None:
        self._checks.lives_changed()
        self._forget(self._gossip.renew(lives))
        if self.signatures is not None:
            self.signatures.renewed(lives)

    def _take_in(self, batch: Batch) -> tuple[Batch, Batch]:
        """Count what is new; all that was, and those of it that can be honest."""
        fresh, rows, renewed = self._gossip.hear(batch, self._checks)
        self._forget(renewed)
        news, honest = self._checks.continues(fresh, rows)
        self.heard += len(honest)
        if len(news.batch):
            self._learn(news)
        return fresh, honest

    def _learn(self, news: News) -> None:
        self.policy.learn(news)
        if self.signatures is not None:
            self.signatures.counts(news.batch, self.trial)

    def _take_in_signed(self, batch: Batch, latest_trial: int, signatures: Signatures) -> None:
        """The same where origins sign: what is forged changes nothing, or is put right when it is found."""
        signatures.notice_self(batch, self.incarnation, self.trial)
        genuine = signatures.admit(self._checks.judge_heads(batch, latest_trial), self.trial)
        self._put_back(signatures.take_expelled())
        self._put_back(signatures.refuted(*self._take_in(genuine)))

    def _put_back(self, refuted: Iterable[Refuted]) -> None:
        """Let nothing of some origins count but one message of each, or nothing at all."""
        for origin, good in refuted:
            rows = self._origins.known_rows(np.array([origin]))
            if rows[0] >= 0:
                self._forget(rows)
                if good is not None:
                    self._learn(self._checks.continues(good, rows).news)

    def _take_back(self, corrections: Iterable[Correction]) -> None:
        """Let samples that are forged count no more, and the genuine ones in their place."""
        for wrong, right in corrections:
            if isinstance(self.policy, Retracting):
                self.policy.unlearn(wrong)
                if right is not None:
                    self._learn(News(right, self._origins.known_rows(right.origin)))

    def _forget(self, renewed: Columns) -> None:
        if len(renewed):
            self.policy.forget(renewed, self._checks.forget(renewed))

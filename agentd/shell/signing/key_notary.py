"""What an agent signs with its own key, and tests by the roster's; the core says when."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from agentd.core.agent import Agent
from agentd.core.message import LINK_BYTES, Batch
from agentd.core.saved_state import SavedState
from agentd.core.signed.notary import Equivocation
from agentd.core.signed.signatures import Signatures
from agentd.errors import NewerSelf
from agentd.files import make_new
from agentd.keys.equivocation import Proof
from agentd.keys.keying import Keying
from agentd.keys.signed_lives import SignedLives
from agentd.shell.doors.keyring import Keyring
from agentd.shell.json_log import Log
from agentd.shell.link import Link
from agentd.wire.statements import link_to, statements


class KeyNotary:
    """Signs for one life of an agent in one run, and tests everybody's signatures by the roster in force."""

    def __init__(self, keyring: Keyring, lives: SignedLives, run: bytes, incarnation: int) -> None:
        self._keyring = keyring
        self._lives = lives
        self._run = run
        self._incarnation = incarnation
        self._last: tuple[int, bytes] | None = None

    def statements(self, batch: Batch) -> list[bytes]:
        """What the origin of each message has signed if it is genuine."""
        return statements(batch, self._run)

    def link_to(self, statement: bytes) -> bytes:
        """How the next message of a chained kind names this statement."""
        return link_to(statement)

    def is_genuine(self, origin: int, statement: bytes, signature: bytes) -> bool:
        """Whether this origin has signed this statement."""
        return self._keyring.has_signed(origin, statement, signature)

    def sign(self, batch: Batch) -> Batch:
        """Own messages under our signature; whoever would sign two statements for one trial fails instead."""
        signatures, width, chained = b"", batch.kind.signature_bytes, batch.kind.chained
        unlinked = batch.signed(np.zeros((len(batch), width), np.uint8))
        for trial, incarnation, statement in zip(
            batch.trial.tolist(), batch.incarnation.tolist(), self.statements(unlinked), strict=True
        ):
            link = b""
            if chained:
                link = self._link(trial)
                statement = statement[:-LINK_BYTES] + link  # noqa: PLW2901 - the whole of it
            if incarnation != self._incarnation:
                raise RuntimeError(f"life {incarnation} is not {self._incarnation}, which this process lives")
            if self._last is None:
                self._lives.signs(self._run, incarnation)  # on disk before anybody can hear of it
            elif trial <= self._last[0] and self._last != (trial, statement):
                raise RuntimeError(f"trial {trial} was to be signed after trial {self._last[0]}, perhaps another way")
            self._last = trial, statement
            signatures += self._keyring.sign(statement) + link
        return batch.signed(np.frombuffer(signatures, np.uint8).reshape(-1, width))

    def _link(self, trial: int) -> bytes:
        """Which statement was signed before this trial; the same again where the trial is signed again."""
        if self._last is not None and trial > self._last[0]:
            return link_to(self._last[1])
        return self._last[1][-LINK_BYTES:] if self._last is not None else bytes(LINK_BYTES)


class Signing:
    """All that one agent needs where the roster requires signatures."""

    def __init__(self, keyring: Keyring, own: int, log: Log, *, every: int, keying: Keying, state: str | None) -> None:
        self._keyring = keyring
        self._own = own
        self._log = log
        self._every = every
        self._lives = SignedLives(keying.lives(state))
        self._proofs = partial(keying.proofs, state)

    def begin_for(self, agent: Agent, run: bytes, saved: SavedState | None) -> None:
        """Let an agent sign, from its state or without."""
        continued = saved is not None and saved.incarnation == agent.incarnation
        agent.signatures = self.begin(run, agent.incarnation, continued=continued)

    def begin(self, run: bytes, incarnation: int, *, continued: bool) -> Signatures:
        """Sign in one life, which goes on from a state of its own or begins now."""
        if not continued:
            self._lives.require_unsigned(run, incarnation)
        made = Signatures(self._own, KeyNotary(self._keyring, self._lives, run, incarnation), every=self._every)
        self._keyring.on_change.append(made.roster_changed)
        self._log.info("signatures required", verify_every=self._every)
        return made

    def act_upon(self, agent: Agent, link: Link) -> None:
        """Do what follows from signatures: cut off forgers, keep proofs, and end where we are an old copy."""
        signatures = agent.signatures
        if signatures is None:
            return
        if forgers := signatures.take_forgers():
            link.cut(forgers)
        if proofs := signatures.take_proofs():
            self.keep(proofs)
        if signatures.newer_self is not None:
            life, trial = signatures.newer_self
            raise NewerSelf(
                f"agent {self._own} is at trial {agent.trial} of life {agent.incarnation}, and a neighbour has what it "
                f"signed at trial {trial} of life {life}: this is an old copy of its state, or it runs twice. Nothing "
                "more is sent; end the other one, or start it from its newest state"
            )

    def keep(self, proofs: Iterable[Equivocation]) -> None:
        """Write proofs of equivocation down, one of each origin, and say so."""
        for found in proofs:
            statements_ = found.first.statement, found.second.statement
            proof = Proof(statements_, (found.first.signature, found.second.signature), self._keyring.signed)
            kept = _kept(proof.text(), self._proofs(found.origin))
            self._log.error("an origin has signed two things", origin=found.origin, trial=found.trial, **kept)


def _kept(text: str, places: Iterable[Path]) -> dict[str, str]:
    """Put a proof into the first place that takes it; where it is, or why it is lost."""
    why = "there is no place for it"
    for place in places:
        try:
            make_new(place, text)
        except FileExistsError:
            return {"proof": str(place), "kept": "an earlier one"}
        except OSError as fault:
            why = fault.strerror or "it cannot be written"
        else:
            return {"proof": str(place)}
    return {"lost": why}

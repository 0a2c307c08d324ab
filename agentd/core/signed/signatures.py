"""Signatures of origins, where the roster requires them: who is believed, who is cut off, who is found out.

Every message passes here after its head was judged and before anything else happens to it: nothing that should be
verified and is not genuine claims a cell of gossip, renews an incarnation, counts or travels on. PROTOCOL.md says which
messages are verified when; `core.signed.later` knows about those that count before.

**Copies first.** Most of what an agent hears repeats what it has heard. A copy that is, to the byte, what was found
genuine under its key is genuine; any other is verified, so that a forgery cannot stand before the real message, and a
second genuine statement under one key is noticed: that is equivocation.

**A forgery costs its sender more than us.** Who has handed over one that no honest neighbour can have passed on is cut
off, and not listened to for the rest of the call. Of others two are looked at in a call, and nobody is cut off for
them, however many they are: an honest neighbour that passes them on never finds out, if whoever spoils what few verify
hands over unspoiled, with no hop left to travel, what all verify. What it says of other origins is looked at first, so
that nobody silences it in this way.

Pure: the `Notary` that is handed in makes and tests signatures, and nothing here knows how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies import Cumulative
from agentd.core.message import INCARNATION, LINK_BYTES, ORIGIN, SIGNATURE_BYTES, TRIAL, Batch
from agentd.core.signed import VERIFY_EVERY
from agentd.core.signed.chain import Chain, Life, Waiting
from agentd.core.signed.later import Later
from agentd.core.signed.notary import Equivocation, Genuine, Key, Notary, Said

_NOBODY = -1
"""As whose neighbour's word counts what nobody is known to have handed over."""
_MOST_SELVES = 4
"""Messages in our own name that are verified in one call."""
_MOST_FORGED = 2
"""Forgeries of one neighbour that are looked at in one call, where it may be honest."""
_MOST_HANDED = 1 << 12
"""Of so many pairs of neighbour and origin it is remembered that forgeries came; then it begins anew."""
Refuted = tuple[int, Batch | None]
"""An origin of which something counts that is forged, and what is to count instead."""
Correction = tuple[Batch, Batch | None]
"""A sample that counts and is forged, and the genuine one of its trial, if that has come."""
_NONE = np.zeros(0, dtype=np.intp)


class Signatures:
    """Signs what one agent says and judges by their signatures what it hears."""

    def __init__(self, own: int, notary: Notary, *, every: int = VERIFY_EVERY) -> None:
        self._own = own
        self._notary = notary
        self._genuine = Genuine()
        self._later = Later(every)
        self._chain = Chain(every)
        self._corrections: list[Correction] = []
        self._handed: Counter[tuple[int, int]] = Counter()
        """Forgeries by who has handed them over and in whose name."""
        self._forgers: set[int] = set()
        self._expelled: list[Refuted] = []
        self._proofs: list[Equivocation] = []
        self._quarantined: set[int] = set()
        self.dropped: Counter[str] = Counter()
        self.verified = 0
        """Signatures that were looked at so far."""
        self.newer_self: tuple[int, int] | None = None
        """An incarnation and a trial that we have signed and know nothing of."""

    def signed(self, own: Sequence[Batch]) -> list[Batch]:
        """Own messages as they are to leave; none where we are an old copy of ourselves."""
        return [self._notary.sign(batch) for batch in own] if self.newer_self is None else []

    def roster_changed(self) -> None:
        """Somebody may have another key now."""
        self._genuine.forget()
        self._later.forget()

    def take_forgers(self) -> set[int]:
        """The neighbours that are to be cut off, since the last call."""
        forgers, self._forgers = self._forgers, set()
        return forgers

    def take_proofs(self) -> list[Equivocation]:
        """Proofs of equivocation since the last call, one of each origin."""
        proofs, self._proofs = self._proofs, []
        return proofs

    def take_expelled(self) -> list[Refuted]:
        """The origins of which nothing may count any more, since the last call."""
        expelled, self._expelled = self._expelled, []
        return expelled

    def take_corrections(self) -> list[Correction]:
        """The samples that are to be taken back, since the last call."""
        corrections, self._corrections = self._corrections, []
        return corrections

    def admit(self, batch: Batch, now: int) -> Batch:
        """Those of some messages of one kind that may count and travel on, in a trial of ours."""
        if not len(batch.head):
            return batch
        if not batch.signature.shape[1]:
            return self._refuse_all(batch)
        batch = self._without_the_quarantined(batch)
        others = batch.origin != self._own  # gossip knows what to do with echoes of what we said
        if not self._may_wait(batch):
            return self._keep_genuine(batch, others.nonzero()[0])
        asked = self._later.to_verify(batch)
        asked &= others
        batch = self._keep_genuine(batch, asked.nonzero()[0])
        self._later.came(batch, now)
        return batch

    def _may_wait(self, batch: Batch) -> bool:
        """Whether some messages of this kind may count before they are verified."""
        return self._later.every > 1 and (batch.kind.chained or isinstance(batch.kind, Cumulative))

    def counts(self, news: Batch, now: int) -> None:
        """What has just been counted, in a trial of ours."""
        if len(news.head) and self._may_wait(news):
            if news.kind.chained:
                self._count_samples(news, now)
            else:
                self._later.counts(news, now)

    def _count_samples(self, news: Batch, now: int) -> None:
        vouching = []
        for row, (head, said) in enumerate(zip(news.head[:, :3].tolist(), self._said(news), strict=True)):
            origin, incarnation, trial = head
            if self._genuine.get((origin, incarnation, trial)) == said:
                vouching.append(((origin, incarnation), trial, said))
            else:
                self._chain.wait((origin, incarnation), Waiting(trial, now, said, news, row))
        for life, trial, said in vouching:
            self._vouch(life, self._chain.take(life, trial), said.statement[-LINK_BYTES:])

    def _vouch(self, life: Life, samples: Iterable[Waiting], link: bytes | None = None) -> None:
        """Go through samples that wait, newest first; `link` is of the one that was vouched for last."""
        for sample in samples:
            if self._notary.link_to(sample.said.statement) == link or len(
                self._keep_genuine(sample.message(), np.arange(1))
            ):
                link = sample.said.statement[-LINK_BYTES:]
            else:
                self._later.forged(life[0])
                self._corrections.append((sample.message(), self._genuine_copy((*life, sample.trial), sample.said)))

    def _genuine_copy(self, key: Key, forged: Said) -> Batch | None:
        others = (copy for copy in self._later.copies_of(key) if self._said(copy) != [forged])
        return next((copy for copy in others if len(self._keep_genuine(copy, np.arange(1)))), None)

    def refuted(self, fresh: Batch, honest: Batch) -> list[Refuted]:
        """What a verified message contradicts: `fresh` were new, `honest` did not contradict what counted."""
        if not self._may_wait(fresh) or len(honest.head) == len(fresh.head):
            return []
        refused = set(fresh.origin.tolist()) - set(honest.origin.tolist())
        return self._found_out(self._later.contradicted(refused, fresh))

    def _found_out(self, origins: list[int]) -> list[Refuted]:
        for origin in origins:
            self._later.forged(origin)
        return [(origin, self._later.settle(origin)) for origin in origins]

    def overdue(self, now: int) -> list[Refuted]:
        """Verify what has counted for as long as it may, and tell what of it was forged."""
        for life in self._chain.overdue(now):
            self._vouch(life, self._chain.take(life))
        forged = []
        for origin in self._later.overdue(now):
            copies = self._later.counting(origin)
            if copies and all(len(self._keep_genuine(copy, np.arange(1))) for copy in copies):
                self._later.settle(origin)
            else:
                forged.append(origin)
        return self._found_out(forged)

    def renewed(self, origins: Iterable[int]) -> None:
        """Somebody who knows has told that these have another life now."""
        for origin in origins:
            self._later.renewed(origin)

    def notice_self(self, batch: Batch, incarnation: int, trial: int) -> None:
        """Look for what we have signed ourselves and know nothing of."""
        head = batch.head
        newer = (head[:, ORIGIN] == self._own) & (
            (head[:, INCARNATION] > incarnation) | ((head[:, INCARNATION] == incarnation) & (head[:, TRIAL] > trial))
        )
        if not newer.any() or not batch.signature.shape[1]:
            return
        mine = batch.rows(newer.nonzero()[0][:_MOST_SELVES])
        for number, said in enumerate(self._said(mine)):
            self.verified += 1
            if self._notary.is_genuine(self._own, *said):
                self.newer_self = int(mine.incarnation[number]), int(mine.trial[number])

    def _said(self, batch: Batch) -> list[Said]:
        signatures = batch.signature.tobytes()
        places = range(0, len(signatures), batch.kind.signature_bytes)
        return [
            Said(statement, signatures[start : start + SIGNATURE_BYTES])
            for statement, start in zip(self._notary.statements(batch), places, strict=True)
        ]

    def _refuse_all(self, batch: Batch) -> Batch:
        """Messages without signatures, which no honest neighbour hands over."""
        self.dropped["unsigned"] += len(batch)
        if batch.via is not None:
            self._forgers.update(batch.via.tolist())
        return batch.rows(_NONE)

    def _without_the_quarantined(self, batch: Batch) -> Batch:
        if not self._quarantined:
            return batch
        fine = np.array([origin not in self._quarantined for origin in batch.origin.tolist()], dtype=np.bool_)
        if fine.all():
            return batch
        self.dropped["equivocation"] += len(batch) - int(np.count_nonzero(fine))
        return batch.rows(fine)

    def _keep_genuine(self, batch: Batch, asked: NDArray[np.intp]) -> Batch:
        """The messages without those of the asked that are not genuine, and without those of who forged surely."""
        if not len(asked):
            return batch
        before = len(self._quarantined)
        refused, forgers = self._verify(batch.rows(asked))
        if refused or forgers:
            kept = np.ones(len(batch), dtype=np.bool_)
            kept[asked[refused]] = False
            if forgers and batch.via is not None:
                kept &= ~np.isin(batch.via, list(forgers))
            self.dropped["forged"] += len(batch) - int(np.count_nonzero(kept))
            batch = batch.rows(kept)
        return batch if len(self._quarantined) == before else self._without_the_quarantined(batch)

    def _verify(self, batch: Batch) -> tuple[list[int], set[int]]:
        """Which of some messages are not genuine, and which neighbours are surely not honest."""
        via = batch.via.tolist() if batch.via is not None else [_NOBODY] * len(batch)
        due = self._later.is_due(batch).tolist() if self._may_wait(batch) else [True] * len(batch)
        refused: list[int] = []
        forgers: set[int] = set()
        seen: Counter[int] = Counter()
        said, origins = self._said(batch), batch.origin.tolist()
        for number in self._least_suspect_first(list(zip(via, origins, strict=True))):
            sender = via[number]
            if sender in forgers or (sender != _NOBODY and seen[sender] >= _MOST_FORGED):
                refused.append(number)
            elif not self._is_genuine(batch, number, said[number]):
                refused.append(number)
                seen[sender] += 1
                if sender != _NOBODY:
                    self._note(sender, origins[number])
                    if due[number]:
                        self._forgers.add(sender)
                        forgers.add(sender)
        return refused, forgers

    def _note(self, sender: int, origin: int) -> None:
        if len(self._handed) >= _MOST_HANDED:
            self._handed.clear()
        self._handed[sender, origin] += 1

    def _least_suspect_first(self, said: list[tuple[int, int]]) -> Iterable[int]:
        """In which order to look at messages of these senders and origins."""
        if not self._handed:
            return range(len(said))
        return sorted(range(len(said)), key=lambda number: self._handed[said[number]])

    def _is_genuine(self, batch: Batch, number: int, said: Said) -> bool:
        origin, incarnation, trial = batch.head[number, :3].tolist()
        key = origin, incarnation, trial
        known = self._genuine.get(key)
        if known == said:
            return True
        self.verified += 1
        if not self._notary.is_genuine(origin, *said):
            return False
        if known is None:
            known = self._earlier_copy(key, said) if self._later.differs(key) else None
            self._genuine.put(key, said)
            if self._may_wait(batch):
                self._later.verified(batch.rows(np.array([number])))
        if known is not None and known.statement != said.statement:
            self._expel(Equivocation(origin, trial, known, said))
        return True

    def _earlier_copy(self, key: Key, said: Said) -> Said | None:
        """Another statement under the same key that is genuine, too, and came before; forged ones are found out."""
        origin = key[0]
        for copy in self._later.copies_of(key):
            (other,) = self._said(copy)
            if other.statement != said.statement:
                self.verified += 1
                if self._notary.is_genuine(origin, *other):
                    return other
                self._later.forged(origin)
                self._later.hurry(origin)
                self._chain.hurry(origin)
        return None

    def _expel(self, proof: Equivocation) -> None:
        if proof.origin not in self._quarantined:
            self._quarantined.add(proof.origin)
            self._expelled.append((proof.origin, None))
            self._corrections += [(each.message(), None) for each in self._chain.take_all(proof.origin)]
            self._proofs.append(proof)

"""An agent as `agentd` runs it, which also writes down what it signs, believes, counts and proves.

argv[1] is where, argv[2] as whom the hostile one speaks to it (two numbers with a comma, where it does so as two). Each
line has a name and numbers, as `Note` says; statements stand there as short digests.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from agentd.cli import cli
from agentd.core.agent import Agent
from agentd.core.message import Batch, News
from agentd.core.signed.signatures import Correction, Refuted, Signatures
from agentd.errors import PeerError
from agentd.shell.link import Link
from agentd.shell.signing.key_notary import KeyNotary, Signing
from agentd.shell.transport import ZmqLine
from agentd.wire.codec import decode_frame
from agentd.wire.topics import FRAME_TOPIC

SIGNED, BELIEVED = "signed", "believed"
"""origin, digest: under its own signature, and found genuine."""
COUNTS, COUNTS_NO_MORE = "counts", "counts-no-more"
"""Trial of this agent, origin, incarnation, digest."""
OUT = "out"
"""Trial of this agent, origin: nothing of it counts any more, or only what is told next."""
PROVED = "proved"
"""Round, origin, trial of the lie."""
CAME = "came"
"""Messages in a frame of the hostile one that was taken from a socket."""
LOOKED_AT = "looked-at"
"""Messages of the hostile one whose signatures were asked for, or might have been."""


class Note(NamedTuple):
    """One line."""

    what: str
    numbers: tuple[int, ...]

    @classmethod
    def read(cls, line: str) -> Note:
        what, *numbers = line.split()
        return cls(what, tuple(map(int, numbers)))


def digest(statement: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(statement, digest_size=8).digest(), "big")


class Attention:
    """Has everything of this process noted that must not happen, before it is used."""

    def __init__(self, path: str, hostile: set[int]) -> None:
        # For as long as the process lives; what is written at once survives a crash.
        self._file = Path(path).open("a", buffering=1 << 16, encoding="ascii")  # noqa: SIM115
        self._hostile = hostile
        self._signatures()
        self._what_counts()
        self._what_comes()

    def note(self, what: str, *numbers: int) -> None:
        self._file.write(" ".join([what, *map(str, numbers)]) + "\n")

    def _signatures(self) -> None:
        sign, is_genuine, act_upon = KeyNotary.sign, KeyNotary.is_genuine, Signing.act_upon

        def noted_sign(notary: KeyNotary, batch: Batch) -> Batch:
            made = sign(notary, batch)
            for origin, statement in zip(made.origin.tolist(), notary.statements(made), strict=True):
                self.note(SIGNED, origin, digest(statement))
            self._file.flush()  # whoever is killed has signed it all the same
            return made

        def noted_genuine(notary: KeyNotary, origin: int, statement: bytes, signature: bytes) -> bool:
            genuine = is_genuine(notary, origin, statement, signature)
            if genuine:
                self.note(BELIEVED, origin, digest(statement))
            return genuine

        def noted_act(signing: Signing, agent: Agent, link: Link) -> None:
            for proof in agent.signatures._proofs if agent.signatures is not None else ():
                self.note(PROVED, link.round, proof.origin, proof.trial)
            act_upon(signing, agent, link)

        KeyNotary.sign, KeyNotary.is_genuine = noted_sign, noted_genuine  # type: ignore[method-assign]
        Signing.act_upon = noted_act  # type: ignore[method-assign]

    def _what_counts(self) -> None:
        learn, put_back, take_back = Agent._learn, Agent._put_back, Agent._take_back

        def each(agent: Agent, what: str, batch: Batch) -> None:
            if agent.signatures is not None:
                said = agent.signatures._notary.statements(batch)
                for head, statement in zip(batch.head[:, :2].tolist(), said, strict=True):
                    self.note(what, agent.trial, *head, digest(statement))

        def noted_learn(agent: Agent, news: News) -> None:
            learn(agent, news)
            each(agent, COUNTS, news.batch)

        def noted_put_back(agent: Agent, refuted: Iterable[Refuted]) -> None:
            refuted = list(refuted)
            for origin, _ in refuted:
                self.note(OUT, agent.trial, origin)
            put_back(agent, refuted)

        def noted_take_back(agent: Agent, corrections: Iterable[Correction]) -> None:
            corrections = list(corrections)
            for wrong, _ in corrections:
                each(agent, COUNTS_NO_MORE, wrong)
            take_back(agent, corrections)

        Agent._learn, Agent._put_back = noted_learn, noted_put_back  # type: ignore[method-assign]
        Agent._take_back = noted_take_back  # type: ignore[method-assign]

    def _what_comes(self) -> None:
        receive, admit = ZmqLine.receive, Signatures.admit

        def noted_receive(line: ZmqLine, wait: bool) -> bytes | None:
            part = receive(line, wait)
            if part is not None and line.id in self._hostile and part.startswith(FRAME_TOPIC):
                try:
                    self.note(CAME, decode_frame(part[len(FRAME_TOPIC) :]).messages)
                except PeerError:
                    self.note(CAME, 0)
            return part

        def noted_admit(signatures: Signatures, batch: Batch, now: int) -> Batch:
            if batch.via is not None and (handed := sum(via in self._hostile for via in batch.via.tolist())):
                self.note(LOOKED_AT, handed)
            return admit(signatures, batch, now)

        ZmqLine.receive = noted_receive  # type: ignore[method-assign]
        Signatures.admit = noted_admit  # type: ignore[method-assign]


if __name__ == "__main__":
    place, hostile = sys.argv.pop(1), sys.argv.pop(1)
    Attention(place, {int(number) for number in hostile.split(",")})
    cli(prog_name="agentd")

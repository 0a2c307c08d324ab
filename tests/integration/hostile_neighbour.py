"""What a malicious neighbour can put on the wire, on a socket that the agent takes to be agent 2's."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgpack

from agentd.core.bodies import RELEASED, SAMPLE, TOTALS, Kind
from agentd.core.grid import UNIT
from agentd.core.message import Message, batch_of
from agentd.errors import PeerError
from agentd.wire.codec import decode_frame, encode_frame
from agentd.wire.frame import MAX_FRAME_BYTES, Frame

ARMS = 2
OWN = 2
NASTY: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 127, 128, 255, 65535, 65536, 2**30, 2**32, 2**53, 2**63, 2**64 - 1),
    *(float("nan"), float("inf"), 1.0, "", "text", b"", bytes(8), bytes(18), [], [[]], {}, {1: 2}),
    *(msgpack.Timestamp(0, 0), msgpack.ExtType(1, b"x")),
)
LARGE_BOMBS = (
    b"\xdd" + (MAX_FRAME_BYTES - 5).to_bytes(4, "big") + b"\x80" * (MAX_FRAME_BYTES - 5),
    b"\x9f" * MAX_FRAME_BYTES,
    b"\xc6" + (MAX_FRAME_BYTES - 5).to_bytes(4, "big") + bytes(MAX_FRAME_BYTES - 5),
    bytes(MAX_FRAME_BYTES + 1),
)


class HostileNeighbour:
    """Makes up parts, and keeps the count of what a receiver must drop for which reason."""

    def __init__(self, run: bytes, seed: int) -> None:
        self._run = run
        self._dice = random.Random(seed)
        self._said = [self._frame(0)]
        self.dropped: Counter[str] = Counter()
        self.accepted = 0
        self._sorts: tuple[Callable[[int], bytes], ...] = (
            lambda _round: self._dice.randbytes(self._dice.randint(0, 64)),
            lambda _round: (data := self._dice.choice(self._said))[: self._dice.randrange(len(data))],
            lambda _round: self._dice.choice(self._said) + b"\x00",
            lambda _round: self._dice.choice(self._said),  # replayed
            self._flipped,
            self._replaced,
            self._overcounted,
            lambda round_: self._frame(round_, run=b"another!"),
            lambda round_: self._frame(round_, sender=self._dice.randrange(3, 65536)),
            self._huge,
            self._small_bomb,
            self._lie,
        )

    def parts(self, round_: int, number: int) -> list[bytes]:
        """So many payloads, none of which completes the round, ends the conversation or pretends to be ahead."""
        made = [self._harmful(round_) for _ in range(number)]
        for data in made:
            self._note(data)
        return made

    def large_bomb(self) -> bytes:
        data = self._dice.choice(LARGE_BOMBS)
        self._note(data)
        return data

    def _harmful(self, round_: int) -> bytes:
        while True:
            data = self._dice.choice(self._sorts)(round_)
            try:
                frame = decode_frame(data, arms=ARMS)
            except PeerError:
                return data
            if frame.round < round_ and not frame.goodbye:
                return data

    def _note(self, data: bytes) -> None:
        try:
            frame = decode_frame(data, arms=ARMS)
        except PeerError as fault:
            self.dropped[fault.reason] += 1
            return
        if frame.run != self._run:
            self.dropped["run"] += 1
        elif frame.sender != OWN:
            self.dropped["sender"] += 1
        else:
            self.accepted += 1

    def _frame(self, round_: int, *messages: Message, kind: Kind = TOTALS, **changes: Any) -> bytes:
        """A sound frame of an earlier round."""
        trial = max(1, round_ - 1)
        honest = Message(OWN, trial, 2, (trial, trial * UNIT // 2, 0, 0), 2)
        fields: dict[str, Any] = {"run": self._run, "sender": OWN, "incarnation": 0, "sequence": max(1, round_)}
        batch = batch_of(kind, messages or (honest,))
        return encode_frame(Frame(**(fields | changes), round=max(0, round_ - 1), flags=0, batches=(batch,), arms=ARMS))

    def _flipped(self, round_: int) -> bytes:
        changed = bytearray(self._frame(round_))
        for _ in range(self._dice.randint(1, 3)):
            changed[self._dice.randrange(len(changed))] ^= 1 << self._dice.randrange(8)
        return bytes(changed)

    def _replaced(self, round_: int) -> bytes:
        """A sound frame with one value, at any depth, replaced by a nasty one."""
        fields = items = msgpack.unpackb(self._frame(round_))
        at = self._dice.randrange(len(items))
        while type(items[at]) is list and items[at]:
            items = items[at]
            at = self._dice.randrange(len(items))
        items[at] = self._dice.choice(NASTY)
        return bytes(msgpack.packb(fields))

    def _overcounted(self, round_: int) -> bytes:
        fields = msgpack.unpackb(self._frame(round_))
        fields[7][0][2] = self._dice.choice((2, 131_072, 131_073, 2**31, 2**32 - 1, 2**53, 2**64 - 1))
        return bytes(msgpack.packb(fields))

    def _huge(self, round_: int) -> bytes:
        """Every number as large as it may be, or one of them."""
        trial, life, incarnation = 2**30 - 1, 65535, 2**53 - 1
        message = Message(
            self._dice.choice((OWN, 1, 65535)),
            self._dice.choice((1, trial)),
            self._dice.choice((1, life)),
            (2**32 - 1, 2**63 - 1, 2**32 - 1, -(2**63)),
            life,
            self._dice.choice((0, incarnation)),
        )
        return self._frame(
            round_,
            message,
            incarnation=self._dice.choice((0, 1, incarnation)),
            sequence=self._dice.choice((1, 2**53 - 1)),
        )

    def _small_bomb(self, _round: int) -> bytes:
        return self._dice.choice(
            (
                b"\xdd\xff\xff\xff\xff",
                b"\x98" + b"\xc6\xff\xff\xff\xff" * 8,
                b"\x91" * 2000 + b"\x90",
                b"\xdc\x00\x10" + b"\x80" * 16,
                msgpack.packb([[[] for _ in range(15)] for _ in range(15)]),
                msgpack.packb([2, b"another version"]),
            )
        )

    def _lie(self, round_: int) -> bytes:
        """A sound frame about origins nobody knows, or with a body that no honest origin sends."""
        origin = self._dice.randrange(65536)
        trial = self._dice.choice((1, max(1, round_ - 1), round_ + 1, 2**30 - 1))
        kind, body = self._dice.choice(
            (
                (TOTALS, (1, UNIT, 0, 0)),
                (TOTALS, (1, -UNIT, 0, 0)),
                (TOTALS, (trial + 1, 0, 0, 0)),
                (SAMPLE, (ARMS, 0)),
                (SAMPLE, (0, UNIT + 1)),
                (RELEASED, (1, 1, 2**62, 1, 1, -(2**62))),
                (RELEASED, (2**32 - 1, 1, 0, 0, 0, 0)),
            )
        )
        return self._frame(round_, Message(origin, trial, 2, body, 2), kind=kind)

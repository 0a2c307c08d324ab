"""Recognising a frame without decoding it: what the next frame of a sender is, byte for byte, but for its columns.

There is exactly one way to write a frame. So if a frame is as long and begins as the one must that continues the last
one (next sequence number, next round, as many messages of the same kind), it *is* that one, and all that is left to
read are the heads and bodies inside it. In lockstep nearly every frame is, and an agent hears dozens in a round.

Where many agents share a process, many of them hear the same frame of a sender. They expect the same of it, so they
have one expectation together, and what one of them has found in a frame the next one takes up. Which sequence number
and round each of them waits for is still its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from agentd.core.bodies import Kind
from agentd.core.message import Batch, Columns
from agentd.core.rounds import Neighbour
from agentd.wire.codec import encode_plain
from agentd.wire.frame import HEADER, MAX_FRAME_BYTES, MAX_SEQUENCE, VERSION, Frame
from agentd.wire.layout import HEAD_BYTES, HeadReader, body_bytes, read_columns
from agentd.wire.topics import FRAME_TOPIC

_BEFORE_NUMBERS = list(HEADER).index("sequence")
_NUMBERS_GROW_BY = 8
"""Bytes that two numbers can take more than those before them; a message takes more."""
_MOST_BYTES = len(FRAME_TOPIC) + MAX_FRAME_BYTES


class Said(NamedTuple):
    """What a neighbour said last, and as which bytes: what is expected of it is worked out only where that may come."""

    frame: Frame
    part: bytes

    def may_go_on_with(self, part: bytes) -> bool:
        """Whether the next part is about as long, as that of a frame with as many messages is."""
        return -_NUMBERS_GROW_BY <= len(part) - len(self.part) <= _NUMBERS_GROW_BY


class Expectation:
    """The next frame of one sender, if it goes on as before; its sequence number and its round are told when asked."""

    __slots__ = (
        *("after_bodies", "ahead", "behind", "between", "content", "head_bytes", "length", "messages"),
        *("__weakref__", "found", "is_shared", "signature_bytes"),
    )

    def __init__(self, frame: Frame, kind: Kind, count: int, *, signed: bool) -> None:
        self.content = kind, frame.arms, signed
        """The kind of the messages, the number of arms they are about, and whether they are signed."""
        self.messages = frame.sender, count
        """Who says how many."""
        heads, bodies = HEAD_BYTES * count, body_bytes(kind, frame.arms) * count
        before = (VERSION, *frame.header[:_BEFORE_NUMBERS])
        self.signature_bytes = kind.signature_bytes * count * signed
        batch = kind.tag, frame.arms, count, bytes(heads), bytes(bodies), bytes(self.signature_bytes)
        whole = encode_plain((*before, 0, 0, 0, (batch,)))  # both numbers take one byte, and there are no flags
        numbers = sum([len(encode_plain(field)) for field in before]) + 1
        self.ahead = FRAME_TOPIC + whole[:numbers]
        """What stands before the two numbers."""
        self.between = _binary(bodies)
        """What stands between heads and bodies."""
        self.after_bodies = _binary(self.signature_bytes)
        """What stands between bodies and signatures."""
        behind = len(whole) - heads - len(self.between) - bodies - len(self.after_bodies) - self.signature_bytes
        self.behind = whole[numbers + 2 : behind]
        """What stands between them and the heads."""
        self.head_bytes = heads
        framing = len(self.ahead + self.behind + self.between + self.after_bodies)
        self.length = framing + heads + bodies + self.signature_bytes
        """Of all but the two numbers."""
        self.is_shared = False
        """Whether several listeners expect it."""
        self.found: Found = _NOTHING
        """What the last part was, where it is shared; nothing changes a part, so the same one is known by identity."""

    @classmethod
    def after(cls, frame: Frame, part: bytes) -> Expectation | None:
        """What to expect after a frame that came as these bytes, topic included; None where nothing can be said."""
        if frame.content is None:
            return None
        for signed in (False, True):
            expectation = cls._of(frame, *frame.content, signed=signed)
            if expectation.columns_of(part, frame.sequence, frame.round) is not None:
                return expectation
        return None

    @classmethod
    def _of(cls, frame: Frame, kind: Kind, count: int, *, signed: bool) -> Expectation:
        """The one that there is already, for as long as somebody in this process has it, or a new one."""
        key = frame.header[:_BEFORE_NUMBERS], frame.arms, kind, count, signed
        if (known := _expected.get(key)) is not None:
            known.is_shared = True
            return known
        expectation = _expected[key] = cls(frame, kind, count, signed=signed)
        return expectation

    def columns_of(self, part: bytes, sequence: int, round_: int) -> tuple[bytes, bytes] | None:
        """Heads and bodies, if the part is the expected frame with this sequence number, of this round."""
        columns = _columns([(self, sequence, part)], round_)
        return None if columns is None else (columns[0][0], columns[1][0])


Found = tuple[bytes | None, int, int, bytes, bytes, bytes]
"""A part, its sequence number and round, and its heads, bodies and signatures."""
_NOTHING: Found = (None, 0, 0, b"", b"", b"")
_expected: WeakValueDictionary[object, Expectation] = WeakValueDictionary()

Expected = tuple[Expectation | None, int, bytes]
"""What is expected of a sender, the sequence number of its next frame, and what came."""


class Expectations:
    """What each neighbour of one listener is expected to say next, if it goes on as it did in the last round."""

    def __init__(self, neighbours: Iterable[int]) -> None:
        self._next: dict[int, Expectation | None] = dict.fromkeys(neighbours)
        self._said: dict[int, Said] = {}
        """What was said since that was worked out."""

    def heard(self, neighbour: int, said: Said | None) -> None:
        """A neighbour said that and just goes on; None: it does not."""
        self._next[neighbour] = None
        if said is not None:
            self._said[neighbour] = said
        else:
            self._said.pop(neighbour, None)

    def of(self, parts: Sequence[tuple[Neighbour[Frame], bytes]]) -> list[Expected]:
        """What is expected of all neighbours, of each of whom something came; nothing where something else came."""
        if (self._said and not self._are_worked_out(parts)) or None in self._next.values():
            return []
        return [(self._next[neighbour.id], neighbour.sequence + 1, part) for neighbour, part in parts]

    def _are_worked_out(self, parts: Sequence[tuple[Neighbour[Frame], bytes]]) -> bool:
        """Work out what to expect, if what came is about as long as that; mostly it is worked out already."""
        for neighbour, part in parts:
            if (last := self._said.get(neighbour.id)) is not None and not last.may_go_on_with(part):
                return False
        self._next |= {neighbour: Expectation.after(*last) for neighbour, last in self._said.items()}
        self._said = {}
        return True


def read_expected(parts: Sequence[Expected], round_: int, heads: HeadReader) -> Batch | None:
    """All that the parts of a round say, if each is the frame that is expected and all are of one kind."""
    content = parts[0][0].content if parts and parts[0][0] is not None else None
    columns = _columns(parts, round_) if content is not None else None
    if content is None or columns is None:
        return None
    kind, arms, signed = content
    head_columns, body_columns, signatures = columns
    return read_columns(kind, arms, head_columns, body_columns, heads, signatures if signed else None)


def senders_of(parts: Sequence[Expected]) -> Columns:
    """Who says each message of a round in which everything came as expected."""
    senders, counts = zip(*[expected.messages for expected, *_ in parts if expected is not None], strict=True)
    return np.repeat(np.array(senders), np.array(counts))


def _columns(parts: Sequence[Expected], round_: int) -> tuple[list[bytes], list[bytes], list[bytes]] | None:
    """The heads, bodies and signatures of each part, if all are the frames that are expected and of one kind.

    One loop without calls of our own: it is run through a few thousand times a second on a machine full of agents.
    """
    head_columns: list[bytes] = []
    body_columns: list[bytes] = []
    signatures: list[bytes] = []
    content, numbers, of = None, b"", -1
    for expected, sequence, part in parts:
        if expected is None or sequence > MAX_SEQUENCE:
            return None
        if sequence != of:  # mostly it is the same for all senders
            numbers, of = _fields(sequence, round_), sequence
        if content is None:
            content = expected.content
        found = expected.found
        if found[0] is part and found[1] == sequence and found[2] == round_ and expected.content == content:
            head_columns.append(found[3])
            body_columns.append(found[4])
            if found[5]:
                signatures.append(found[5])
            continue
        start = expected.ahead + numbers + expected.behind
        bodies = len(start) + expected.head_bytes
        signed = len(part) - expected.signature_bytes
        closing = signed - len(expected.after_bodies)
        if (
            len(part) != expected.length + len(numbers)
            or len(part) > _MOST_BYTES
            or not part.startswith(start)
            or not part.startswith(expected.between, bodies)
            or not part.startswith(expected.after_bodies, closing)
            or expected.content != content
        ):
            return None
        head_columns.append(part[len(start) : bodies])
        body_columns.append(part[bodies + len(expected.between) : closing])
        if signed < len(part):
            signatures.append(part[signed:])
        if expected.is_shared:
            expected.found = part, sequence, round_, head_columns[-1], body_columns[-1], part[signed:]
    return head_columns, body_columns, signatures


def _fields(*values: int | bytes) -> bytes:
    return b"".join(map(encode_plain, values))


def _binary(length: int) -> bytes:
    """What stands before so many bytes."""
    whole = encode_plain(bytes(length))
    return whole[: len(whole) - length]

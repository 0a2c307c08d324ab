"""Recognising a frame without decoding it: what the next frame of a sender is, byte for byte, but for its columns.

There is exactly one way to write a frame. So if a frame is as long and begins as the one must that continues the last
one (next sequence number, next round, as many messages of the same kind), it *is* that one, and all that is left to
read are the heads and bodies inside it. In lockstep nearly every frame is, and an agent hears dozens in a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from agentd.core.message import Batch, Kind
from agentd.wire.codec import encode_plain
from agentd.wire.frame import MAX_FRAME_BYTES, MAX_SEQUENCE, VERSION, Frame
from agentd.wire.layout import HEAD_BYTES, HeadReader, body_bytes, read_columns
from agentd.wire.topics import FRAME_TOPIC

_FRAME = b"\x98"
"""An array of eight."""
_ONE_BATCH = b"\x00\x91\x96"
"""No flags, and an array of one array of six."""
_NO_SIGNATURES = b"\xc4\x00"
_MOST_BYTES = len(FRAME_TOPIC) + MAX_FRAME_BYTES


class Expectation:
    """The next frame of one sender, if it goes on as before; its sequence number and its round are told when asked."""

    __slots__ = ("_ahead", "_behind", "_between", "_heads", "_length", "content")

    def __init__(self, frame: Frame, kind: Kind, count: int) -> None:
        self.content = kind, frame.arms
        """The kind of the messages, and the number of arms they are about."""
        self._ahead = FRAME_TOPIC + _FRAME + _fields(VERSION, frame.run, frame.sender, frame.incarnation)
        heads, bodies = HEAD_BYTES * count, body_bytes(int(kind), frame.arms) * count
        self._behind = _ONE_BATCH + _fields(int(kind), frame.arms, count) + _binary(heads)
        self._between = _binary(bodies)
        self._heads = heads
        self._length = len(self._ahead + self._behind + self._between + _NO_SIGNATURES) + heads + bodies

    @classmethod
    def after(cls, frame: Frame, part: bytes) -> Expectation | None:
        """What to expect after a frame that came as these bytes, topic included; None where nothing can be said."""
        if frame.content is None:
            return None
        expectation = cls(frame, *frame.content)
        known = expectation.columns_of(part, frame.sequence, frame.round) is not None
        return expectation if known else None  # signed, say; so would be the next one

    def columns_of(self, part: bytes, sequence: int, round_: int) -> tuple[bytes, bytes] | None:
        """Heads and bodies, if the part is the expected frame with this sequence number, of this round."""
        numbers = _numbers(sequence, round_)
        behind = len(self._ahead) + len(numbers)
        heads = behind + len(self._behind)
        between = heads + self._heads
        if (
            len(part) == self._length + len(numbers) <= _MOST_BYTES
            and part.startswith(self._ahead)
            and part.startswith(numbers, len(self._ahead))
            and part.startswith(self._behind, behind)
            and part.startswith(self._between, between)
            and part.endswith(_NO_SIGNATURES)
            and sequence <= MAX_SEQUENCE
        ):
            return part[heads:between], part[between + len(self._between) : -len(_NO_SIGNATURES)]
        return None


Expected = tuple[Expectation | None, int, bytes]
"""What is expected of a sender, the sequence number of its next frame, and what came."""


def read_expected(parts: Sequence[Expected], round_: int, heads: HeadReader) -> Batch | None:
    """All that the parts of a round say, if each is the frame that is expected and all are of one kind."""
    content = parts[0][0].content if parts and parts[0][0] is not None else None
    head_columns: list[bytes] = []
    body_columns: list[bytes] = []
    for expected, sequence, part in parts:
        if expected is None or expected.content != content:
            return None
        columns = expected.columns_of(part, sequence, round_)
        if columns is None:
            return None
        head_columns.append(columns[0])
        body_columns.append(columns[1])
    return None if content is None else read_columns(*content, head_columns, body_columns, heads)


@lru_cache(maxsize=32)
def _numbers(sequence: int, round_: int) -> bytes:
    """Both numbers as they stand in a frame; mostly they are the same for all senders."""
    return _fields(sequence, round_)


def _fields(*values: int | bytes) -> bytes:
    return b"".join(map(encode_plain, values))


def _binary(length: int) -> bytes:
    """What stands before so many bytes."""
    return encode_plain(bytes(length))[:-length]

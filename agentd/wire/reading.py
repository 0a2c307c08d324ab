"""From the parts that an agent hears to frames; where many agents share a process, each part is read once for all.

What a frame is follows from its bytes and from how many arms the run has. A part goes to all who hear it as the same
bytes, so whoever reads it first has read it for the others: the frame, or why it is none. Nothing changes a frame once
it is made. Whether it is one of this run, from this neighbour and of this round is still judged by each listener.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentd.errors import PeerError
from agentd.wire.codec import decode_frame, decode_frames
from agentd.wire.frame import Frame
from agentd.wire.layout import HeadReader
from agentd.wire.topics import FRAME_TOPIC, payload, sync_topic

KNOWN_BYTES = 16 << 20
"""So much is kept of what was heard last, and once more of what was heard before that."""
KNOWN_OVERHEAD_BYTES = 1024
"""What the smallest frame takes, about."""

Read = tuple[Frame | PeerError, int]
"""A frame, or why it is none, and how many bytes were looked at."""


class KnownFrames:
    """What the agents of a process have heard lately, read."""

    def __init__(self) -> None:
        self._arms = 0
        self._new: dict[bytes, Frame | PeerError] = {}
        self._old: dict[bytes, Frame | PeerError] = {}
        self._size = 0

    def read(self, part: bytes, arms: int) -> Frame | PeerError:
        """The frame that a part of everybody's topic is."""
        if arms != self._arms:
            self._arms, self._new, self._old = arms, {}, {}
        frame = self._new.get(part)
        if frame is None:
            frame = self._old.get(part)
            self._keep(part, _frame_of(part[len(FRAME_TOPIC) :], arms) if frame is None else frame)
            frame = self._new[part]
        return frame

    def _keep(self, part: bytes, frame: Frame | PeerError) -> None:
        self._size += len(part) + KNOWN_OVERHEAD_BYTES
        if self._size > KNOWN_BYTES:
            self._new, self._old, self._size = {}, self._new, 0
        self._new[part] = frame


class PartReader:
    """Reads what one agent hears."""

    def __init__(self, own: int, known: KnownFrames | None = None, *, fast_path: bool = True) -> None:
        """`known` is there where others of the process hear the same."""
        self._topic = sync_topic(own)
        self._known = known
        self.heads = HeadReader(fast_path=fast_path)

    def read(self, parts: Sequence[bytes], arms: int) -> list[Read]:
        """What each part is."""
        if self._known is not None:
            return [self._read_one(part, arms, self._known) for part in parts]
        payloads = [self._payload(part) for part in parts]
        whole = [data for data in payloads if isinstance(data, bytes)]
        frames = iter(decode_frames(whole, arms=arms, heads=self.heads))
        return [
            (next(frames), len(data)) if isinstance(data, bytes) else (data, len(part))
            for part, data in zip(parts, payloads, strict=True)
        ]

    def _read_one(self, part: bytes, arms: int, known: KnownFrames) -> Read:
        if part.startswith(FRAME_TOPIC):
            return known.read(part, arms), len(part) - len(FRAME_TOPIC)
        data = self._payload(part)
        return (_frame_of(data, arms), len(data)) if isinstance(data, bytes) else (data, len(part))

    def _payload(self, part: bytes) -> bytes | PeerError:
        try:
            return payload(part, self._topic)
        except PeerError as fault:
            return fault


def _frame_of(data: bytes, arms: int) -> Frame | PeerError:
    try:
        return decode_frame(data, arms=arms)
    except PeerError as fault:
        return fault

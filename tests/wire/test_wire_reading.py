"""Parts that several agents of a process hear: each is read once, and is to each of them what its bytes say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.errors import PeerError
from agentd.wire import reading
from agentd.wire.codec import encode_frame
from agentd.wire.frame import GREETING, Frame
from agentd.wire.reading import KnownFrames, PartReader, Read
from agentd.wire.topics import FRAME_TOPIC, sync_topic

RUN = bytes(8)


def frame(sequence: int, flags: int = 0) -> bytes:
    return encode_frame(Frame(RUN, 7, 0, sequence, sequence, flags, (), 0))


def plainly(read: list[Read]) -> list[object]:
    """Headers, or the reasons of refusals, and sizes."""
    return [(got.reason if isinstance(got, PeerError) else got.header, size) for got, size in read]


PARTS = st.sampled_from(
    [
        FRAME_TOPIC + frame(1),
        FRAME_TOPIC + frame(2),
        FRAME_TOPIC + frame(2)[:-1],
        FRAME_TOPIC + frame(2) + b"x",
        FRAME_TOPIC,
        sync_topic(3) + frame(1, GREETING),
        sync_topic(4) + frame(1, GREETING),
        b"gossip/" + frame(1),
        b"",
    ]
)


@given(st.lists(PARTS, max_size=6), st.lists(PARTS, max_size=6))
def test_whoever_reads_with_others_reads_what_it_would_read_alone(before: list[bytes], parts: list[bytes]) -> None:
    known = KnownFrames()
    PartReader(4, known).read(before, 2)
    assert plainly(PartReader(3, known).read(parts, 2)) == plainly(PartReader(3).read(parts, 2))


def test_a_part_is_read_once_for_all() -> None:
    known, part = KnownFrames(), FRAME_TOPIC + frame(5)
    (first, _), (second, _) = PartReader(3, known).read([part], 2) + PartReader(4, known).read([part], 2)
    assert first is second
    assert known.read(part, 3) is not first, "in a run of other arms it may be something else"


def test_what_is_known_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "KNOWN_BYTES", 10 * reading.KNOWN_OVERHEAD_BYTES)
    known = KnownFrames()
    parts = [FRAME_TOPIC + frame(number) for number in range(1, 100)]
    first = known.read(parts[0], 2)
    assert known.read(parts[0], 2) is first
    for part in parts[1:]:
        known.read(part, 2)
        assert len(known._new) + len(known._old) <= 20
    assert known.read(parts[0], 2) is not first

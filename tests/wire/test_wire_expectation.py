"""Frames that are recognised without being decoded: whatever is recognised is what the decoder would have read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.bodies import KINDS, RELEASED, TOTALS, Kind
from agentd.core.message import MAX_TRIAL, Batch, Message, batch_of
from agentd.errors import PeerError
from agentd.wire.codec import decode_frame, encode_frame
from agentd.wire.expectation import Expectation, read_expected
from agentd.wire.frame import GOODBYE, MAX_SEQUENCE, Frame
from agentd.wire.layout import HeadReader
from agentd.wire.topics import FRAME_TOPIC

ARMS = 3


@dataclass(frozen=True)
class Said:
    """What makes up a frame of one batch."""

    run: bytes = b"12345678"
    sender: int = 300
    incarnation: int = 2
    sequence: int = 127
    round: int = 255
    flags: int = 0
    kind: Kind = RELEASED
    arms: int = ARMS
    count: int = 2
    trial: int = 255
    signed: bool = False

    def frame(self) -> Frame:
        body = (1,) * self.kind.width(self.arms)
        batch = batch_of(self.kind, [Message(origin, self.trial, 1, body, 2) for origin in range(self.count)])
        if self.signed:
            width = self.kind.signature_bytes
            signature = np.arange(self.count * width, dtype=np.uint8).reshape(self.count, width)
            batch = Batch(batch.kind, batch.head, batch.body, signature)
        header = self.run, self.sender, self.incarnation, self.sequence, self.round, self.flags
        return Frame(*header, (batch,) if self.count else (), self.arms)

    def part(self) -> bytes:
        return FRAME_TOPIC + encode_frame(self.frame())

    def next(self) -> Said:
        return replace(self, sequence=self.sequence + 1, round=self.round + 1, trial=self.trial + 1)


def expectation(said: Said) -> Expectation | None:
    return Expectation.after(decode_frame(said.part()[len(FRAME_TOPIC) :]), said.part())


said = st.builds(
    Said,
    sender=st.sampled_from([0, 127, 128, 65535]),
    incarnation=st.sampled_from([0, 255, 256, 1 << 40]),
    sequence=st.sampled_from([1, 126, 127, 254, 255, 65534, 65535, 1 << 32, MAX_SEQUENCE - 1]),
    round=st.sampled_from([1, 126, 127, 254, 255, 65534, 65535]),
    kind=st.sampled_from(list(KINDS.values())),
    arms=st.sampled_from([1, 3, 200]),
    count=st.sampled_from([1, 2, 14, 15, 300]),
    signed=st.booleans(),
)


@given(said)
@settings(deadline=None, max_examples=60)
def test_the_frame_that_goes_on_is_recognised_and_its_columns_are_those_of_the_wire(first: Said) -> None:
    expected = expectation(first)
    assert expected is not None
    following = first.next()
    batch = read_expected([(expected, following.sequence, following.part())], following.round, HeadReader())
    assert batch is not None
    read = decode_frame(following.part()[len(FRAME_TOPIC) :]).batches[0]
    assert batch.messages() == read.messages()
    assert batch.kind is read.kind
    assert batch.signature.tobytes() == read.signature.tobytes()


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 129},
        {"sequence": 127},
        {"round": 257},
        {"sender": 301},
        {"incarnation": 3},
        {"run": b"87654321"},
        {"flags": GOODBYE},
        {"count": 3},
        {"count": 0},
        {"kind": TOTALS},
        {"arms": 4},
        {"signed": True},
    ],
    ids=str,
)
def test_any_other_frame_is_left_to_the_decoder(change: dict[str, object]) -> None:
    expected = expectation(Said())
    assert expected is not None
    other = replace(Said().next(), **change)  # type: ignore[arg-type]
    assert expected.columns_of(other.part(), 128, 256) is None


@given(st.integers(0, 10_000), st.integers(0, 255), st.booleans())
@settings(deadline=None, max_examples=400)
def test_whatever_is_recognised_the_decoder_reads_the_same(place: int, byte: int, signed: bool) -> None:
    """One byte of the expected frame is another: the decoder refuses it, or reads an expected header."""
    expected, following = expectation(Said(signed=signed)), Said(signed=signed).next()
    assert expected is not None
    part = bytearray(following.part())
    part[place % len(part)] = byte
    columns = expected.columns_of(bytes(part), following.sequence, following.round)
    if columns is None:
        return
    batch = read_expected([(expected, following.sequence, bytes(part))], following.round, HeadReader())
    if batch is None:
        with pytest.raises(PeerError, match="range"):  # of a head
            decode_frame(bytes(part[len(FRAME_TOPIC) :]))
        return
    frame = decode_frame(bytes(part[len(FRAME_TOPIC) :]))
    assert (frame.sender, frame.sequence, frame.round) == (following.sender, following.sequence, following.round)
    assert (frame.run, frame.incarnation, frame.flags) == (following.run, following.incarnation, 0)
    assert batch.messages() == frame.batches[0].messages()
    assert batch.signature.tobytes() == frame.batches[0].signature.tobytes()


@pytest.mark.parametrize("cut", [0, 1, 5, 6, 7, 40])
def test_a_frame_that_is_cut_off_or_longer_is_not_the_expected_one(cut: int) -> None:
    expected, part = expectation(Said()), Said().next().part()
    assert expected is not None
    assert expected.columns_of(part[:cut], 128, 256) is None
    assert expected.columns_of(part + bytes(cut + 1), 128, 256) is None


def test_nothing_is_expected_after_frames_without_messages() -> None:
    assert expectation(Said(count=0)) is None


def test_after_signed_frames_others_are_not_expected() -> None:
    expected = expectation(Said(signed=True))
    assert expected is not None
    assert expected.columns_of(Said(signed=True).next().part(), 128, 256) is not None
    assert expected.columns_of(Said().next().part(), 128, 256) is None


@pytest.mark.parametrize("fast_path", [True, False])
def test_it_goes_on_for_as_long_as_the_sender_does(fast_path: bool) -> None:
    now, reader = Said(sequence=100, round=100, trial=100), HeadReader(fast_path=fast_path)
    expected = expectation(now)
    assert expected is not None
    for _ in range(300):
        now = now.next()
        batch = read_expected([(expected, now.sequence, now.part())] * 2, now.round, reader)
        assert batch is not None
        assert batch.trial.tolist() == [now.trial] * 4


def test_no_sequence_number_beyond_the_largest_is_recognised() -> None:
    last = Said(sequence=MAX_SEQUENCE, round=9)
    expected = expectation(last)
    assert expected is not None
    beyond = last.part().replace(
        MAX_SEQUENCE.to_bytes(8, "big") + b"\x09", (MAX_SEQUENCE + 1).to_bytes(8, "big") + b"\x0a"
    )
    assert beyond != last.part()
    assert expected.columns_of(beyond, MAX_SEQUENCE + 1, 10) is None


def test_a_round_of_several_kinds_or_with_an_unknown_neighbour_is_left_to_the_decoder() -> None:
    one, other = Said(), Said(kind=TOTALS)
    parts = [(expectation(said), 128, said.next().part()) for said in (one, other)]
    assert read_expected(parts, 256, HeadReader()) is None
    assert read_expected([parts[0], (None, 128, other.next().part())], 256, HeadReader()) is None
    assert read_expected(parts[:1], 257, HeadReader()) is None
    assert read_expected([], 256, HeadReader()) is None


def records(*heads: tuple[int, int, int, int, int]) -> bytes:
    return b"".join(
        origin.to_bytes(2, "little")
        + incarnation.to_bytes(8, "little")
        + trial.to_bytes(4, "little")
        + lifetime.to_bytes(2, "little")
        + life.to_bytes(2, "little")
        for origin, incarnation, trial, lifetime, life in heads
    )


heads = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
    min_size=1,
    max_size=3,
)


@given(st.lists(st.one_of(heads, st.none()), max_size=12))
@settings(deadline=None, max_examples=300)
def test_a_reader_with_a_memory_reads_what_one_without_does(rounds: list[list[tuple[int, ...]] | None]) -> None:
    """Rounds of any heads; None is the round before, one trial later."""
    reader, without, before = HeadReader(), HeadReader(fast_path=False), list[tuple[int, ...]]()
    last = 0
    for told in rounds:
        repeated = told is None
        now = [(o, i, t + 1, g, life) for o, i, t, g, life in before] if told is None else told
        raw = records(*now)  # type: ignore[arg-type]
        read, plain = reader.read(raw), without.read(raw)
        assert (read is None) == (plain is None)
        if read is not None and plain is not None:
            assert read[0].tolist() == plain[0].tolist() == [list(head) for head in now]
            assert read[2] == plain[2]
            assert plain[1].repeats == 0
            if read[1].repeats or (repeated and before):
                assert read[1].repeats == last
        before, last = now, read[1].number if read is not None else 0


@pytest.mark.parametrize("fast_path", [True, False])
def test_a_reader_does_not_follow_beyond_the_last_trial(fast_path: bool) -> None:
    reader = HeadReader(fast_path=fast_path)
    assert reader.read(records((1, 0, MAX_TRIAL, 2, 1))) is not None
    assert reader.read(records((1, 0, MAX_TRIAL + 1, 2, 1))) is None


def test_listeners_of_one_sender_share_what_is_found_in_a_frame_and_nothing_else() -> None:
    first, part = expectation(Said()), Said().next().part()
    second = expectation(Said())
    assert first is not None
    assert first is second
    found = first.columns_of(part, 128, 256)
    assert found is not None
    assert second.columns_of(part, 128, 256) == found
    assert all(one is other for one, other in zip(found, second.columns_of(part, 128, 256) or (), strict=True))
    assert second.columns_of(part, 129, 256) is None, "another sequence number is looked at by itself"
    assert second.columns_of(part, 128, 257) is None
    assert second.columns_of(part[:-1] + bytes([part[-1] ^ 1]), 128, 256) != found
    assert expectation(replace(Said(), incarnation=1)) is not first

"""Frames survive the way through bytes, and what no peer would accept is never sent."""

from __future__ import annotations

import hostile_frames
import msgpack
import numpy as np
import pytest
import wire_samples

from agentd.core.bodies import RELEASED, SAMPLE, TOTALS, Kind
from agentd.core.message import Batch, Message, batch_of
from agentd.errors import PeerError
from agentd.wire.codec import decode_frame, decode_frames, encode_frame
from agentd.wire.frame import GOODBYE, GREETING, HEADER, MAX_FRAME_BYTES, MAX_MESSAGES, Frame, Reason, header_fault

DRAW = np.random.default_rng(7)


def one(kind: Kind = SAMPLE, **changes: int) -> Batch:
    message = Message(7, 300, 1, (1, 2) if kind is SAMPLE else (1, 1, 5, 0, 0, 0), 2, 1)
    return batch_of(kind, [message._replace(**changes)])


def with_body(kind: Kind, *body: int) -> Batch:
    return batch_of(kind, [Message(7, 300, 1, body, 2, 1)])


def reason_of(data: bytes, **options: int) -> str:
    with pytest.raises(PeerError) as fault:
        decode_frame(data, **options)
    return fault.value.reason


def test_decoded_columns_are_64_bit_integers_of_the_shape_that_the_core_works_on() -> None:
    frame = decode_frame(encode_frame(wire_samples.a_frame(wire_samples.random_batch(DRAW, RELEASED, 2, 4))))
    (batch,) = frame.batches
    assert (batch.head.dtype, batch.head.shape) == (np.int64, (4, 5))
    assert (batch.body.dtype, batch.body.shape) == (np.int64, (4, 6))
    assert (batch.signature.dtype, batch.signature.shape) == (np.uint8, (4, 0))
    assert batch.kind is RELEASED
    assert (frame.messages, frame.arms, frame.goodbye, frame.greeting) == (4, 2, False, False)


def test_a_batch_that_is_relayed_is_sent_as_it_was_received() -> None:
    data = encode_frame(wire_samples.a_frame(wire_samples.random_batch(DRAW, TOTALS, 2, 9, signed=True)))
    assert encode_frame(decode_frame(data)) == data


def test_rows_that_are_not_contiguous_encode_like_their_copies() -> None:
    batch = wire_samples.random_batch(DRAW, RELEASED, 2, 8, signed=True)
    strided = Batch(batch.kind, np.asfortranarray(batch.head)[::2], batch.body[::2], batch.signature[::2])
    copied = batch.rows(np.arange(0, 8, 2))
    assert encode_frame(wire_samples.a_frame(strided)) == encode_frame(wire_samples.a_frame(copied))


def test_a_memoryview_decodes_like_its_bytes() -> None:
    data = encode_frame(wire_samples.documented_frame())
    frame = decode_frame(memoryview(b"frame/" + data)[6:])
    assert encode_frame(frame) == data


def test_empty_batches_are_left_out() -> None:
    empty = one().rows(np.zeros(0, dtype=np.intp))
    assert encode_frame(wire_samples.a_frame(empty, one(), empty)) == encode_frame(wire_samples.a_frame(one()))


def test_flags_are_read_as_what_they_mean() -> None:
    goodbye = decode_frame(encode_frame(wire_samples.a_frame(flags=GOODBYE)))
    greeting = decode_frame(encode_frame(wire_samples.a_frame(flags=GREETING)))
    assert (goodbye.goodbye, goodbye.greeting) == (True, False)
    assert (greeting.goodbye, greeting.greeting) == (False, True)


def test_a_frame_about_another_number_of_arms_is_refused_only_where_arms_are_expected() -> None:
    data = encode_frame(wire_samples.documented_frame())
    assert decode_frame(data, arms=2).arms == decode_frame(data).arms == 2
    assert reason_of(data, arms=3) == Reason.ARMS


def test_a_frame_without_batches_has_the_arms_that_were_expected() -> None:
    data = encode_frame(wire_samples.a_frame())
    assert decode_frame(data, arms=5).arms == 5
    assert decode_frame(data).arms == 0


def test_many_frames_at_once_decode_like_one_by_one_and_each_fault_stays_with_its_frame() -> None:
    good = [encode_frame(frame) for frame in wire_samples.sample_frames().values()]
    bad = [data for data, _ in hostile_frames.bad_frames().values()]
    parts = [part for pair in zip(good * 10, bad, strict=False) for part in pair]
    for part, result in zip(parts, decode_frames(parts), strict=True):
        if isinstance(result, PeerError):
            assert reason_of(part) == result.reason
        else:
            assert encode_frame(result) == part


def test_frames_of_one_kind_are_read_together_and_cut_apart_again() -> None:
    counts = (3, 1, 0, 21)
    frames = [
        wire_samples.a_frame(*([wire_samples.random_batch(DRAW, RELEASED, 5, n, signed=n == 3)] * (n > 0)), arms=5)
        for n in counts
    ]
    parts = [encode_frame(frame) for frame in frames]
    results = decode_frames(parts, arms=5)
    assert [encode_frame(frame) for frame in results] == parts
    assert [frame.messages for frame in results] == list(counts)


def test_a_bad_head_among_frames_read_together_costs_only_its_own_frame() -> None:
    good, bad = hostile_frames.GOOD, hostile_frames.with_head(life=0)
    first, second, third = decode_frames([good, bad, good])
    assert isinstance(first, Frame)
    assert isinstance(second, PeerError)
    assert isinstance(third, Frame)
    assert second.reason == Reason.RANGE


def test_no_frames_decode_to_no_frames() -> None:
    assert decode_frames([]) == []


def test_a_frame_of_the_longest_length_is_read_and_one_byte_more_is_refused_unread() -> None:
    assert reason_of(bytes(MAX_FRAME_BYTES)) != Reason.OVERSIZE
    assert reason_of(bytes(MAX_FRAME_BYTES + 1)) == Reason.OVERSIZE


def test_the_most_messages_travel_and_one_more_does_not() -> None:
    batch = wire_samples.random_batch(DRAW, SAMPLE, 2, MAX_MESSAGES)
    data = encode_frame(wire_samples.a_frame(batch))
    assert decode_frame(data).messages == MAX_MESSAGES
    with pytest.raises(ValueError, match="range"):
        encode_frame(wire_samples.a_frame(batch, one()))
    fields = msgpack.unpackb(data)
    fields[7] += msgpack.unpackb(encode_frame(wire_samples.a_frame(one())))[7]
    assert reason_of(msgpack.packb(fields)) == Reason.RANGE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run": b"short"}, "length"),
        ({"sender": 65536}, "range"),
        ({"sender": np.int64(3)}, "type"),
        ({"sender": True}, "type"),
        ({"incarnation": -1}, "range"),
        ({"sequence": 1 << 53}, "range"),
        ({"round": 1 << 30}, "range"),
        ({"flags": 4}, "flags"),
        ({"flags": GREETING}, "flags"),
        ({"batches": (one(),) * 16}, "range"),
        ({"arms": 0}, "arms"),
        ({"arms": 1025}, "arms"),
        ({"batches": (one(RELEASED),), "arms": 3}, "3 arms"),
        ({"batches": (one(trial=0),)}, "head"),
        ({"batches": (one(trial=1 << 30),)}, "head"),
        ({"batches": (one(origin=-1),)}, "head"),
        ({"batches": (one(origin=65536),)}, "head"),
        ({"batches": (one(incarnation=1 << 53),)}, "head"),
        ({"batches": (one(life=3),)}, "head"),
        ({"batches": (one(life=0),)}, "head"),
        ({"batches": (one(lifetime=65537),)}, "head"),
        ({"batches": (with_body(SAMPLE, 65536, 0),)}, "arm of a SAMPLE"),
        ({"batches": (with_body(SAMPLE, 0, -1),)}, "reward of a SAMPLE"),
        ({"batches": (with_body(RELEASED, 1, 1, 5, 1 << 32, 1, 5),)}, "pulls of a RELEASED"),
        ({"batches": (with_body(RELEASED, 1, 1, 5, 1, -1, 5),)}, "pulls_at_release of a RELEASED"),
    ],
)
def test_a_frame_that_peers_would_refuse_is_not_sent(changes: dict, message: str) -> None:
    frame = wire_samples.a_frame(one())
    fields = ("run", "sender", "incarnation", "sequence", "round", "flags", "batches", "arms")
    frame = Frame(**({name: getattr(frame, name) for name in fields} | changes))
    with pytest.raises(ValueError, match=message):
        encode_frame(frame)


@pytest.mark.parametrize("signature", [np.empty((1, 63), np.uint8), np.empty((2, 64), np.uint8), np.empty((1, 64))])
def test_half_a_signature_is_not_sent(signature: np.ndarray) -> None:
    batch = one()
    with pytest.raises(ValueError, match="signatures"):
        encode_frame(wire_samples.a_frame(Batch(batch.kind, batch.head, batch.body, signature)))


def test_a_frame_that_is_too_long_is_not_sent() -> None:
    batch = wire_samples.random_batch(DRAW, RELEASED, 1024, 256)
    with pytest.raises(ValueError, match="fitting"):
        encode_frame(wire_samples.a_frame(batch, arms=1024))


def test_after_a_failed_encoding_the_next_one_is_whole() -> None:
    with pytest.raises(ValueError, match="head"):
        encode_frame(wire_samples.a_frame(one(), one(trial=0)))
    assert encode_frame(wire_samples.documented_frame()) == hostile_frames.GOOD


@pytest.mark.parametrize("name", [name for name in HEADER if name != "run"])
def test_a_header_is_refused_beyond_the_limits_that_it_is_described_by(name: str) -> None:
    """Of the numbers that a typed decoder reads by the same description, exactly those pass that it lets pass."""

    def fault(value: object) -> Reason | None:
        return header_fault([value if field == name else most for field, most in header.items()])

    header = {**HEADER, "run": bytes(HEADER["run"])}
    assert [fault(value) for value in (0, HEADER[name])] == [None, None]
    beyond = Reason.FLAGS if name == "flags" else Reason.RANGE
    assert [fault(value) for value in (-1, HEADER[name] + 1)] == [beyond, beyond]
    assert [fault(value) for value in (True, 1.0, None)] == [Reason.TYPE] * 3


def test_a_header_names_its_run_with_as_many_bytes_as_it_is_described_by() -> None:
    numbers = list(HEADER.values())[1:]
    assert [header_fault([bytes(HEADER["run"] + more), *numbers]) for more in (-1, 0, 1)] == [
        Reason.LENGTH,
        None,
        Reason.LENGTH,
    ]
    assert header_fault(["runaway!", *numbers]) is Reason.TYPE


def test_the_header_of_a_frame_is_what_it_was_made_of() -> None:
    header = (b"a run id", 1, 2, 3, 4, 1)
    assert Frame(*header, (), 5).header == header

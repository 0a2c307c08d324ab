"""Lengths that are computed are the lengths that are sent."""

from __future__ import annotations

import numpy as np
import pytest
import wire_samples

from agentd.core.bodies import KINDS, RELEASED, SAMPLE, TOTALS, Kind
from agentd.wire.codec import encode_frame
from agentd.wire.frame import MAX_BATCHES, MAX_FRAME_BYTES, MAX_MESSAGES, Frame
from agentd.wire.size import LONGEST_FRAMING, LONGEST_HEADER, encoded_bytes, fitting, frame_bytes

DRAW = np.random.default_rng(11)
WIDTHS = (0, 127, 128, 255, 256, 65535, 65536, (1 << 30) - 1)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("kind", list(KINDS.values()))
@pytest.mark.parametrize("count", [0, 1, 14, 15, 42, 43, 127, 128, 255, 256, 3640, 3641, 11000])
def test_a_computed_length_is_the_length_of_the_encoded_frame(kind: Kind, count: int, signed: bool) -> None:
    batch = wire_samples.random_batch(DRAW, kind, 5, count, signed=signed)
    frame = Frame(wire_samples.RUN, 300, 1 << 40, 70000, 200, 1, (batch,), 5)
    length = len(encode_frame(frame))
    header = {"sender": 300, "incarnation": 1 << 40, "sequence": 70000, "round": 200, "flags": 1}
    assert frame_bytes(kind, 5, count, signed=signed, **header) == encoded_bytes(frame) == length


@pytest.mark.parametrize("number", [*WIDTHS, (1 << 32) - 1, 1 << 32, (1 << 53) - 1])
def test_every_width_of_a_header_number_is_counted(number: int) -> None:
    frame = Frame(wire_samples.RUN, min(number, 65535), number, number, min(number, (1 << 30) - 1), 0, (), 0)
    assert encoded_bytes(frame) == len(encode_frame(frame)) <= LONGEST_HEADER


@pytest.mark.parametrize("arms", [1, 127, 128, 255, 256, 1024])
def test_every_width_of_the_number_of_arms_is_counted(arms: int) -> None:
    frame = wire_samples.a_frame(wire_samples.random_batch(DRAW, TOTALS, arms, 2), arms=arms)
    assert encoded_bytes(frame) == len(encode_frame(frame))


@pytest.mark.parametrize("count", [15, 16, 4095, 4096])
def test_a_bin_of_exactly_256_or_65536_bytes_is_counted(count: int) -> None:
    frame = wire_samples.a_frame(wire_samples.random_batch(DRAW, RELEASED, 1, count), arms=1)
    assert encoded_bytes(frame) == len(encode_frame(frame))


def test_one_call_sizes_a_whole_run() -> None:
    counts = np.arange(12).reshape(3, 4) * 40
    senders, rounds = np.array([[1], [200], [300]]), np.array([1, 127, 128, 300])
    header = {"incarnation": 5}
    sizes = frame_bytes(RELEASED, 5, counts, sender=senders, sequence=rounds, round=rounds, **header)
    for (agent, round_), count in np.ndenumerate(counts):
        numbers = {"sequence": int(rounds[round_]), "round": int(rounds[round_])}
        single = frame_bytes(RELEASED, 5, int(count), sender=int(senders[agent, 0]), **numbers, **header)
        assert sizes[agent, round_] == single


def test_what_fits_is_kept_whole() -> None:
    batches = [wire_samples.random_batch(DRAW, kind, 2, 30) for kind in KINDS.values()]
    kept, left_out = fitting(batches, 2)
    assert (list(kept), left_out) == (batches, 0)


def test_what_does_not_fit_is_cut_behind_and_counted() -> None:
    batch = wire_samples.random_batch(DRAW, RELEASED, 1024, 300)
    kept, left_out = fitting([batch, wire_samples.random_batch(DRAW, TOTALS, 1024, 2)], 1024)
    assert sum(map(len, kept)) + left_out == 302
    assert np.array_equal(kept[0].head, batch.head[: len(kept[0])])
    data = encode_frame(Frame(b"\xff" * 8, 65535, 2**53 - 1, 2**53 - 1, 2**30 - 1, 0, kept, 1024))
    assert MAX_FRAME_BYTES - 18 - 16 * 1024 - LONGEST_FRAMING < len(data) <= MAX_FRAME_BYTES


def test_the_bound_on_the_framing_of_a_batch_is_reached() -> None:
    longest = Frame(b"\xff" * 8, 65535, 2**53 - 1, 2**53 - 1, 2**30 - 1, 0, (), 1024)
    batch = wire_samples.random_batch(DRAW, SAMPLE, 1024, 70000, signed=False)
    frame = Frame(longest.run, 65535, 2**53 - 1, 2**53 - 1, 2**30 - 1, 0, (batch,), 1024)
    assert encoded_bytes(longest) == LONGEST_HEADER
    assert encoded_bytes(frame) == LONGEST_HEADER + 70000 * 24 + LONGEST_FRAMING - 3  # no signatures: 2 bytes, not 5


def test_at_most_the_allowed_messages_and_batches_are_kept() -> None:
    one = wire_samples.random_batch(DRAW, SAMPLE, 2, 1)
    assert fitting([one] * (MAX_BATCHES + 3), 2) == ((one,) * MAX_BATCHES, 3)
    many = wire_samples.random_batch(DRAW, SAMPLE, 2, MAX_MESSAGES)
    kept, left_out = fitting([many, one], 2)
    assert ([len(batch) for batch in kept], left_out) == ([MAX_MESSAGES], 1)


def test_nothing_fits_where_there_is_no_room() -> None:
    one = wire_samples.random_batch(DRAW, SAMPLE, 2, 1)
    assert fitting([one], 2, limit=LONGEST_HEADER) == ((), 1)

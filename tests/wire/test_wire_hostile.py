"""Whatever arrives, decoding ends in a sound value or in PeerError, in bounded time and memory."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator

import independent_decoder
import msgpack
import pytest
import wire_samples
from evidence import cpu_s_of

from agentd.errors import PeerError
from agentd.wire.codec import decode_environment, decode_frame, decode_frames, encode_environment, encode_frame
from agentd.wire.environment_messages import MAX_ENVIRONMENT_BYTES
from agentd.wire.frame import MAX_FRAME_BYTES, Frame, Reason

FRAMES = 100_000
MESSAGES = 20_000
AT_ONCE = 20
MIB = 1 << 20
NASTY = (
    *(None, True, False, -1, 0, 1, 2, 127, 128, 255, 256, 65535, 65536, 2**30, 2**32, 2**53, 2**63, 2**64 - 1),
    *(float("nan"), float("inf"), 1.0, "", "text", b"", bytes(8), bytes(18), bytes(64), [], [[]], {}),
    *(msgpack.Timestamp(0, 0), msgpack.ExtType(1, b"x")),
)


def flipped(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data))]


def spliced(data: bytes, dice: random.Random) -> bytes:
    """A run of bytes copied, removed or made up somewhere."""
    at, end = sorted((dice.randrange(len(data)), dice.randrange(len(data))))
    filler = dice.choice((b"", data[at:end] * 2, dice.randbytes(dice.randint(0, 9))))
    return data[:at] + filler + data[end:]


def made_up(_: bytes, dice: random.Random) -> bytes:
    return dice.randbytes(dice.randint(0, 64))


def replaced(data: bytes, dice: random.Random) -> bytes:
    """A sound array with one value, at any depth, replaced by a nasty one."""
    fields = items = msgpack.unpackb(data)
    at = dice.randrange(len(items))
    while type(items[at]) is list and items[at] and dice.random() < 0.8:
        items = items[at]
        at = dice.randrange(len(items))
    items[at] = dice.choice(NASTY)
    return msgpack.packb(fields)


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (flipped, cut, spliced, made_up, replaced)


def mutants(seeds: list[bytes], number: int, dice: random.Random) -> Iterator[bytes]:
    for _ in range(number):
        yield dice.choice(MUTATIONS)(dice.choice(seeds), dice)


@pytest.mark.parametrize(
    "number", [FRAMES, pytest.param(10 * FRAMES, marks=[pytest.mark.long, pytest.mark.timeout(1500)])]
)
def test_a_hundred_thousand_mutants_are_each_refused_or_have_exactly_this_meaning(number: int) -> None:
    """A million of them in make test-long."""
    dice = random.Random(20261116)
    seeds = [encode_frame(frame) for frame in wire_samples.sample_frames().values()]
    outcomes: Counter[str] = Counter()
    for _ in range(0, number, AT_ONCE):
        chunk = list(mutants(seeds, AT_ONCE, dice))
        for part, result in zip(chunk, decode_frames(chunk), strict=True):
            if isinstance(result, Frame):
                assert encode_frame(result) == part
            else:
                assert Reason(result.reason)
            outcomes[result.reason if isinstance(result, PeerError) else "accepted"] += 1
    # A fuzzer that never gets past the first check would prove nothing.
    assert outcomes["accepted"] > number // 100
    assert set(outcomes) >= {str(reason) for reason in Reason} - {"oversize", "topic"}


def test_one_by_one_decoding_judges_mutants_as_decoding_many_at_once_does() -> None:
    dice = random.Random(5)
    seeds = [encode_frame(frame) for frame in wire_samples.sample_frames().values()]
    parts = list(mutants(seeds, FRAMES // 10, dice))
    for part, result in zip(parts, decode_frames(parts), strict=True):
        if isinstance(result, Frame):
            assert encode_frame(decode_frame(part)) == encode_frame(result)
        else:
            with pytest.raises(PeerError) as fault:
                decode_frame(part)
            assert fault.value.reason == result.reason


@pytest.mark.parametrize(
    "number", [MESSAGES, pytest.param(50 * MESSAGES, marks=[pytest.mark.long, pytest.mark.timeout(1500)])]
)
def test_mutants_of_environment_messages_are_each_refused_or_have_exactly_this_meaning(number: int) -> None:
    """A million of them in make test-long."""
    dice = random.Random(20261117)
    seeds = [encode_environment(message) for message in wire_samples.sample_messages().values()]
    outcomes: Counter[str] = Counter()
    for part in mutants(seeds, number, dice):
        try:
            message = decode_environment(part)
        except PeerError as fault:
            outcomes[Reason(fault.reason)] += 1
        else:
            outcomes["accepted"] += 1
            assert encode_environment(message) == part
    assert outcomes["accepted"] > number // 100
    reasons = {"shape", "type", "range", "length", "tag", "version", "trailing", "canonical", "not-msgpack"}
    assert set(outcomes) >= {"accepted", *reasons}


def test_mutants_are_judged_as_by_a_reader_that_knows_the_document_only() -> None:
    dice = random.Random(7)
    seeds = [encode_environment(message) for message in wire_samples.sample_messages().values()]
    for part in mutants(seeds, MESSAGES, dice):
        try:
            expected = wire_samples.shown_message(decode_environment(part))
        except PeerError:
            with pytest.raises(independent_decoder.Refused):
                independent_decoder.read_environment(part)
        else:
            assert independent_decoder.read_environment(part) == expected


def tree(branches: int, leaf: bytes, size: int) -> bytes:
    """Arrays of arrays of … leaves: each array is short, all together they fill a frame."""
    node = leaf
    while len(node) * branches + 1 < size:
        node = bytes([0x90 + branches]) + node * branches
    return node


BOMBS = {
    "a long array of empty maps": b"\xdd" + (4 * MIB - 5).to_bytes(4, "big") + b"\x80" * (4 * MIB - 5),
    "short arrays of short arrays": tree(15, b"\x90", MAX_FRAME_BYTES),
    "pairs of pairs of empty maps": tree(2, b"\x80", MAX_FRAME_BYTES),
    "frames that look almost right": tree(15, b"\x96\x01\x02\x03\xc4\x00\xc4\x00\xc4\x00", MAX_FRAME_BYTES),
    "an array of numbers": b"\xdd" + (4 * MIB - 5).to_bytes(4, "big") + b"\x01" * (4 * MIB - 5),
    "a million levels": b"\x91" * (MAX_FRAME_BYTES - 1) + b"\x90",
    "levels that each promise 15": b"\x9f" * MAX_FRAME_BYTES,
    "one long text": b"\xdb" + (4 * MIB - 5).to_bytes(4, "big") + b"a" * (4 * MIB - 5),
    "one long bin": b"\xc6" + (4 * MIB - 5).to_bytes(4, "big") + bytes(4 * MIB - 5),
    "nothing but small numbers": bytes(MAX_FRAME_BYTES),
    "a frame just below the size from which arrays are counted": tree(15, b"\x90", 16 * 1024),
}


def refused(bomb: bytes) -> None:
    with pytest.raises(PeerError):
        decode_frame(bomb)


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_in_little_time_and_memory(bomb: bytes) -> None:
    assert len(bomb) <= MAX_FRAME_BYTES
    tracemalloc.start()
    try:
        refused(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(bomb) + 2 * MIB
    assert cpu_s_of(lambda: refused(bomb)) < 0.5


def test_a_bomb_for_the_environment_is_refused_in_little_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(PeerError):
            decode_environment(tree(15, b"\x90", MAX_ENVIRONMENT_BYTES))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB

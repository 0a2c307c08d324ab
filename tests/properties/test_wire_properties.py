"""The codec against a second reader that was written from PROTOCOL.md alone."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentd.core.bodies import KINDS, RELEASED, SAMPLE, SEALED, TOTALS
from agentd.core.message import MAX_ARMS, Batch
from agentd.core.trust.blame import Blame, Why
from agentd.core.trust.regard import UNTOLD, Regard
from agentd.errors import PeerError
from agentd.wire.codec import decode_environment, decode_frame, decode_frames, encode_environment, encode_frame
from agentd.wire.environment_messages import (
    Hello,
    Noted,
    Ping,
    Pong,
    Pull,
    Refusal,
    Refused,
    Release,
    Released,
    Report,
    Reward,
    Welcome,
)
from agentd.wire.frame import GOODBYE, GREETING, Frame
from agentd.wire.size import encoded_bytes

sys.path.append(str(Path(__file__).parents[1] / "wire"))
import independent_decoder
import terms_samples
import wire_samples


def below(bits: int, least: int = 0) -> st.SearchStrategy[int]:
    """Whole numbers below 2**bits, the ends and the changes of width more often than chance would."""
    edges = [edge for b in (7, 8, 16, 32, bits) for edge in ((1 << b) - 1, 1 << b) if least <= edge < 1 << bits]
    return st.sampled_from([least, *edges]) | st.integers(least, (1 << bits) - 1)


@st.composite
def batches(draw: st.DrawFn, arms: int) -> Batch:
    kind = draw(st.sampled_from(list(KINDS.values())))
    count = draw(st.integers(1, 4))
    sums = st.integers(-(1 << 63), (1 << 63) - 1)
    cell = {
        RELEASED: [below(32), below(32), sums],
        TOTALS: [below(32), sums],
        SAMPLE: [below(16), below(32)],
        SEALED: [below(16), below(32), below(32), sums, sums],
    }[kind]
    row = st.tuples(*cell * (kind.width(arms) // len(cell)))
    heads = []
    for _ in range(count):
        lifetime = draw(below(16, 1))
        life = draw(st.integers(1, lifetime))
        heads.append((draw(below(16)), draw(below(53)), draw(below(30, 1)), lifetime, life))
    bodies = draw(st.lists(row, min_size=count, max_size=count))
    width = kind.signature_bytes * draw(st.booleans())
    signature = np.frombuffer(draw(st.binary(min_size=count * width, max_size=count * width)), np.uint8)
    return Batch(kind, np.array(heads, np.int64), np.array(bodies, np.int64), signature.reshape(count, width))


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    arms = draw(st.integers(1, 6) | st.just(MAX_ARMS // 8))
    flags = draw(st.sampled_from([0, GOODBYE, GREETING]))
    content = () if flags == GREETING else tuple(draw(st.lists(batches(arms), max_size=3)))
    run = draw(st.binary(min_size=8, max_size=8))
    return Frame(run, draw(below(16)), draw(below(53)), draw(below(53)), draw(below(30)), flags, content, arms)


printable = st.characters(codec="utf-8", exclude_categories=("C", "Z"))
bounds = st.floats(-1e300, 1e300)
pairs = st.dictionaries(st.text(printable, max_size=32), below(53), max_size=32).map(lambda d: tuple(d.items()))
lives = st.dictionaries(below(16), below(53), max_size=64).map(lambda d: tuple(d.items()))
blames = st.dictionaries(st.tuples(below(16), st.sampled_from(Why)), below(53), max_size=16).map(
    lambda d: tuple(Blame(neighbour, why, times) for (neighbour, why), times in d.items())
)
regards = st.dictionaries(below(16), st.tuples(below(30), below(53), st.integers(0, UNTOLD)), max_size=64).map(
    lambda d: tuple(Regard(neighbour, *rest) for neighbour, rest in d.items())
)
tokens = st.binary(min_size=16, max_size=16)
messages = (
    st.builds(Hello, below(16), tokens, below(53) | st.none())
    | st.tuples(bounds, bounds)
    .filter(lambda ends: ends[0] < ends[1])
    .flatmap(
        lambda ends: st.builds(
            Welcome,
            st.sampled_from(list(terms_samples.sample_terms().values())),
            st.just(ends[0]),
            st.just(ends[1]),
            st.integers(1, 1 << 30),
            below(53),
            below(53),
            below(30),
        )
    )
    | st.builds(Pull, below(16), tokens, below(30, 1), st.integers(0, MAX_ARMS - 1), below(30))
    | st.builds(Reward, below(30, 1), st.integers(0, MAX_ARMS - 1), st.integers(0, 1 << 20))
    | st.builds(
        Report,
        *(below(16), tokens, below(30), below(53), below(53), pairs, below(53), st.booleans(), below(53)),
        *(below(30), blames, regards),
    )
    | st.builds(Noted, below(30), below(53), lives, below(30))
    | st.builds(Release, below(16), tokens)
    | st.builds(Released, below(16), st.integers(1, 1 << 30))
    | st.builds(Ping)
    | st.builds(Pong)
    | st.builds(Refused, st.sampled_from(Refusal), st.text(printable, max_size=200))
)


@settings(deadline=None, max_examples=100)
@given(frame=frames())
def test_a_frame_means_the_same_to_both_readers_and_comes_back_byte_by_byte(frame: Frame) -> None:
    data = encode_frame(frame)
    assert independent_decoder.read_frame(data) == wire_samples.shown_frame(frame)
    again = decode_frame(data, arms=frame.arms)
    assert wire_samples.shown_frame(again) == wire_samples.shown_frame(frame)
    assert (again.arms, encode_frame(again), encoded_bytes(frame)) == (frame.arms, data, len(data))


@settings(deadline=None, max_examples=200)
@given(message=messages)
def test_a_message_means_the_same_to_both_readers_and_comes_back(message: object) -> None:
    data = encode_environment(message)
    assert decode_environment(data) == message
    assert independent_decoder.read_environment(data) == wire_samples.shown_message(message)


@settings(deadline=None, max_examples=100)
@given(frame=frames(), data=st.data())
def test_both_readers_accept_and_refuse_the_same_damaged_frames(frame: Frame, data: st.DataObject) -> None:
    damaged = bytearray(encode_frame(frame))
    for _ in range(data.draw(st.integers(1, 2))):
        # Most damage in the first bytes, where the structure is; further on there are mostly free numbers.
        at = data.draw(st.integers(0, min(40, len(damaged) - 1)) | st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    both_agree(bytes(damaged))


@settings(deadline=None, max_examples=200)
@given(raw=st.binary(max_size=200))
@example(raw=b"")
def test_both_readers_accept_and_refuse_the_same_arbitrary_bytes(raw: bytes) -> None:
    both_agree(raw)


@settings(deadline=None, max_examples=30)
@given(parts=st.lists(frames().map(encode_frame) | st.binary(max_size=40), max_size=6))
def test_frames_decoded_together_are_the_frames_decoded_alone(parts: list[bytes]) -> None:
    for part, result in zip(parts, decode_frames(parts), strict=True):
        if isinstance(result, Frame):
            assert wire_samples.shown_frame(result) == wire_samples.shown_frame(decode_frame(part))
        else:
            with pytest.raises(PeerError) as fault:
                decode_frame(part)
            assert fault.value.reason == result.reason


def both_agree(raw: bytes) -> None:
    try:
        expected = independent_decoder.read_frame(raw)
    except independent_decoder.Refused:
        with pytest.raises(PeerError):
            decode_frame(raw)
    else:
        assert wire_samples.shown_frame(decode_frame(raw)) == expected

"""What a message costs to encode and to decode, in frames as a lockstep round has them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from agentd.bench.repetitions import spread
from agentd.core.bodies import KINDS, Kind
from agentd.core.message import HEAD_WIDTH, Batch, unsigned
from agentd.wire.codec import decode_frames, encode_frame
from agentd.wire.frame import Frame

ARMS = 5
MESSAGES = 21
"""One own message and the relays of twenty neighbours: a frame of the paper's setting with γ = 2."""
FRAMES = 20
_LOOPS = 50


def bench_codec(repetitions: int = 9) -> dict[str, Any]:
    """Microseconds per message, each kind, encoding and decoding."""
    return {kind.name.lower(): _kind(kind, repetitions) for kind in KINDS.values()}


def _kind(kind: Kind, repetitions: int) -> dict[str, Any]:
    frame = _frame(kind)
    data = encode_frame(frame)
    round_of_frames = [data] * FRAMES
    encode = [_microseconds(lambda: encode_frame(frame), MESSAGES) for _ in range(repetitions)]
    decode = [_microseconds(lambda: decode_frames(round_of_frames), MESSAGES * FRAMES) for _ in range(repetitions)]
    return {
        "bytes_per_message": len(data) / MESSAGES,
        "encode_us_per_message": spread(encode),
        "decode_us_per_message": spread(decode),
    }


def _frame(kind: Kind) -> Frame:
    head = np.ones((MESSAGES, HEAD_WIDTH), dtype=np.int64)
    head[:, 0] = np.arange(MESSAGES)
    body = np.ones((MESSAGES, kind.width(ARMS)), dtype=np.int64)
    return Frame(bytes(8), 0, 0, 1, 1, 0, (Batch(kind, head, body, unsigned(MESSAGES)),), ARMS)


def _microseconds(call: Callable[[], object], messages: int) -> float:
    started = time.process_time()
    for _ in range(_LOOPS):
        call()
    return (time.process_time() - started) / (_LOOPS * messages) * 1e6

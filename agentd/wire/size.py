"""How long an encoded frame is, without encoding it: a simulator counts bytes exactly as the daemon sends them.

Counts, senders, sequence numbers and rounds may be integers or arrays that broadcast: one call sizes a whole run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies import Kind
from agentd.core.message import MAX_ARMS, Batch
from agentd.wire.frame import HEADER, MAX_BATCHES, MAX_FRAME_BYTES, MAX_MESSAGES, RUN_BYTES, VERSION, Frame
from agentd.wire.layout import HEAD_BYTES, message_bytes

Whole = TypeVar("Whole", int, NDArray[np.int64])


LAST_SHORT = 0x7F
"""The largest whole number that takes one byte."""


def integer_bytes(value: Whole) -> Whole:
    """Length of a whole number ≥ 0 in msgpack's shortest form: 1, 2, 3, 5 or 9."""
    length: Whole = 1 + (value > 0x7F) + (value > 0xFF) + 2 * (value > 0xFFFF) + 4 * (value > 0xFFFF_FFFF)
    return length


def binary_bytes(length: Whole) -> Whole:
    """Length of a msgpack bin that holds `length` bytes."""
    return 2 + length + (length > 0xFF) + 2 * (length > 0xFFFF)


def batch_bytes(kind: Kind, arms: int, count: Whole, *, signed: bool = False) -> Whole:
    """Length of a batch of `count` messages; an empty batch is left out of the frame and takes nothing."""
    body = message_bytes(kind, arms) - HEAD_BYTES
    signature = message_bytes(kind, arms, signed=signed) - HEAD_BYTES - body
    numbers = 1 + integer_bytes(kind.tag) + integer_bytes(arms) + integer_bytes(count)
    bins = binary_bytes(HEAD_BYTES * count) + binary_bytes(body * count) + binary_bytes(signature * count)
    return (numbers + bins) * (count > 0)


_NUMBERS = {name: most for name, most in HEADER.items() if name != "run"}
_WITHOUT_NUMBERS = 1 + integer_bytes(VERSION) + binary_bytes(RUN_BYTES) + 1
LONGEST_HEADER = _WITHOUT_NUMBERS + sum(map(integer_bytes, _NUMBERS.values()))
"""Bytes of a frame without batches whose header numbers are as wide as they get."""
LONGEST_FRAMING = 1 + 1 + integer_bytes(MAX_ARMS) + integer_bytes(MAX_MESSAGES) + 3 * 5
"""Bytes that a batch takes beside its messages, at most, where its tag takes one."""


def header_bytes(**numbers: Whole) -> Whole:
    """Length of a frame without batches; takes the numbers of its `HEADER` by name, and those left out are 0."""
    if not numbers.keys() <= _NUMBERS.keys():
        raise TypeError(f"a header has no {', '.join(numbers.keys() - _NUMBERS.keys())}")
    first, *others = [integer_bytes(number) for number in numbers.values()]
    for length in others:
        first = first + length
    return first + _WITHOUT_NUMBERS + len(_NUMBERS) - len(numbers)


def frame_bytes(kind: Kind, arms: int, count: Whole, *, signed: bool = False, **numbers: Whole) -> Whole:
    """Length of a frame with `count` messages of one kind, without its topic."""
    return header_bytes(**numbers) + batch_bytes(kind, arms, count, signed=signed)


def encoded_bytes(frame: Frame) -> int:
    """Length of this frame, without its topic."""
    header: int = _WITHOUT_NUMBERS + sum(map(integer_bytes, frame.header[1:]))
    return header + sum(
        batch_bytes(batch.kind, frame.arms, len(batch), signed=batch.signature.shape[1] > 0) for batch in frame.batches
    )


def fitting(batches: Iterable[Batch], arms: int, *, limit: int = MAX_FRAME_BYTES) -> tuple[tuple[Batch, ...], int]:
    """The leading messages that surely fit one frame of `limit` bytes, and how many were left out."""
    kept: list[Batch] = []
    left_out = 0
    room, messages = limit - LONGEST_HEADER, MAX_MESSAGES
    for batch in batches:
        each = message_bytes(batch.kind, arms, signed=batch.signature.shape[1] > 0)
        framing, count = LONGEST_FRAMING + (batch.kind.tag > LAST_SHORT), len(batch.head)
        take = min(count, messages, max(0, (room - framing) // each))
        if len(kept) == MAX_BATCHES:
            take = 0
        if take:
            kept.append(batch if take == count else batch.rows(np.arange(take)))
            room -= framing + take * each
            messages -= take
        left_out += count - take
    return tuple(kept), left_out

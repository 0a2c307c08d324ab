"""How long an encoded frame is, without encoding it: a simulator counts bytes exactly as the daemon sends them.

Counts, senders, sequence numbers and rounds may be integers or arrays that broadcast: one call sizes a whole run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import Batch, Kind
from agentd.wire.frame import MAX_BATCHES, MAX_FRAME_BYTES, MAX_MESSAGES, RUN_BYTES, VERSION, Frame
from agentd.wire.layout import HEAD_BYTES, message_bytes

Whole = TypeVar("Whole", int, NDArray[np.int64])

LONGEST_HEADER = 1 + 1 + (2 + RUN_BYTES) + 3 + 9 + 9 + 5 + 1 + 1
"""Bytes of a frame without batches whose header numbers are as wide as they get."""
LONGEST_FRAMING = 1 + 1 + 3 + 5 + 3 * 5
"""Bytes that a batch takes beside its messages, at most."""


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
    numbers = 1 + integer_bytes(int(kind)) + integer_bytes(arms) + integer_bytes(count)
    bins = binary_bytes(HEAD_BYTES * count) + binary_bytes(body * count) + binary_bytes(signature * count)
    return (numbers + bins) * (count > 0)


def header_bytes(*, sender: Whole, incarnation: int, sequence: Whole, round_: Whole, flags: int = 0) -> Whole:
    """Length of a frame without batches."""
    fixed = 1 + integer_bytes(VERSION) + binary_bytes(RUN_BYTES) + integer_bytes(incarnation) + integer_bytes(flags) + 1
    return integer_bytes(sender) + integer_bytes(sequence) + integer_bytes(round_) + fixed


def frame_bytes(
    kind: Kind,
    arms: int,
    count: Whole,
    *,
    sender: Whole,
    incarnation: int,
    sequence: Whole,
    round_: Whole,
    flags: int = 0,
    signed: bool = False,
) -> Whole:
    """Length of a frame with `count` messages of one kind, without its topic."""
    header = header_bytes(sender=sender, incarnation=incarnation, sequence=sequence, round_=round_, flags=flags)
    return header + batch_bytes(kind, arms, count, signed=signed)


def encoded_bytes(frame: Frame) -> int:
    """Length of this frame, without its topic."""
    return header_bytes(
        sender=frame.sender,
        incarnation=frame.incarnation,
        sequence=frame.sequence,
        round_=frame.round,
        flags=frame.flags,
    ) + sum(
        batch_bytes(batch.kind, frame.arms, len(batch), signed=batch.signature.shape[1] > 0) for batch in frame.batches
    )


def fitting(batches: Iterable[Batch], arms: int, *, limit: int = MAX_FRAME_BYTES) -> tuple[tuple[Batch, ...], int]:
    """The leading messages that surely fit one frame of `limit` bytes, and how many were left out."""
    kept: list[Batch] = []
    left_out = 0
    room, messages = limit - LONGEST_HEADER, MAX_MESSAGES
    for batch in batches:
        each = message_bytes(batch.kind, arms, signed=batch.signature.shape[1] > 0)
        take = min(len(batch), messages, max(0, (room - LONGEST_FRAMING) // each))
        if len(kept) == MAX_BATCHES:
            take = 0
        if take:
            kept.append(batch if take == len(batch) else batch.rows(np.arange(take)))
            room -= LONGEST_FRAMING + take * each
            messages -= take
        left_out += len(batch) - take
    return tuple(kept), left_out

"""Values to bytes and back; the only module that knows msgpack. PROTOCOL.md is the contract.

Whatever a peer sends, decoding ends in a value within all limits or in `PeerError(reason)`: a frame that is wrong
anywhere is dropped whole. What the bodies claim is judged elsewhere, by `core.checks`.

Encoding checks too, and raises ValueError: a daemon that would send what others must refuse has a bug.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgpack

from agentd.core.message import MAX_ARMS, SIGNATURE_BYTES, Batch
from agentd.errors import PeerError
from agentd.wire.environment import (
    MAX_ENVIRONMENT_BYTES,
    MAX_REASONS,
    EnvironmentMessage,
    read_fields,
    write_fields,
)
from agentd.wire.frame import (
    GREETING,
    MAX_BATCHES,
    MAX_FRAME_BYTES,
    MAX_MESSAGES,
    VERSION,
    Frame,
    Reason,
    header_fault,
)
from agentd.wire.layout import HEAD_BYTES, LAYOUTS, RawBatch, read_batch, read_batches, write_batch

_FRAME_FIELDS = 8
_BATCH_FIELDS = 6
_SMALL_BYTES = 16 << 10
"""So few bytes cannot become more than about a megabyte of lists, however they nest."""

_STRICT = {"raw": False, "strict_map_key": True, "max_map_len": 0, "max_ext_len": 0}
_FRAME_LIMITS = {
    **_STRICT,
    "max_str_len": 0,
    "max_bin_len": MAX_FRAME_BYTES,
    "max_array_len": max(MAX_BATCHES, _FRAME_FIELDS),
}
_ENVIRONMENT_LIMITS = {
    **_STRICT,
    "max_str_len": MAX_ENVIRONMENT_BYTES,
    "max_bin_len": MAX_ENVIRONMENT_BYTES,
    "max_array_len": MAX_REASONS,
}

_pack = msgpack.Packer(use_bin_type=True).pack
"""One packer for all: making one costs more than packing a frame. Packing never releases the interpreter's lock."""


class _ArrayBudget:
    """Stops decoding after so many arrays.

    `max_array_len` bounds each array but not how they nest: without this, 4 MiB of empty arrays in arrays would still
    become hundreds of megabytes of lists.
    """

    __slots__ = ("_left",)

    def __init__(self, arrays: int) -> None:
        self._left = arrays

    def __call__(self, items: list[Any]) -> list[Any]:
        self._left -= 1
        if self._left < 0:
            raise PeerError(Reason.SHAPE)
        return items


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a frame, without its topic; empty batches are left out."""
    header = (frame.run, frame.sender, frame.incarnation, frame.sequence, frame.round, frame.flags)
    if fault := header_fault(header):
        raise ValueError(f"the header {header} breaks the protocol: {fault}")
    raws = [write_batch(batch, frame.arms) for batch in frame.batches if len(batch)]
    if fault := _total_fault(raws, frame.flags):
        raise ValueError(f"{len(raws)} batches of {frame.messages} messages break the protocol: {fault}")
    data: bytes = _pack((VERSION, *header, raws))
    if len(data) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {len(data)} bytes is too long; cut it with wire.size.fitting")
    return data


def decode_frame(data: bytes | memoryview, *, arms: int | None = None) -> Frame:
    """The frame that the bytes hold, without topic; with `arms`, frames about another number of arms are refused."""
    fields = _parse(data, arms)
    frame = _assemble(fields, [read_batch(raw) for raw in fields[-1]], arms)
    if isinstance(frame, PeerError):
        raise frame
    return frame


def decode_frames(parts: Iterable[bytes | memoryview], *, arms: int | None = None) -> list[Frame | PeerError]:
    """What `decode_frame` returns or raises for each part; given all frames of a round, in half the time."""
    parsed: list[list[Any] | PeerError] = []
    for part in parts:
        try:
            parsed.append(_parse(part, arms))
        except PeerError as fault:
            parsed.append(fault)
    batches = read_batches([raw for fields in parsed if not isinstance(fields, PeerError) for raw in fields[-1]])
    frames: list[Frame | PeerError] = []
    start = 0
    for fields in parsed:
        if isinstance(fields, PeerError):
            frames.append(fields)
            continue
        stop = start + len(fields[-1])
        frames.append(_assemble(fields, batches[start:stop], arms))
        start = stop
    return frames


def encode_environment(message: EnvironmentMessage) -> bytes:
    """The bytes of a message to or from the environment."""
    data: bytes = _pack(write_fields(message))
    return data


def decode_environment(data: bytes | memoryview) -> EnvironmentMessage:
    """The message to or from the environment that the bytes hold."""
    if len(data) > MAX_ENVIRONMENT_BYTES:
        raise PeerError(Reason.OVERSIZE)
    data = bytes(data)
    fields = _unpack(data, _ENVIRONMENT_LIMITS, MAX_REASONS + 2)
    message = read_fields(fields)
    if _pack(fields) != data:
        raise PeerError(Reason.CANONICAL)
    return message


def _unpack(data: bytes, limits: dict[str, Any], arrays: int) -> list[Any]:
    """The one array that the bytes hold, of this version of the protocol."""
    budget = _ArrayBudget(arrays) if len(data) > _SMALL_BYTES else None
    try:
        fields = msgpack.unpackb(data, list_hook=budget, **limits)
    except msgpack.ExtraData:
        raise PeerError(Reason.TRAILING) from None
    except ValueError:  # every complaint of msgpack about its input is one
        raise PeerError(Reason.NOT_MSGPACK) from None
    if type(fields) is not list or not fields:
        raise PeerError(Reason.SHAPE)
    if type(fields[0]) is not int:
        raise PeerError(Reason.TYPE)
    if fields[0] != VERSION:  # before the shape: another version may have another one
        raise PeerError(Reason.VERSION)
    return fields


def _parse(data: bytes | memoryview, arms: int | None) -> list[Any]:
    """The fields of a frame, checked in everything but the columns."""
    if len(data) > MAX_FRAME_BYTES:
        raise PeerError(Reason.OVERSIZE)
    data = bytes(data)
    fields = _unpack(data, _FRAME_LIMITS, MAX_BATCHES + 2)
    if len(fields) != _FRAME_FIELDS or type(fields[-1]) is not list:
        raise PeerError(Reason.SHAPE)
    if fault := header_fault(fields[1:-1]):
        raise PeerError(fault)
    for raw in fields[-1]:
        if fault := _batch_fault(raw, arms):
            raise PeerError(fault)
        arms = raw[1]
    if fault := _total_fault(fields[-1], fields[-2]):
        raise PeerError(fault)
    if _pack(fields) != data:  # a number in a longer form than necessary, or signed without need
        raise PeerError(Reason.CANONICAL)
    return fields


def _assemble(fields: list[Any], batches: list[Batch | None], arms: int | None) -> Frame | PeerError:
    sound = tuple([batch for batch in batches if batch is not None])
    if len(sound) < len(batches):
        return PeerError(Reason.RANGE)
    if arms is None:
        arms = fields[-1][0][1] if sound else 0
    _, run, sender, incarnation, sequence, round_, flags, _ = fields
    return Frame(run, sender, incarnation, sequence, round_, flags, sound, arms)


def _total_fault(raws: Sequence[RawBatch], flags: int) -> Reason | None:
    """What is wrong with the batches of a frame taken together."""
    if len(raws) > MAX_BATCHES or sum([raw[2] for raw in raws]) > MAX_MESSAGES:
        return Reason.RANGE
    return Reason.FLAGS if raws and flags & GREETING else None


def _batch_fault(raw: Any, expected_arms: int | None) -> Reason | None:
    """What is wrong with a batch apart from its columns; the lengths bound the count, which is unbounded by itself."""
    if type(raw) is not list or len(raw) != _BATCH_FIELDS:
        return Reason.SHAPE
    tag, arms, count, head, body, signature = raw
    if not (type(tag) is type(arms) is type(count) is int and type(head) is type(body) is type(signature) is bytes):
        return Reason.TYPE
    layout = LAYOUTS.get(tag)
    if layout is None:
        return Reason.TAG
    if not (1 <= arms <= MAX_ARMS and count >= 1):
        return Reason.RANGE
    if expected_arms is not None and arms != expected_arms:
        return Reason.ARMS
    good = (
        len(head) == HEAD_BYTES * count
        and len(body) == layout.body_bytes(arms) * count
        and (not signature or len(signature) == SIGNATURE_BYTES * count)
    )
    return None if good else Reason.LENGTH

"""Values to bytes and back; the only module that knows msgpack. PROTOCOL.md is the contract.

Whatever a peer sends, decoding ends in a value within all limits or in `PeerError(reason)`: a frame that is wrong
anywhere is dropped whole. What the bodies claim is judged elsewhere, by `core.checks`.

Encoding checks too, and raises ValueError: a daemon that would send what others must refuse has a bug.
"""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

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
    MAX_BATCHES,
    MAX_FRAME_BYTES,
    MAX_MESSAGES,
    VERSION,
    Frame,
    Reason,
    header_fault,
)
from agentd.wire.layout import (
    HEAD_BYTES,
    LAYOUTS,
    heads_in_range,
    read_bodies,
    read_heads,
    write_bodies,
    write_heads,
)

_FRAME_FIELDS = 8
_BATCH_FIELDS = 6

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
            raise PeerError(Reason.SHAPE, "too many arrays")
        return items


def _unpack(data: bytes, limits: dict[str, Any], arrays: int) -> list[Any]:
    """The one array that the bytes hold, of this version of the protocol."""
    try:
        fields = msgpack.unpackb(data, list_hook=_ArrayBudget(arrays), **limits)
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


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a frame, without its topic."""
    header = (frame.run, frame.sender, frame.incarnation, frame.sequence, frame.round, frame.flags)
    if fault := header_fault(*header):
        raise ValueError(f"the header {header} breaks the protocol: {fault}")
    batches = [_write_batch(batch, frame.arms) for batch in frame.batches if len(batch)]
    if len(batches) > MAX_BATCHES or frame.messages > MAX_MESSAGES or (frame.greeting and batches):
        raise ValueError(f"a frame cannot hold {len(batches)} batches of {frame.messages} messages in all")
    data: bytes = _pack((VERSION, *header, batches))
    if len(data) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {len(data)} bytes is too long; cut it with wire.size.fitting")
    return data


def decode_frame(data: bytes | memoryview, *, arms: int | None = None) -> Frame:
    """The frame that the bytes hold, without topic; with `arms`, frames about another number of arms are refused."""
    if len(data) > MAX_FRAME_BYTES:
        raise PeerError(Reason.OVERSIZE)
    data = bytes(data)
    fields = _unpack(data, _FRAME_LIMITS, MAX_BATCHES + 2)
    if len(fields) != _FRAME_FIELDS:
        raise PeerError(Reason.SHAPE)
    _, run, sender, incarnation, sequence, round_, flags, packed = fields
    if fault := header_fault(run, sender, incarnation, sequence, round_, flags):
        raise PeerError(fault)
    if type(packed) is not list:
        raise PeerError(Reason.SHAPE)
    batches, arms = _read_batches(packed, arms)
    frame = Frame(run, sender, incarnation, sequence, round_, flags, batches, arms)
    if packed and frame.greeting:
        raise PeerError(Reason.FLAGS)
    if _pack(fields) != data:  # a number in a longer form than necessary, or signed
        raise PeerError(Reason.CANONICAL)
    return frame


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


def _write_batch(batch: Batch, arms: int) -> tuple[int, int, int, bytes, bytes, bytes]:
    layout = LAYOUTS[batch.kind]
    count, signature = len(batch), batch.signature
    if not 1 <= arms <= MAX_ARMS or batch.body.shape != (count, len(layout.names) * layout.cells(arms)):
        raise ValueError(f"a {batch.kind.name} body of shape {batch.body.shape} is not one of {arms} arms")
    if signature.shape not in ((count, 0), (count, SIGNATURE_BYTES)) or signature.dtype != np.uint8:
        raise ValueError(f"signatures of shape {signature.shape} are neither absent nor whole")
    if not heads_in_range(batch.head):
        raise ValueError("a message head is out of range")
    head, body = write_heads(batch.head), write_bodies(layout, batch.body)
    return int(batch.kind), arms, count, head, body, signature.tobytes()


def _read_batches(packed: list[Any], arms: int | None) -> tuple[tuple[Batch, ...], int]:
    """The batches and the number of arms they agree on (0: no batch, and none expected)."""
    batches: list[Batch] = []
    messages = 0
    for item in packed:
        batch, arms = _read_batch(item, arms)
        batches.append(batch)
        messages += len(batch)
    if messages > MAX_MESSAGES:
        raise PeerError(Reason.RANGE)
    return tuple(batches), arms or 0


def _read_batch(item: Any, expected_arms: int | None) -> tuple[Batch, int]:
    if type(item) is not list or len(item) != _BATCH_FIELDS:
        raise PeerError(Reason.SHAPE)
    tag, arms, count, head, body, signature = item
    if not (type(tag) is type(arms) is type(count) is int and type(head) is type(body) is type(signature) is bytes):
        raise PeerError(Reason.TYPE)
    layout = LAYOUTS.get(tag)
    if layout is None:
        raise PeerError(Reason.TAG)
    if not (1 <= arms <= MAX_ARMS and count >= 1):
        raise PeerError(Reason.RANGE)
    if expected_arms is not None and arms != expected_arms:
        raise PeerError(Reason.ARMS)
    if (
        len(head) != HEAD_BYTES * count
        or len(body) != layout.cell.itemsize * layout.cells(arms) * count
        or (signature and len(signature) != SIGNATURE_BYTES * count)
    ):
        raise PeerError(Reason.LENGTH)
    heads = read_heads(head)
    if not heads_in_range(heads):
        raise PeerError(Reason.RANGE)
    return Batch(layout.kind, heads, read_bodies(layout, body, count), _signatures(signature, count)), arms


def _signatures(raw: bytes, count: int) -> NDArray[np.uint8]:
    return np.frombuffer(raw, np.uint8).reshape(count, -1) if raw else np.empty((count, 0), np.uint8)

"""Values to bytes and back; the only module that knows msgpack. PROTOCOL.md is the contract.

Whatever a peer sends, decoding ends in a value within all limits or in `PeerError(reason)`: a frame that is wrong
anywhere is dropped whole. What the bodies claim is judged elsewhere, by `core.checks`.

Encoding checks too, and raises ValueError: a daemon that would send what others must refuse has a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import msgpack
import msgspec
from msgspec import Meta

from agentd.core.bodies import KINDS, MAX_TAG
from agentd.core.message import MAX_ARMS, Batch
from agentd.errors import PeerError
from agentd.wire.environment_messages import (
    FREQUENT,
    MAX_ENVIRONMENT_BYTES,
    MAX_LIVES,
    MAX_WELCOME_BYTES,
    EnvironmentMessage,
    Pull,
    Reward,
    Welcome,
    read_fields,
    type_number,
    write_fields,
)
from agentd.wire.frame import (
    GREETING,
    HEADER,
    MAX_BATCHES,
    MAX_FRAME_BYTES,
    MAX_MESSAGES,
    RUN_BYTES,
    VERSION,
    Frame,
    Reason,
    header_fault,
)
from agentd.wire.layout import (
    HEAD_BYTES,
    HeadReader,
    RawBatch,
    body_bytes,
    read_batch,
    read_together,
    write_batch,
)
from agentd.wire.terms import MAX_ID_RANGES

_FRAME_FIELDS = len(HEADER) + 2
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
    "max_array_len": MAX_LIVES,
}
_WELCOME_LIMITS = {**_ENVIRONMENT_LIMITS, "max_array_len": MAX_ID_RANGES}

_pack = msgpack.Packer(use_bin_type=True).pack
"""One packer for all: making one costs more than packing a frame. Packing never releases the interpreter's lock."""


def _up_to(most: int, least: int = 0) -> Any:
    return Annotated[int, Meta(ge=least, le=most)]


_raw_types = (_up_to(MAX_TAG, 1), _up_to(MAX_ARMS, 1), _up_to(MAX_MESSAGES, 1), bytes, bytes, bytes)
_frame_types = (
    Literal[VERSION],
    Annotated[bytes, Meta(min_length=RUN_BYTES, max_length=RUN_BYTES)],
    *[_up_to(most) for name, most in HEADER.items() if name != "run"],
    Annotated[list[tuple[_raw_types]], Meta(max_length=MAX_BATCHES)],  # type: ignore[valid-type]
)
_typed: Callable[[bytes], tuple[Any, ...]] = msgspec.msgpack.Decoder(tuple[_frame_types]).decode  # type: ignore[valid-type]
"""Frames that are sound, as nearly all are, are read and checked in one step; the others fail, for whatever reason."""
_encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode


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
    header = frame.header
    if fault := header_fault(header):
        raise ValueError(f"the header {header} breaks the protocol: {fault}")
    raws = [write_batch(batch, frame.arms) for batch in frame.batches if len(batch.head)]
    if fault := _total_fault(raws, frame.flags):
        raise ValueError(f"{len(raws)} batches of {frame.messages} messages break the protocol: {fault}")
    data = _encode((VERSION, *header, raws))
    if len(data) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {len(data)} bytes is too long; cut it with wire.size.fitting")
    return data


def encode_plain(value: int | bytes | tuple[Any, ...] | list[Any]) -> bytes:
    """One plain value as it stands inside a frame or a message, or an array of these."""
    return _encode(value)


def decode_frame(data: bytes | memoryview, *, arms: int | None = None) -> Frame:
    """The frame that the bytes hold, without topic; with `arms`, frames about another number of arms are refused."""
    frame = _read_alone(_parse(data, arms), arms)
    if isinstance(frame, PeerError):
        raise frame
    return frame


def decode_frames(
    parts: Iterable[bytes | memoryview], *, arms: int | None = None, heads: HeadReader | None = None
) -> list[Frame | PeerError]:
    """What `decode_frame` returns or raises for each part; given all frames of a round, in a third of the time.

    Whoever reads round after round keeps a `HeadReader`, which makes rounds that are like the one before cheaper.
    """
    parsed: list[Sequence[Any] | PeerError] = []
    raws: list[RawBatch] = []
    alike = True
    for part in parts:
        try:
            fields = _parse(part, arms)
        except PeerError as fault:
            parsed.append(fault)
            continue
        parsed.append(fields)
        raws += fields[-1]
        alike = alike and len(fields[-1]) < 2
    whole = read_together(raws, heads or HeadReader()) if alike else None
    if whole is not None:
        return _share(parsed, whole, arms)
    return [fields if isinstance(fields, PeerError) else _read_alone(fields, arms) for fields in parsed]


def _share(parsed: list[Sequence[Any] | PeerError], whole: Batch, arms: int | None) -> list[Frame | PeerError]:
    """Frames of at most one batch each, all of which were read as one."""
    frames: list[Frame | PeerError] = []
    start = 0
    for fields in parsed:
        if isinstance(fields, PeerError):
            frames.append(fields)
            continue
        _, run, sender, incarnation, sequence, round_, flags, raws = fields
        share, k = None, arms or 0
        if raws:
            _, k, count, _, _, _ = raws[0]
            share = (whole, start, start + count)
            start += count
        frames.append(Frame(run, sender, incarnation, sequence, round_, flags, (), k, share))
    return frames


def _read_alone(fields: Sequence[Any], arms: int | None) -> Frame | PeerError:
    _, run, sender, incarnation, sequence, round_, flags, raws = fields
    batches = [read_batch(raw) for raw in raws]
    sound = tuple([batch for batch in batches if batch is not None])
    if len(sound) < len(batches):
        return PeerError(Reason.RANGE)
    if arms is None:
        arms = raws[0][1] if raws else 0
    return Frame(run, sender, incarnation, sequence, round_, flags, sound, arms)


def encode_environment(message: EnvironmentMessage) -> bytes:
    """The bytes of a message to or from the environment."""
    if isinstance(message, tuple) and (data := _FREQUENT_BY_CLASS[type(message)].write(message)) is not None:
        return data
    return _encode(write_fields(message))


def decode_environment(data: bytes | memoryview) -> EnvironmentMessage:
    """The message to or from the environment that the bytes hold."""
    if len(data) > MAX_WELCOME_BYTES:
        raise PeerError(Reason.OVERSIZE)
    data = bytes(data)
    start = data[:3]
    frequent = _FREQUENT_BY_START.get(start)
    if frequent is not None and (message := frequent.read(data)) is not None:
        return message
    limits = _WELCOME_LIMITS
    if start != _WELCOME_START:  # which carries the terms
        limits = _ENVIRONMENT_LIMITS
        if len(data) > MAX_ENVIRONMENT_BYTES:
            raise PeerError(Reason.OVERSIZE)
    fields = _unpack(data, limits, MAX_LIVES + 2)
    message = read_fields(fields)
    if _pack(fields) != data:
        raise PeerError(Reason.CANONICAL)
    return message


def row(*kinds: Any) -> Any:
    """For `reader_of`: an array of exactly these."""
    return tuple.__class_getitem__(kinds)


def reader_of(kind: Any) -> Callable[[bytes | memoryview], Any]:
    """What reads exactly that, and raises PeerError for anything else."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def read(data: bytes | memoryview) -> Any:
        try:
            return decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise PeerError(Reason.SHAPE) from None

    return read


def whole(most: int, least: int = 0) -> Any:
    """For `reader_of`: a whole number in a range."""
    return _up_to(most, least)


def several(kind: Any, most: int) -> Any:
    """For `reader_of`: at most so many of a kind, or so many bytes."""
    return Annotated[bytes if kind is bytes else list[kind], Meta(max_length=most)]


def _start(number: int, fields: int) -> bytes:
    """How all messages of one kind begin: as an array so long, with version and type."""
    return bytes([0x90 + 2 + fields, VERSION, number])


def _within(limit: tuple[int, int] | int) -> Any:
    """A whole number in a range, or so many bytes."""
    if isinstance(limit, int):
        return Annotated[bytes, Meta(min_length=limit, max_length=limit)]
    return _up_to(limit[1], limit[0])


_WELCOME_START = _start(type_number(Welcome), len(Welcome.__slots__))


class _Frequent:
    """Reads one kind of message in one step, if it is sound; the long way tells what is wrong with it otherwise."""

    def __init__(self, cls: type[Pull] | type[Reward], limits: Sequence[tuple[int, int] | int]) -> None:
        self.number = type_number(cls)
        self.start = _start(self.number, len(limits))
        self._prefix = (VERSION, self.number)
        self._made: Callable[[Sequence[Any]], Pull | Reward] = partial(tuple.__new__, cls)
        kinds = (int, int, *(_within(limit) for limit in limits))
        self._decode = msgspec.msgpack.Decoder(tuple[kinds]).decode  # type: ignore[valid-type]

    def write(self, message: tuple[Any, ...]) -> bytes | None:
        """The bytes of a sound message, or None if it is anything else."""
        try:
            data = _encode(self._prefix + message)
            self._decode(data)
        except (OverflowError, TypeError, msgspec.DecodeError):
            return None
        return data

    def read(self, data: bytes) -> EnvironmentMessage | None:
        """The message, or None if the bytes are anything else."""
        try:
            fields = self._decode(data)
        except msgspec.DecodeError:
            return None
        return self._made(fields[2:]) if _encode(fields) == data else None


_FREQUENT = [_Frequent(cls, ranges) for cls, ranges in FREQUENT.items()]
_FREQUENT_BY_CLASS: dict[type, _Frequent] = dict(zip(FREQUENT, _FREQUENT, strict=True))
_FREQUENT_BY_START = {frequent.start: frequent for frequent in _FREQUENT}


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


def _parse(data: bytes | memoryview, arms: int | None) -> Sequence[Any]:
    """The fields of a frame, checked in everything but the columns."""
    if len(data) > MAX_FRAME_BYTES:
        raise PeerError(Reason.OVERSIZE)
    if type(data) is not bytes:
        data = bytes(data)
    try:
        fields = _typed(data)
    except msgspec.DecodeError:
        return _parse_slowly(data, arms)
    if not _batches_are_sound(fields[-1], fields[-2], arms) or _encode(fields) != data:
        return _parse_slowly(data, arms)
    return fields


def _batches_are_sound(raws: Sequence[RawBatch], flags: int, arms: int | None) -> bool:
    """Whether batches of sound types agree with their counts and with each other."""
    if len(raws) != 1 or flags:
        return not (_total_fault(raws, flags) or any(_columns_fault(raw, arms or raws[0][1]) for raw in raws))
    return _columns_fault(raws[0], arms) is None


def _parse_slowly(data: bytes, arms: int | None) -> Sequence[Any]:
    """The same, step by step, which tells the reason of a refusal."""
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
    if tag not in KINDS:
        return Reason.TAG
    if not (1 <= arms <= MAX_ARMS and count >= 1):
        return Reason.RANGE
    return _columns_fault(raw, expected_arms)


def _columns_fault(raw: RawBatch, expected_arms: int | None) -> Reason | None:
    """Whether the columns of a batch of a known kind are as long as its count says."""
    tag, arms, count, head, body, signature = raw
    kind = KINDS.get(tag)
    if kind is None:
        return Reason.TAG
    if expected_arms is not None and arms != expected_arms:
        return Reason.ARMS
    good = (
        len(head) == HEAD_BYTES * count
        and len(body) == body_bytes(kind, arms) * count
        and (not signature or len(signature) == kind.signature_bytes * count)
    )
    return None if good else Reason.LENGTH

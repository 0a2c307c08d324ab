"""Columns to bytes and back: packed little-endian records, one per message head and one per body cell.

Records instead of bare columns: numpy reads a field of a record as a strided column at no extra cost, and the body of
one message stays one run of bytes, which is what its origin signs.

On frames of a few dozen messages the number of numpy calls is the cost, hardly the number of messages. So the records
of all frames at hand are joined and read at once. Reading field by field is faster than casting a whole record dtype;
64-bit columns would be free to read, but make a frame 1.6 times as long.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies import KINDS, Kind
from agentd.core.message import (
    HEAD,
    HEAD_WIDTH,
    LIFE,
    LIFETIME,
    MAX_ARMS,
    MAX_TRIAL,
    ONE_TRIAL_LATER,
    TRIAL,
    Batch,
    Cells,
    Columns,
    Packed,
    Pile,
    Single,
    unsigned,
)
from agentd.core.sequel import Sequel

_STRUCT_CODES = {"u2": "H", "u4": "I", "u8": "Q", "i8": "q"}
_HEAD_TYPE = np.dtype([(field.name, "<" + field.type) for field in HEAD])
_HEAD_FORMAT = "".join([_STRUCT_CODES[field.type] for field in HEAD])
_HEAD_LIMITS = [field.most for field in HEAD]
_BYTE = np.dtype(np.uint8)
HEAD_BYTES = _HEAD_TYPE.itemsize
"""Bytes of one message's head."""

FEW = 32
"""So many records are packed faster one number at a time than column by column. A packer is kept for each number of
them and takes memory by that number, so every agent pays for a higher limit: 128 took half a megabyte."""

RawBatch = Sequence[Any]
"""A batch as it lies on the wire: tag, arms, count, head, body, signature."""


class BodyLayout:
    """How one kind of body lies on the wire: a cell repeated once per arm, or once."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.names = [field.name for field in kind.fields]
        self.cell = np.dtype([(field.name, "<" + field.type) for field in kind.fields])
        self.limits = [1 << 8 * int(field.type[1:]) if field.type[0] == "u" else 0 for field in kind.fields]
        """Where each unsigned field ends; 0 for signed ones, which hold every 64-bit number."""
        self.format = "".join([_STRUCT_CODES[field.type] for field in kind.fields])
        """The cell as `struct` writes it."""


@cache
def layout_of(kind: Kind) -> BodyLayout:
    """The layout that follows from a kind's fields."""
    return BodyLayout(kind)


@cache
def body_bytes(kind: Kind, arms: int) -> int:
    """Bytes of the body of one message."""
    return layout_of(kind).cell.itemsize * kind.width(arms) // len(kind.fields)


@cache
def _body_type(kind: Kind, arms: int) -> np.dtype[np.void]:
    """The body of one message, taken whole."""
    return np.dtype((np.void, body_bytes(kind, arms)))


def message_bytes(kind: Kind, arms: int, *, signed: bool = False) -> int:
    """Bytes that one message adds to its batch, apart from the batch's own framing."""
    return HEAD_BYTES + body_bytes(kind, arms) + kind.signature_bytes * signed


def heads_in_range(head: Columns) -> bool:
    """Whether every head can be an honest one: fields within their limits, 1 ≤ trial, 1 ≤ life ≤ lifetime."""
    columns = head.T
    bits = np.bitwise_or.reduce(columns, axis=1).tolist()  # those that occur: beyond a limit exactly when one value is
    return (
        min(bits) >= 0
        and all(map(operator.le, bits, _HEAD_LIMITS))
        and bool(columns[TRIAL].min(initial=1) >= 1)
        and bool(columns[LIFE].min(initial=1) >= 1)
        and not (columns[LIFE] > columns[LIFETIME]).any()
    )


class PackedBodies:
    """Bodies as they lie on the wire."""

    __slots__ = ("_rows", "layout", "width")

    def __init__(self, layout: BodyLayout, rows: NDArray[np.void], width: int) -> None:
        self.layout = layout
        self._rows = rows
        self.width = width

    @classmethod
    def of(cls, layout: BodyLayout, arms: int, raw: bytes) -> PackedBodies:
        """The bodies that these bytes hold."""
        return cls(layout, np.frombuffer(raw, _body_type(layout.kind, arms)), layout.kind.width(arms))

    def take(self, which: NDArray[np.intp]) -> PackedBodies:
        return PackedBodies(self.layout, self._rows.take(which), self.width)

    def followed_by(self, others: Sequence[Packed]) -> PackedBodies | None:
        """All of them as one, where all lie as on the wire."""
        rows = [self._rows]
        for other in others:
            if not isinstance(other, PackedBodies) or other.layout is not self.layout or other.width != self.width:
                return None
            rows.append(other._rows)
        return PackedBodies(self.layout, np.concatenate(rows), self.width)

    def tobytes(self) -> bytes:
        return self._rows.tobytes()

    def unpack(self) -> Cells:
        records = np.frombuffer(self._rows.tobytes(), self.layout.cell)  # a view would be checked at length
        return _read_cells(self.layout, records.reshape(len(self._rows), self.width // len(self.layout.names)))


class HeadReader:
    """Reads the heads of one round after the other.

    In lockstep everybody says again what they said in the round before, one trial later. Heads that are just that are
    known at a glance, and known to be sound, because those before them were; `core.repetition` tells the whole story.
    Without the fast path every round is read like the first.
    """

    def __init__(self, *, fast_path: bool = True) -> None:
        self._fast_path = fast_path
        self._next = b""
        self._records: NDArray[np.void] = np.empty(0, _HEAD_TYPE)
        self._trials: NDArray[np.uint32] = self._records["trial"]
        self._columns: Columns | None = None
        self._newest = 0
        self._number = 0

    def read(self, raw: bytes) -> tuple[Columns, Sequel, int] | None:
        """Heads in columns, which round they are and repeat, the newest trial; None where one is out of range."""
        before = self._columns
        if raw and before is not None and raw == self._next and self._newest < MAX_TRIAL:
            self._columns = before + ONE_TRIAL_LATER
            self._newest += 1
        else:
            self._number, self._columns = 0, _read_heads(np.frombuffer(raw, _HEAD_TYPE))
            if not heads_in_range(self._columns):
                self._columns = None
                return None
            self._records = np.frombuffer(raw, _HEAD_TYPE).copy()
            self._trials = self._records["trial"]
            self._newest = int(self._columns[:, TRIAL].max(initial=0))
        if self._fast_path:
            np.add(self._trials, 1, out=self._trials)
            self._next = self._records.tobytes()
        sequel = Sequel.to(self._number)
        self._number = sequel.number
        return self._columns, sequel, self._newest


def read_together(raws: Sequence[RawBatch], heads: HeadReader) -> Batch | None:
    """Raw batches as one, if they are alike and every head is in range."""
    if len(raws) < 2 or len({(raw[0], raw[1], not raw[5]) for raw in raws}) > 1:
        return None
    kind, arms = KINDS[raws[0][0]], raws[0][1]
    signatures = [raw[5] for raw in raws] if raws[0][5] else None
    return read_columns(kind, arms, [raw[3] for raw in raws], [raw[4] for raw in raws], heads, signatures)


def read_columns(  # noqa: PLR0917
    kind: Kind,
    arms: int,
    heads: list[bytes],
    bodies: list[bytes],
    reader: HeadReader,
    signatures: list[bytes] | None = None,
) -> Batch | None:
    """One batch from the columns of several, if every head is in range; without signatures where there are none."""
    read = reader.read(b"".join(heads))
    if read is None:
        return None
    columns, sequel, newest = read
    packed = PackedBodies.of(layout_of(kind), arms, b"".join(bodies))
    signed = unsigned(len(columns)) if signatures is None else _read_signatures(b"".join(signatures), len(columns))
    batch = Batch(kind, columns, packed, signed, sound=True)
    batch.sequel, batch.newest = sequel, newest
    return batch


def read_batch(raw: RawBatch) -> Batch | None:
    """A raw batch in columns; None where a head is out of range."""
    tag, arms, count, head, body, signature = raw
    heads = _read_heads(np.frombuffer(head, _HEAD_TYPE))
    if not heads_in_range(heads):
        return None
    layout = layout_of(KINDS[tag])
    bodies = PackedBodies.of(layout, arms, body)
    return Batch(layout.kind, heads, bodies, _read_signatures(signature, count), sound=True)


def write_batch(batch: Batch, arms: int) -> RawBatch:
    """A batch as it lies on the wire; what no peer would accept is a fault of the caller."""
    layout = layout_of(batch.kind)
    count, signature = len(batch.head), batch.signature
    if not 1 <= arms <= MAX_ARMS or batch.width != batch.kind.width(arms):
        raise ValueError(f"a {batch.kind.name} body of {batch.width} numbers is not one of {arms} arms")
    if signature.shape not in ((count, 0), (count, batch.kind.signature_bytes)) or signature.dtype != _BYTE:
        raise ValueError(f"signatures of shape {signature.shape} are neither absent nor whole")
    if not batch.sound and not heads_in_range(batch.head):
        raise ValueError("a message head is out of range")
    head, body = _write_heads(batch.head), _write_bodies(layout, batch.packed)
    if len(body) != body_bytes(batch.kind, arms) * count:
        raise ValueError(f"{len(body)} bytes are not the bodies of {count} messages")
    return batch.kind.tag, arms, count, head, body, signature.tobytes()


def _write_bodies(layout: BodyLayout, bodies: Columns | Packed) -> bytes:
    if isinstance(bodies, Pile):
        return b"".join([_write_bodies(layout, piece.packed) for piece in bodies.pieces])
    if isinstance(bodies, PackedBodies) and bodies.layout is layout:
        return bodies.tobytes()
    if isinstance(bodies, Single):
        return _write_one(layout, bodies.numbers)
    if isinstance(bodies, np.ndarray):
        return _write_cells(layout, bodies)
    return _write_cells(layout, bodies.unpack().T)


def body_rows(batch: Batch) -> list[bytes]:
    """The bodies of some messages as they lie on the wire, one by one."""
    if not len(batch.head):
        return []
    whole = _write_bodies(layout_of(batch.kind), batch.packed)
    each = len(whole) // len(batch.head)
    return [whole[start : start + each] for start in range(0, len(whole), each)]


def _write_one(layout: BodyLayout, numbers: Sequence[int]) -> bytes:
    """One body, without a detour through arrays."""
    try:
        return _packer(layout.format, len(numbers) // len(layout.names))(*numbers)
    except struct.error as fault:
        raise ValueError(f"a {layout.kind.name} body holds a number that its field cannot: {fault}") from None


def _read_heads(records: NDArray[np.void]) -> Columns:
    """Head records as integer columns; each column is contiguous, because gossip works column by column."""
    columns = np.empty((HEAD_WIDTH, len(records)), np.int64)
    for column, field in zip(columns, HEAD, strict=True):
        column[:] = records[field.name]
    return columns.T


def _write_heads(head: Columns) -> bytes:
    if len(head) <= FEW:
        return _packer(_HEAD_FORMAT, len(head))(*head.ravel().tolist())
    records: NDArray[np.void] = np.empty(len(head), _HEAD_TYPE)
    for column, field in zip(head.T, HEAD, strict=True):
        records[field.name] = column
    return records.tobytes()


def _read_cells(layout: BodyLayout, records: NDArray[np.void]) -> Cells:
    """Body cells, one message per row, as integers: field by field, arm by arm, message by message."""
    cells = np.empty((len(layout.names), *records.T.shape), np.int64)
    for index, name in enumerate(layout.names):
        cells[index] = records[name].T
    return cells


def _write_cells(layout: BodyLayout, body: Columns) -> bytes:
    """Body cells of integer rows; a value that its field cannot hold is refused, never cut off."""
    columns = body.reshape(-1, len(layout.names)).T
    # All bits that occur in a column: too wide or negative exactly when one of its values is.
    bits = np.bitwise_or.reduce(columns, axis=1).tolist()
    cells: NDArray[np.void] = np.empty(columns.shape[1], layout.cell)
    for index, (name, limit) in enumerate(zip(layout.names, layout.limits, strict=True)):
        if limit and not 0 <= bits[index] < limit:
            raise ValueError(f"{name} of a {layout.kind.name} body is not in [0, {limit})")
        cells[name] = columns[index]
    return cells.tobytes()


@lru_cache(maxsize=2 * FEW)
def _packer(form: str, count: int) -> Callable[..., bytes]:
    """What packs so many records at once."""
    return struct.Struct("<" + form * count).pack


def _read_signatures(raw: bytes, count: int) -> NDArray[np.uint8]:
    return np.frombuffer(raw, np.uint8).reshape(count, -1) if raw else unsigned(count)

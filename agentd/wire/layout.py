"""Columns to bytes and back: packed little-endian records, one per message head and one per body cell.

Records instead of bare columns: numpy reads a field of a record as a strided column at no extra cost, and the body of
one message stays one run of bytes, which is what its origin signs.

On frames of a few dozen messages the number of numpy calls is the cost, hardly the number of messages. So the records
of all frames at hand are joined and read at once. Reading field by field is faster than casting a whole record dtype;
64-bit columns would be free to read, but make a frame 1.6 times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import (
    HEAD_WIDTH,
    LIFE,
    LIFETIME,
    MAX_AGENT_ID,
    MAX_ARMS,
    MAX_INCARNATION,
    MAX_LIFETIME,
    MAX_TRIAL,
    SIGNATURE_BYTES,
    TRIAL,
    Batch,
    Columns,
    Kind,
    body_width,
)

HEAD = np.dtype([("origin", "<u2"), ("incarnation", "<u8"), ("trial", "<u4"), ("lifetime", "<u2"), ("life", "<u2")])
HEAD_BYTES = HEAD.itemsize
"""Bytes of one message's head."""

RawBatch = Sequence[Any]
"""A batch as it lies on the wire: tag, arms, count, head, body, signature."""


@dataclass(frozen=True, slots=True)
class BodyLayout:
    """How one kind of body lies on the wire: a cell repeated once per arm, or once."""

    kind: Kind
    cell: np.dtype[np.void]
    names: tuple[str, ...]
    limits: tuple[int, ...]
    """Where each unsigned field ends; 0 for signed ones, which hold every 64-bit number."""
    per_arm: bool

    def cells(self, arms: int) -> int:
        """How many cells the body of one message has."""
        return arms if self.per_arm else 1

    def body_bytes(self, arms: int) -> int:
        """Bytes of the body of one message."""
        return self.cell.itemsize * self.cells(arms)


def _layout(kind: Kind, fields: dict[str, str]) -> BodyLayout:
    cell = np.dtype(list(fields.items()))
    limits = [1 << 8 * cell[name].itemsize if cell[name].kind == "u" else 0 for name in fields]
    per_arm = body_width(kind, 2) != body_width(kind, 1)
    return BodyLayout(kind, cell, tuple(fields), tuple(limits), per_arm)


LAYOUTS: dict[int, BodyLayout] = {
    int(layout.kind): layout
    for layout in (
        _layout(Kind.RELEASED, {"pulls": "<u4", "pulls_at_release": "<u4", "sum": "<i8"}),
        _layout(Kind.TOTALS, {"pulls": "<u4", "sum": "<i8"}),
        _layout(Kind.SAMPLE, {"arm": "<u2", "reward": "<u4"}),
        _layout(Kind.SEALED, {"arm": "<u2", "pulls": "<u4", "batches": "<u4", "samples": "<i8", "sum": "<i8"}),
    )
}
"""The layout of each tag that this version knows."""


def message_bytes(kind: Kind, arms: int, *, signed: bool = False) -> int:
    """Bytes that one message adds to its batch, apart from the batch's own framing."""
    return HEAD_BYTES + LAYOUTS[kind].body_bytes(arms) + SIGNATURE_BYTES * signed


def heads_in_range(head: Columns) -> bool:
    """Whether every head can be an honest one: fields within their limits, 1 ≤ trial, 1 ≤ life ≤ lifetime."""
    columns = head.T
    origins, incarnations, trials, lifetimes, lives = np.bitwise_or.reduce(columns, axis=1).tolist()
    return (
        0 <= origins <= MAX_AGENT_ID  # the bits that occur: beyond the limit exactly when one value is
        and 0 <= incarnations <= MAX_INCARNATION
        and 0 <= trials <= MAX_TRIAL
        and 0 <= lifetimes <= MAX_LIFETIME
        and 0 <= lives <= MAX_LIFETIME
        and bool(columns[TRIAL].min(initial=1) >= 1)
        and bool(columns[LIFE].min(initial=1) >= 1)
        and not (columns[LIFE] > columns[LIFETIME]).any()
    )


def read_together(raws: Sequence[RawBatch]) -> Batch | None:
    """Raw batches as one, if they are alike and every head is in range."""
    if len(raws) < 2 or len({(raw[0], raw[1], not raw[5]) for raw in raws}) > 1:
        return None
    heads = _read_heads(b"".join([raw[3] for raw in raws]))
    if not heads_in_range(heads):
        return None
    layout = LAYOUTS[raws[0][0]]
    bodies = _read_cells(layout, b"".join([raw[4] for raw in raws])).reshape(len(heads), -1)
    signatures = _read_signatures(b"".join([raw[5] for raw in raws]), len(heads))
    return Batch(layout.kind, heads, bodies, signatures, sound=True)


def read_batch(raw: RawBatch) -> Batch | None:
    """A raw batch in columns; None where a head is out of range."""
    tag, _, count, head, body, signature = raw
    heads = _read_heads(head)
    if not heads_in_range(heads):
        return None
    layout = LAYOUTS[tag]
    bodies = _read_cells(layout, body).reshape(count, -1)
    return Batch(layout.kind, heads, bodies, _read_signatures(signature, count), sound=True)


def write_batch(batch: Batch, arms: int) -> RawBatch:
    """A batch as it lies on the wire; what no peer would accept is a fault of the caller."""
    layout = LAYOUTS[batch.kind]
    count, signature = len(batch), batch.signature
    if not 1 <= arms <= MAX_ARMS or batch.body.shape != (count, len(layout.names) * layout.cells(arms)):
        raise ValueError(f"a {batch.kind.name} body of shape {batch.body.shape} is not one of {arms} arms")
    if signature.shape not in ((count, 0), (count, SIGNATURE_BYTES)) or signature.dtype != np.uint8:
        raise ValueError(f"signatures of shape {signature.shape} are neither absent nor whole")
    if not batch.sound and not heads_in_range(batch.head):
        raise ValueError("a message head is out of range")
    head, body = _write_heads(batch.head), _write_cells(layout, batch.body)
    return int(batch.kind), arms, count, head, body, signature.tobytes()


def _read_heads(raw: bytes) -> Columns:
    """Head records as integer columns; each column is contiguous, because gossip works column by column."""
    records: NDArray[np.void] = np.frombuffer(raw, HEAD)
    columns = np.empty((HEAD_WIDTH, len(records)), np.int64)
    columns[0] = records["origin"]
    columns[1] = records["incarnation"]
    columns[2] = records["trial"]
    columns[3] = records["lifetime"]
    columns[4] = records["life"]
    return columns.T


def _write_heads(head: Columns) -> bytes:
    records: NDArray[np.void] = np.empty(len(head), HEAD)
    columns = head.T
    records["origin"] = columns[0]
    records["incarnation"] = columns[1]
    records["trial"] = columns[2]
    records["lifetime"] = columns[3]
    records["life"] = columns[4]
    return records.tobytes()


def _read_cells(layout: BodyLayout, raw: bytes) -> Columns:
    """Body cells as one integer row each."""
    cells: NDArray[np.void] = np.frombuffer(raw, layout.cell)
    rows = np.empty((len(cells), len(layout.names)), np.int64)
    columns = rows.T
    for index, name in enumerate(layout.names):
        columns[index] = cells[name]
    return rows


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


def _read_signatures(raw: bytes, count: int) -> NDArray[np.uint8]:
    return np.frombuffer(raw, np.uint8).reshape(count, -1) if raw else np.empty((count, 0), np.uint8)

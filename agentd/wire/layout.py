"""Columns to bytes and back: packed little-endian records, one per message head and one per body cell.

Records instead of bare columns: numpy reads a field of a record as a strided column at no extra cost, and the body of
one message stays one run of bytes, which is what its origin signs.

Both directions copy field by field. Casting a whole record dtype at once takes twice as long on frames of a few dozen
messages, and 64-bit columns on the wire, though free to read, make a frame 1.6 times as long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import (
    HEAD_WIDTH,
    LIFE,
    LIFETIME,
    SIGNATURE_BYTES,
    TRIAL,
    Columns,
    Kind,
    body_width,
)

HEAD = np.dtype([("origin", "<u2"), ("incarnation", "<u8"), ("trial", "<u4"), ("lifetime", "<u2"), ("life", "<u2")])
HEAD_BYTES = HEAD.itemsize
"""Bytes of one message's head."""

_HEAD_BITS = np.array([[16], [53], [30], [16], [16]])
"""Bits of the largest value of each head column: every limit in `core.message` is one less than a power of two."""


@dataclass(frozen=True, slots=True)
class BodyLayout:
    """How one kind of body lies on the wire: `cell` repeated once per arm, or once."""

    kind: Kind
    cell: np.dtype[np.void]
    names: tuple[str, ...]
    per_arm: bool

    def cells(self, arms: int) -> int:
        """How many cells the body of one message has."""
        return arms if self.per_arm else 1


def _layout(kind: Kind, fields: list[tuple[str, str]]) -> BodyLayout:
    per_arm = body_width(kind, 2) != body_width(kind, 1)
    return BodyLayout(kind, np.dtype(fields), tuple(name for name, _ in fields), per_arm)


_LAYOUTS = (
    _layout(Kind.RELEASED, [("pulls", "<u4"), ("pulls_at_release", "<u4"), ("sum", "<i8")]),
    _layout(Kind.TOTALS, [("pulls", "<u4"), ("sum", "<i8")]),
    _layout(Kind.SAMPLE, [("arm", "<u2"), ("reward", "<u4")]),
)
LAYOUTS: dict[int, BodyLayout] = {int(layout.kind): layout for layout in _LAYOUTS}
"""The layout of each tag this version knows."""


def message_bytes(kind: Kind, arms: int, *, signed: bool = False) -> int:
    """Bytes that one message adds to its batch, apart from the batch's own framing."""
    layout = LAYOUTS[kind]
    return HEAD_BYTES + layout.cell.itemsize * layout.cells(arms) + SIGNATURE_BYTES * signed


def heads_in_range(head: Columns) -> bool:
    """Whether every head can be an honest one: fields within their limits, 1 ≤ trial, 1 ≤ life ≤ lifetime."""
    columns = head.T
    return not (
        np.count_nonzero(columns >> _HEAD_BITS)  # a negative value leaves −1, so this catches both ends
        or np.count_nonzero(columns[TRIAL:]) != (HEAD_WIDTH - TRIAL) * len(head)
        or np.count_nonzero(columns[LIFE] > columns[LIFETIME])
    )


def read_heads(raw: bytes) -> Columns:
    """Head records as integer columns; each column is contiguous, because gossip works column by column."""
    records: NDArray[np.void] = np.frombuffer(raw, HEAD)
    columns = np.empty((HEAD_WIDTH, len(records)), np.int64)
    columns[0] = records["origin"]
    columns[1] = records["incarnation"]
    columns[2] = records["trial"]
    columns[3] = records["lifetime"]
    columns[4] = records["life"]
    return columns.T


def write_heads(head: Columns) -> bytes:
    """Head records of rows that `heads_in_range` accepts."""
    records: NDArray[np.void] = np.empty(len(head), HEAD)
    columns = head.T
    records["origin"] = columns[0]
    records["incarnation"] = columns[1]
    records["trial"] = columns[2]
    records["lifetime"] = columns[3]
    records["life"] = columns[4]
    return records.tobytes()


def read_bodies(layout: BodyLayout, raw: bytes, count: int) -> Columns:
    """Body cells as one integer row per message."""
    cells: NDArray[np.void] = np.frombuffer(raw, layout.cell)
    values = np.empty((len(cells), len(layout.names)), np.int64)
    columns = values.T
    for index, name in enumerate(layout.names):
        columns[index] = cells[name]
    return values.reshape(count, -1)


def write_bodies(layout: BodyLayout, body: Columns) -> bytes:
    """Body cells of integer rows; a value that its field cannot hold is a fault of the caller, never cut off."""
    columns = body.reshape(-1, len(layout.names)).T
    cells: NDArray[np.void] = np.empty(columns.shape[1], layout.cell)
    for index, name in enumerate(layout.names):
        field = layout.cell[name]
        if field.kind == "u" and np.count_nonzero(columns[index] >> 8 * field.itemsize):
            raise ValueError(f"{name} of a {layout.kind.name} body does not fit {8 * field.itemsize} bits")
        cells[name] = columns[index]
    return cells.tobytes()

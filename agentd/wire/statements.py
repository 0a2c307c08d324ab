"""What origins sign: all of a message but its remaining life. PROTOCOL.md, "Signatures", is the contract."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import LINK_BYTES, SIGNATURE_BYTES, Batch
from agentd.wire.layout import body_rows

PURPOSE = b"agentd message 1"
_HEAD = np.dtype([("incarnation", "<u8"), ("origin", "<u2"), ("trial", "<u4"), ("lifetime", "<u2"), ("tag", "<u2")])


def statements(batch: Batch, run: bytes) -> list[bytes]:
    """What the origin of each message signs in this run."""
    heads: NDArray[np.void] = np.empty(len(batch), _HEAD)
    for name in ("incarnation", "origin", "trial", "lifetime"):
        heads[name] = getattr(batch, name)
    heads["tag"] = batch.kind.tag
    ahead, packed = PURPOSE + run, heads.tobytes()
    starts = range(0, len(packed), _HEAD.itemsize)
    parts = zip(starts, body_rows(batch), strict=True)
    made = [ahead + packed[start : start + _HEAD.itemsize] + body for start, body in parts]
    if not batch.kind.chained:
        return made
    links = batch.signature[:, SIGNATURE_BYTES:].tobytes()
    return [said + links[LINK_BYTES * row : LINK_BYTES * (row + 1)] for row, said in enumerate(made)]


def link_to(statement: bytes) -> bytes:
    """How the next message of a chained kind names this one."""
    return hashlib.sha256(statement).digest()[:LINK_BYTES]

"""Signatures that anybody who knows an origin's number can make, for tests of who is believed: fast, and as long."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from agentd.core.bodies import Kind
from agentd.core.message import Batch, Columns, Message, batch_of, join
from agentd.wire.statements import link_to, statements

RUN = bytes(8)


def signature_of(origin: int, statement: bytes) -> bytes:
    return hashlib.sha512(origin.to_bytes(2, "little") + statement).digest()


class PaperNotary:
    """Knows everybody's signature, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def statements(self, batch: Batch) -> list[bytes]:
        return statements(batch, RUN)

    def link_to(self, statement: bytes) -> bytes:
        return link_to(statement)

    def is_genuine(self, origin: int, statement: bytes, signature: bytes) -> bool:
        self.asked += 1
        return signature == signature_of(origin, statement)

    def sign(self, batch: Batch) -> Batch:
        return signed(batch)


def signed(batch: Batch, by: int | None = None) -> Batch:
    """Messages under the signatures of their origins, or of somebody else."""
    signers = batch.origin.tolist() if by is None else [by] * len(batch)
    width = batch.kind.signature_bytes
    if batch.kind.chained and batch.signature.shape[1] != width:  # signed before, or linked to nothing
        batch = batch.signed(np.zeros((len(batch), width), np.uint8))
    made = np.frombuffer(b"".join(map(signature_of, signers, statements(batch, RUN))), np.uint8).reshape(-1, 64)
    return batch.signed(np.hstack([made, batch.signature[:, 64:]]) if batch.kind.chained else made)


def handed_over(kind: Kind, messages: Iterable[Message], via: int, by: int | None = None) -> Batch:
    """What a neighbour hands over, signed by the origins or by somebody else in their names."""
    batch = signed(batch_of(kind, messages), by)
    batch.via = np.full(len(batch), via)
    return batch


def of_all(*batches: Batch) -> Batch:
    return join(batches)


def senders(batch: Batch) -> Columns | None:
    return batch.via

"""Several requests to the environment in one message, and their replies: what a process with many agents sends.

A parcel is `[version, 64, number, [request, …]]`, where each request is the bytes of a message as in
`environment_messages`; its answer is the same with as many replies in the same places, an empty one where nothing is
answered. Each is read and judged as if it had come by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agentd.errors import PeerError
from agentd.wire.codec import encode_plain, reader_of, row, several, whole
from agentd.wire.environment_messages import MAX_ENVIRONMENT_BYTES, MAX_WELCOME_BYTES
from agentd.wire.frame import VERSION, Reason

PARCEL = 64
"""Its type, far behind those of single messages."""
MOST_REQUESTS = 128
MAX_PARCEL_BYTES = MAX_ENVIRONMENT_BYTES
"""Requests that a parcel has before it leaves; its last one may be as long as a request can be."""
LONGEST_PARCEL = MOST_REQUESTS * (MAX_WELCOME_BYTES + 8)
_START = bytes([0x94, VERSION, PARCEL])


class Parcel(NamedTuple):
    """Several messages."""

    number: int
    """Chosen by who asks; the answer has the same."""
    items: Sequence[bytes]


def is_parcel(data: bytes) -> bool:
    """Whether this is meant to be a parcel, and no single message."""
    return data.startswith(_START)


_ITEMS = several(several(bytes, MAX_WELCOME_BYTES), MOST_REQUESTS)
_read = reader_of(row(whole(VERSION, VERSION), whole(PARCEL, PARCEL), whole((1 << 53) - 1), _ITEMS))


def encode_parcel(parcel: Parcel) -> bytes:
    """The bytes of a parcel."""
    return encode_plain((VERSION, PARCEL, parcel.number, list(parcel.items)))


def decode_parcel(data: bytes) -> Parcel:
    """The parcel that the bytes hold."""
    if len(data) > LONGEST_PARCEL:
        raise PeerError(Reason.OVERSIZE)
    _, _, number, items = _read(data)
    return Parcel(number, items)

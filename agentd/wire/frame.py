"""What an agent publishes at once: a header and batches of messages. PROTOCOL.md says what each field means.

Values only; bytes are made and read by `codec`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentd.core.message import MAX_AGENT_ID, MAX_INCARNATION, MAX_TRIAL, Batch

VERSION = 1
"""The first element of everything on the wire, between peers and with the environment."""

RUN_BYTES = 8
MAX_SEQUENCE = (1 << 53) - 1
MAX_ROUND = MAX_TRIAL

MAX_FRAME_BYTES = 4 << 20
"""Longest encoded frame, without its topic; checked before anything is decoded."""
MAX_BATCHES = 15
"""Batches in a frame; one per kind suffices, and 15 is what a one-byte msgpack array header holds."""
MAX_MESSAGES = 1 << 17
"""Messages in a frame, over all its batches; twice what an agent may have queued for relay."""

GOODBYE = 1
"""Flag: the sender leaves on purpose; nobody waits for it from now on."""
GREETING = 2
"""Flag: the answer to one subscriber's sync topic; belongs to no round and carries no batch."""
KNOWN_FLAGS = GOODBYE | GREETING


class Reason(StrEnum):
    """Why a frame or a message was dropped whole; the names are counters, so they are only ever appended."""

    OVERSIZE = "oversize"
    NOT_MSGPACK = "not-msgpack"
    TRAILING = "trailing"
    SHAPE = "shape"
    VERSION = "version"
    TYPE = "type"
    RANGE = "range"
    FLAGS = "flags"
    TAG = "tag"
    ARMS = "arms"
    LENGTH = "length"
    CANONICAL = "canonical"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One frame; `arms` is K of the run, or 0 where no batch says it."""

    run: bytes
    sender: int
    incarnation: int
    sequence: int
    round: int
    flags: int
    batches: tuple[Batch, ...]
    arms: int

    @property
    def goodbye(self) -> bool:
        """Whether the sender leaves on purpose."""
        return bool(self.flags & GOODBYE)

    @property
    def greeting(self) -> bool:
        """Whether it only answers a subscription."""
        return bool(self.flags & GREETING)

    @property
    def messages(self) -> int:
        """How many messages it carries."""
        return sum(map(len, self.batches))


def header_fault(header: Sequence[Any]) -> Reason | None:
    """What is wrong with a header (run to flags, in the order of the wire), if anything; True is not 1 here."""
    run, sender, incarnation, sequence, round_, flags = header
    if not (
        type(run) is bytes and type(sender) is type(incarnation) is type(sequence) is type(round_) is type(flags) is int
    ):
        return Reason.TYPE
    if len(run) != RUN_BYTES:
        return Reason.LENGTH
    if not (
        0 <= sender <= MAX_AGENT_ID
        and 0 <= incarnation <= MAX_INCARNATION
        and 0 <= sequence <= MAX_SEQUENCE
        and 0 <= round_ <= MAX_ROUND
    ):
        return Reason.RANGE
    return Reason.FLAGS if flags & ~KNOWN_FLAGS else None  # every negative number has an unknown bit set

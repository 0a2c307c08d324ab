"""What an agent publishes at once: a header and batches of messages. PROTOCOL.md says what each field means.

Values only; bytes are made and read by `codec`.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from agentd.core.bodies import Kind
from agentd.core.message import MAX_AGENT_ID, MAX_INCARNATION, MAX_TRIAL, Batch, Columns
from agentd.core.trust.heads import only_said_by

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

HEADER = {
    "run": RUN_BYTES,
    "sender": MAX_AGENT_ID,
    "incarnation": MAX_INCARNATION,
    "sequence": MAX_SEQUENCE,
    "round": MAX_ROUND,
    "flags": KNOWN_FLAGS,
}
"""What stands between the version and the batches, in this order: as many bytes, then numbers up to these.

What is read, written and expected follows from it, and how long it is; what is refused is held against it by a test.
"""
_header_of: Callable[[object], tuple[Any, ...]] = operator.attrgetter(*HEADER)


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


Share = tuple[Batch, int, int]
"""A batch of several frames, and where the part of one of them begins and ends."""


class Frame:
    """One frame; `arms` is K of the run, or 0 where no batch says it. Never changed once made.

    Frames that were read together may share one batch; such a frame gets its own part of it only when it is asked for.
    """

    __slots__ = (
        *(
            "_batches",
            "_shared",
            "_sayable",
            "arms",
            "flags",
            "incarnation",
            "refused",
            "round",
            "run",
            "sender",
            "sequence",
        ),
    )

    def __init__(  # noqa: PLR0917
        self,
        run: bytes,
        sender: int,
        incarnation: int,
        sequence: int,
        round: int,  # noqa: A002
        flags: int,
        batches: tuple[Batch, ...],
        arms: int,
        shared: Share | None = None,
    ) -> None:
        self.run = run
        self.sender = sender
        self.incarnation = incarnation
        self.sequence = sequence
        self.round = round
        self.flags = flags
        self.arms = arms
        self._batches = batches
        self._shared = shared
        self._sayable: tuple[Batch, ...] | None = None
        self.refused = 0
        """How many messages its sender cannot say, once it was judged."""

    @property
    def batches(self) -> tuple[Batch, ...]:
        """Its messages, one batch per kind."""
        if self._shared is not None:
            whole, start, stop = self._shared
            self._batches, self._shared = (whole.rows(np.arange(start, stop)),), None
        return self._batches

    def judge(self) -> tuple[Batch, ...]:
        """Find those of its messages that its sender can say; in memory many hear the same frame, and one has to."""
        self._sayable = tuple([only_said_by(batch, self.sender) for batch in self.batches])
        self.refused = self.messages - sum(map(len, self._sayable))
        return self._sayable

    @property
    def header(self) -> tuple[Any, ...]:
        """The fields of the header, in the order of the wire."""
        return _header_of(self)

    @property
    def content(self) -> tuple[Kind, int] | None:
        """Kind and number of its messages, if it has any and all are of one kind."""
        if self._shared is not None:
            whole, start, stop = self._shared
            return whole.kind, stop - start
        return (self._batches[0].kind, len(self._batches[0])) if len(self._batches) == 1 else None

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


def together(
    frames: Sequence[Frame], dropped: Counter[str] | None = None, *, names_senders: bool = False
) -> list[Batch]:
    """The batches of all frames, without messages that their senders cannot say; those are counted.

    Where frames share a batch and nothing of it is missing, it is that one. They may tell who has sent each message.
    """
    refused, batches = 0, []
    whole = _whole_of(frames)
    if whole is not None:
        batch, senders = whole
        batch.via = senders if names_senders else None
        said = only_said_by(batch, senders)
        refused += len(batch) - len(said)
        batches.append(said)
        frames = [frame for frame in frames if frame._shared is None or frame._shared[0] is not batch]
    for frame in frames:
        sayable = frame._sayable if frame._sayable is not None else frame.judge()
        if names_senders:
            for batch in sayable:
                batch.via = np.full(len(batch), frame.sender)
        batches += sayable
        refused += frame.refused
    if refused and dropped is not None:
        dropped["lifetime"] += refused
    return batches


def _whole_of(frames: Sequence[Frame]) -> tuple[Batch, Columns] | None:
    """The batch that some frames share, if nothing of it is missing, and who says each message in it."""
    shares = [(frame._shared, frame.sender) for frame in frames if frame._shared is not None]
    if not shares:
        return None
    whole = shares[0][0][0]
    parts = sorted([(start, stop - start, sender) for (shared, start, stop), sender in shares if shared is whole])
    _, counts, senders = zip(*parts, strict=True)
    return (whole, np.repeat(senders, counts)) if sum(counts) == len(whole) else None


def header_fault(header: Sequence[Any]) -> Reason | None:
    """What is wrong with a header, if anything; True is not 1 here.

    Written out, because every frame that is sent comes here, and going through `HEADER` takes three times as long.
    """
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

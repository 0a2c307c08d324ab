"""What the bytes of a state mean: one file in which every number has its place for good.

    block 0       magic, schema number, and in JSON whose state it is, which program wrote it, how many numbers it has
    two slots     the state, twice: numbers of 64 bits and a digest over them and over all releases
    one block     the pull that is intended: trial, arm, digest
    to the end    the ledger: one record per release, each with a digest over itself and all before it

Every digest begins with one of what the state says about itself (`root`): whose releases these are, of which algorithm
and with which ε, cannot be exchanged without it showing. In schema 2 they began with nothing.

All numbers are little-endian. How long a slot is follows from the algorithm and the number of arms, never from what was
paid or released; nothing ever moves.

**Two slots, one truth.** A new state is written into the older slot and waited for; then the other one is overwritten
with it, too, without waiting. So at any moment one slot is whole: the newest whose digest holds counts. And no two
states of consecutive trials lie side by side after a commit: their difference would be a reward. Where the machine dies
in between, both may be on its disk until the agent is started again, which begins with writing both.

Digests show damage, not tampering: whoever may write here can make them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from agentd import __version__
from agentd.core.bodies import KINDS
from agentd.core.message import MAX_AGENT_ID, MAX_ARMS, Batch, unsigned
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.base import Snapshot
from agentd.core.privacy.ledger import Release
from agentd.core.saved_state import Charged, SavedState
from agentd.untrusted import decode_json, printable

DATABASE = "ledger.db"
"""The file; named as the SQLite database of schema 1 was, so that programs of that time find it, and refuse it."""
LOCK = "lock"
SCHEMA = 3
"""Raised whenever a state written before no longer means the same; 1 was a SQLite database."""
WITHOUT_ROOT = 2
"""The schema whose digests left out what a state says about itself."""
LONGEST = 64 << 20
"""Bytes of a state that somebody reads who is not its agent: the ledger of 700,000 releases."""
MAGIC = b"agentd's state\n\0"
BLOCK = 4096
"""Slots begin and end at multiples of it: no write of a disk touches two."""
CHUNK = 16 * BLOCK
"""By so much the ledger's room grows: a file that grows with every record would make each wait for its length, too."""
NO_DIGEST = bytes(32)

_PREFIX = struct.Struct("<16sQQ")
_INTENT = struct.Struct("<qq")
_RECORD = struct.Struct("<7q32s")
_RECORD_NUMBERS = struct.Struct("<7q")
_DIGEST_BYTES = len(NO_DIGEST)


class Slot(NamedTuple):
    """The numbers of a state, but for those of the policy and the message."""

    sequence: int
    """Which of two slots is newer."""
    trial: int
    incarnation: int
    releases: int
    refused: int
    tag: int
    """The kind of what was said last; 0: nothing."""
    said_at: int


@dataclass(frozen=True)
class Layout:
    """Where what lies; it follows from how many numbers a policy keeps, by name, and a message has."""

    policy: tuple[tuple[str, int], ...]
    message: int

    @classmethod
    def of(cls, about: Mapping[str, Any], policy: Snapshot) -> Layout:
        """Of the state of an agent that has not said anything yet, perhaps."""
        kind = ALGORITHMS[about["algorithm"]].tells
        rows = tuple((name, len(row)) for name, row in policy.items())
        return cls(rows, kind.width(about["arms"]) if kind is not None else 0)

    @cached_property
    def numbers(self) -> struct.Struct:
        """Of a slot, but for those of the message."""
        return struct.Struct(f"<{len(Slot._fields) + sum(width for _, width in self.policy)}q")

    @property
    def size(self) -> int:
        """Of a slot, in bytes, with its digest."""
        return self.numbers.size + 8 * self.message + _DIGEST_BYTES

    @cached_property
    def span(self) -> int:
        """Bytes from slot to slot."""
        return -(-self.size // BLOCK) * BLOCK

    def slot(self, number: int) -> int:
        """Where the one of these two begins."""
        return BLOCK + number % 2 * self.span

    @property
    def intent(self) -> int:
        return BLOCK + 2 * self.span

    def record(self, number: int) -> int:
        """Of the release with this number, counted from 1."""
        return 2 * BLOCK + 2 * self.span + (number - 1) * _RECORD.size

    def packed(self, slot: Slot, policy: Snapshot, body: bytes, chain: bytes) -> bytes:
        """A slot with its digest, at the end of the chain of releases."""
        if tuple((name, len(row)) for name, row in policy.items()) != self.policy or len(body) not in (
            0,
            8 * self.message,
        ):
            raise ValueError(f"the policy keeps or says more than it began with: {sorted(policy)}, {len(body)} bytes")
        numbers = self.numbers.pack(*slot, *itertools.chain.from_iterable(policy.values()))
        packed = numbers + (body or bytes(8 * self.message))
        return packed + digest(chain, packed)


@dataclass(frozen=True)
class Found:
    """What was read from a file, checked."""

    about: dict[str, Any]
    layout: Layout
    slot: Slot
    body: bytes
    """Of what was said last."""
    chain: bytes
    """The digest of the last release."""
    saved: SavedState


def digest(before: bytes, packed: bytes) -> bytes:
    """Of some bytes and of what came before them."""
    return hashlib.sha256(before + packed).digest()


def root(about: Mapping[str, Any], layout: Layout) -> bytes:
    """Where the chain of digests begins: what a state is about, whichever program writes it."""
    said = {name: value for name, value in about.items() if name not in ("program", "incarnation")}
    text = json.dumps({**said, "policy": layout.policy, "message": layout.message}, sort_keys=True)
    return digest(NO_DIGEST, text.encode())


def record(chain: bytes, number: int, charged: Charged) -> tuple[bytes, bytes]:
    """The record of a release, and the chain with it."""
    release, value = charged
    packed = _RECORD_NUMBERS.pack(
        *(number, release.trial, release.arm, release.pulls, release.scale), value or 0, value is None
    )
    chain = digest(chain, packed)
    return packed + chain, chain


def intent(trial: int, arm: int) -> bytes:
    """What is noted before a pull."""
    packed = _INTENT.pack(trial, arm)
    return packed + digest(NO_DIGEST, packed)


def header(about: Mapping[str, Any], layout: Layout, program: str = __version__) -> bytes:
    """Block 0."""
    said = {**about, "program": program, "policy": layout.policy, "message": layout.message}
    text = json.dumps(said).encode()
    packed = _PREFIX.pack(MAGIC, SCHEMA, len(text)) + text
    if len(packed) + _DIGEST_BYTES > BLOCK:
        raise ValueError("what a state says about itself must fit into a block")
    return (packed + digest(NO_DIGEST, packed)).ljust(BLOCK, b"\0")


def whole(saved: SavedState) -> bytes:
    """A file that holds a state."""
    about = {name: value for name, value in saved.about.items() if name != "incarnation"}
    layout = Layout.of(about, saved.policy)
    chain, records = root(about, layout), []
    for number, charged in enumerate(saved.releases, start=1):
        packed, chain = record(chain, number, charged)
        records.append(packed)
    tag, said_at, body = 0, 0, b""
    if (said := saved.said) is not None:
        tag, said_at, body = said.kind.tag, int(said.trial[0]), said.body.astype("<i8").tobytes()
    slot = Slot(1, saved.trial, saved.incarnation, len(records), saved.refused, tag, said_at)
    state = layout.packed(slot, saved.policy, body, chain).ljust(layout.span, b"\0")
    pull = (b"" if saved.intent is None else intent(*saved.intent)).ljust(BLOCK, b"\0")
    made = b"".join((header(about, layout), state, state, pull, *records))
    return made.ljust(-(-len(made) // CHUNK) * CHUNK, b"\0")


def schema_of(data: bytes) -> int | None:
    """The number of the schema; None: this is no state, or one before it was joined to a run."""
    if len(data) < BLOCK or data[: len(MAGIC)] != MAGIC:
        return None
    schema: int = _PREFIX.unpack_from(data)[1]
    return schema


def program_of(data: bytes) -> str:
    """Which program wrote it, as far as a header of any schema tells."""
    try:
        return printable(str(_about(data)["program"])[:32])
    except (ValueError, KeyError, TypeError):
        return "unknown"


def found_in(data: bytes) -> Found:
    """What a file holds; ValueError where it is damaged."""
    about = _about(data)
    layout = _layout(about.pop("policy"), about.pop("message"), len(data))
    require_sound(about)
    kind = ALGORITHMS[about["algorithm"]].tells
    if layout.message != (kind.width(about["arms"]) if kind is not None else 0):
        raise ValueError("what it says is not of its algorithm")
    if len(data) < layout.record(1):
        raise ValueError("its end is missing")
    start = NO_DIGEST if schema_of(data) == WITHOUT_ROOT else root(about, layout)
    slots = [data[layout.slot(number) :][: layout.size] for number in (0, 1)]
    newest, older = sorted(slots, key=lambda packed: layout.numbers.unpack_from(packed)[0], reverse=True)
    try:
        return _found(data, about, layout, newest, start)
    except ValueError:
        if older == newest:
            raise
        return _found(data, about, layout, older, start)


def require_sound(about: Mapping[str, Any]) -> None:
    """Refuse what no agent says about itself; ValueError names it."""
    for name, holds in _SOUND.items():
        if name in about and not holds(about[name]):
            raise ValueError(f"its {name} cannot be {about[name]!r:.40}")
    if missing := [name for name in ("agent", "algorithm", "arms") if name not in about]:
        raise ValueError(f"it does not tell its {missing[0]}")


def _is_count(most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 0 <= value <= most


def _is_positive(value: Any) -> bool:
    return type(value) in (int, float) and value > 0


_SOUND: Mapping[str, Callable[[Any], bool]] = {
    "agent": _is_count(MAX_AGENT_ID),
    "algorithm": lambda name: type(name) is str and name in ALGORITHMS,
    "arms": lambda arms: _is_count(MAX_ARMS)(arms) and arms > 0,
    "run": lambda run: type(run) is str and len(run) <= 64 and (run.isalnum() or not run) and run.isascii(),
    "epsilon": _is_positive,
    "v": _is_positive,
    "seeded": lambda seeded: type(seeded) is bool,
    "incarnation": _is_count(2**63 - 1),
}


def _layout(policy: Any, message: Any, room: int) -> Layout:
    """The layout that a state claims, if a file of so many bytes can have it."""
    rows = tuple((name, width) for name, width in policy)
    widths = [*(width for _, width in rows), message]
    if not all(type(name) is str for name, _ in rows) or not all(map(_is_count(room // 8), widths)):
        raise ValueError("no policy keeps that much")
    return Layout(rows, message)


def _about(data: bytes) -> dict[str, Any]:
    _, _, length = _PREFIX.unpack_from(data)
    end = _PREFIX.size + length
    if end + _DIGEST_BYTES > BLOCK or data[end : end + _DIGEST_BYTES] != digest(NO_DIGEST, data[:end]):
        raise ValueError("its first block was altered")
    about: dict[str, Any] = decode_json(data[_PREFIX.size : end])
    if not isinstance(about, dict):
        raise ValueError("it does not tell whose it is")
    return about


def _found(data: bytes, about: dict[str, Any], layout: Layout, packed: bytes, start: bytes) -> Found:
    numbers = layout.numbers.unpack_from(packed)
    slot, rest, policy = Slot(*numbers[: len(Slot._fields)]), list(numbers[len(Slot._fields) :]), {}
    releases, chain = _releases(data, layout, slot, start)
    if packed[-_DIGEST_BYTES:] != digest(chain, packed[:-_DIGEST_BYTES]):
        raise ValueError("the releases and the state do not belong together")
    if not all(map(_is_count(2**63 - 1), slot)) or any(each[0].arm >= about["arms"] for each in releases):
        raise ValueError("no agent can have come to this")
    for name, width in layout.policy:
        policy[name], rest = rest[:width], rest[width:]
    told, body = {**about, "incarnation": slot.incarnation}, packed[layout.numbers.size : -_DIGEST_BYTES]
    saved = SavedState(
        about=told,
        trial=slot.trial,
        policy=policy,
        said=_batch(told, slot, body),
        releases=tuple(releases),
        refused=slot.refused,
        intent=_intent(data, layout, slot.trial),
    )
    return Found(about, layout, slot, body, chain, saved)


def _releases(data: bytes, layout: Layout, slot: Slot, start: bytes) -> tuple[list[Charged], bytes]:
    if not 0 <= slot.releases <= len(data) // _RECORD.size:
        raise ValueError("its number of releases was altered")
    chain, releases = start, []
    for number in range(1, slot.releases + 1):
        place = layout.record(number)
        packed = data[place : place + _RECORD.size]
        chain = digest(chain, packed[: _RECORD_NUMBERS.size])
        if len(packed) < _RECORD.size or packed[_RECORD_NUMBERS.size :] != chain:
            raise ValueError(f"release {number} is missing or was altered")
        _, trial, arm, pulls, scale, value, possible = _RECORD_NUMBERS.unpack_from(packed)
        releases.append(Charged(Release(arm, trial, pulls, scale), None if possible else value))
    return releases, chain


def _intent(data: bytes, layout: Layout, trial: int) -> tuple[int, int] | None:
    """The pull that is intended, if it is the one that comes next; one that was written in part is none."""
    noted: tuple[int, int] = _INTENT.unpack_from(data, layout.intent)
    held = data[layout.intent : layout.intent + _INTENT.size + _DIGEST_BYTES]
    return noted if held == intent(*noted) and noted[0] == trial + 1 else None


def _batch(about: Mapping[str, Any], slot: Slot, body: bytes) -> Batch | None:
    """What was said last; how long it may live is for the agent to say."""
    if not slot.tag:
        return None
    head = np.array([[about["agent"], about["incarnation"], slot.said_at, 0, 0]], dtype=np.int64)
    return Batch(KINDS[slot.tag], head, np.frombuffer(body, "<i8").astype(np.int64).reshape(1, -1), unsigned(1))

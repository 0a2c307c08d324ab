"""Every pull on disk, before its reply leaves.

A file of a 32-byte header and 16-byte records, little-endian, in the order in which pulls were counted:

    header  magic "agentdPJ" · version u32 · record size u32 · run 8 bytes · zeros 8 bytes
    record  agent u32 · trial u32 · arm u16 · check u16 · reward u32

A batch of pulls is one write, so what a killed process leaves behind is whole records and at most one torn one at the
end, whose reply never left: it is cut off. Anything else that does not fit means that somebody else changed the file,
and then nothing is repaired. A machine that loses power may lose the last seconds, or find zeros in their place.

The file is locked for as long as it is open: one run directory, one service.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentd.environment.shared_bandit import Counted, SharedBandit
from agentd.errors import AgentdError, ConfigurationError
from agentd.files import open_own
from agentd.wire.frame import RUN_BYTES

NAME = "pulls.journal"

_MAGIC = b"agentdPJ"
_VERSION = 1
_HEADER = struct.Struct(f"<8sII{RUN_BYTES}s8x")
_RECORD = struct.Struct("<IIHHI")
HEADER_BYTES = _HEADER.size
COLUMNS = np.dtype([("agent", "<u4"), ("trial", "<u4"), ("arm", "<u2"), ("check", "<u2"), ("reward", "<u4")])

# Any weights will do that keep one changed field from going unnoticed: a weighted sum modulo the largest 16-bit prime.
_WEIGHTS = (40_503, 30_011, 52_711, 10_007)
_PRIME = 65_521
_SPARE = 1 << 20
"""Bytes that a machine which lost power may have left at the end, of room that was never used."""

Records = NDArray[np.void]


class InUse(ConfigurationError):
    """Another service has the run directory."""


class PullJournal:
    """The open and locked journal of one run directory."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, directory: Path) -> PullJournal:
        """Open the journal of a run directory, making an empty one if there is none, and lock it."""
        path = directory / NAME
        descriptor = open_own(path, os.O_RDWR | os.O_APPEND)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise InUse(
                f"another environment service is using {directory}; stop it or name another --run-dir"
            ) from None
        return cls(path, descriptor)

    def flush(self) -> None:
        """Put everything on the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Put everything on the disk and let go of the lock."""
        self.flush()
        os.close(self._descriptor)

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def begin(self, run: bytes) -> None:
        """Write the header of a new journal; one that holds pulls is never begun again."""
        if self.size > _HEADER.size:
            raise ConfigurationError(f"{self.path} holds pulls, but environment.json beside it is missing")
        os.ftruncate(self._descriptor, 0)
        self._write(_HEADER.pack(_MAGIC, _VERSION, _RECORD.size, run))

    def append(self, pulls: Sequence[Counted]) -> None:
        """Write pulls down, in one go."""
        if pulls:
            self._write(b"".join([_RECORD.pack(a, t, arm, _check(a, t, arm, r), r) for a, t, arm, r in pulls]))

    def read(self, run: bytes) -> tuple[Records, int]:
        """All whole records, and how many bytes of a torn one were cut off."""
        content = self._content()
        if len(content) < _HEADER.size or content[: _HEADER.size] != _HEADER.pack(_MAGIC, _VERSION, _RECORD.size, run):
            raise self.damaged("it is not the journal of this run")
        whole = whole_bytes(content, _HEADER.size, _RECORD.size)
        if torn := len(content) - whole:
            os.ftruncate(self._descriptor, whole)
        records = np.frombuffer(
            content, dtype=COLUMNS, count=(whole - _HEADER.size) // _RECORD.size, offset=_HEADER.size
        )
        wrong = np.flatnonzero(_checks(records) != records["check"])
        if len(wrong):
            raise self.damaged(f"record {int(wrong[0]) + 1} of {len(records)} is not what was written")
        return records, torn

    def damaged(self, why: str) -> ConfigurationError:
        """The complaint about a journal that cannot be trusted."""
        return ConfigurationError(f"{self.path} is damaged: {why}; restore it or name another --run-dir")

    def _content(self) -> bytes:
        return read_whole(self._descriptor)

    def _write(self, data: bytes) -> None:
        append_all(self._descriptor, self.path, data)


def read_beside(content: bytes) -> Records:
    """The pulls in what was read of a journal, perhaps of a run under way; ValueError where it is none.

    It takes no lock and repairs nothing: a record that is being written counts as not there yet.
    """
    head = content[: _HEADER.size]
    if len(head) < _HEADER.size or _HEADER.unpack(head)[:3] != (_MAGIC, _VERSION, _RECORD.size):
        raise ValueError("it is no journal of pulls")
    count = (len(content) - _HEADER.size) // _RECORD.size
    records = np.frombuffer(content, dtype=COLUMNS, count=count, offset=_HEADER.size)
    made = np.flatnonzero(records["trial"])  # trials count from 1: zeros are room for what never came
    records = records[: int(made[-1]) + 1 if len(made) else 0]
    if (_checks(records) != records["check"]).any():
        raise ValueError("a record in it is not what was written")
    return records


def longest_journal(pulls: int) -> int:
    """Bytes of the journal of a run with so many pulls."""
    return _HEADER.size + _RECORD.size * pulls


def replay(journal: PullJournal, bandit: SharedBandit) -> int:
    """Give the bandit all pulls of its journal; returns how many bytes of a torn record were cut off."""
    members, rounds = bandit.terms.agents, bandit.terms.rounds
    if members is not None and rounds is not None and journal.size > longest_journal(members * rounds) + _SPARE:
        raise journal.damaged(f"it is longer than {members} agents can have made it in {rounds} rounds")
    records, torn = journal.read(bandit.terms.run)
    order = np.argsort(records["agent"], kind="stable")
    agents, starts = np.unique(records["agent"][order], return_index=True)
    for agent, places in zip(agents.tolist(), np.split(order, starts[1:]), strict=False):
        own = records[places]
        if not np.array_equal(own["trial"], np.arange(1, len(own) + 1)):
            raise journal.damaged(f"the trials of agent {agent} are not 1…{len(own)}, each once and in order")
        try:
            bandit.restore(agent, own["arm"], own["reward"].astype(np.int64))
        except ValueError as fault:
            raise journal.damaged(str(fault)) from None
    return torn


def append_all(descriptor: int, path: Path, data: bytes) -> None:
    """Append, to the last byte; a disk that is full ends the service before a reply could leave."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError as fault:
        raise AgentdError(f"cannot append to {path}: {fault.strerror}; make room and start again") from None


def read_whole(descriptor: int) -> bytes:
    """Everything, from the file that is open, whatever has its name by now."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


def whole_bytes(content: bytes, header: int, record: int) -> int:
    """Where the last whole record ends; records of zeros at the end are room for what never came."""
    end = len(content) - (len(content) - header) % record
    while end > header and not any(content[end - record : end]):
        end -= record
    return end


def _check(agent: int, trial: int, arm: int, reward: int) -> int:
    a, b, c, d = _WEIGHTS
    return (agent * a + trial * b + arm * c + reward * d + 1) % _PRIME


def _checks(records: Records) -> NDArray[np.uint16]:
    """What `_check` says of each record."""
    fields = (records[name].astype(np.uint64) for name in ("agent", "trial", "arm", "reward"))
    total = sum((field * np.uint64(weight) for field, weight in zip(fields, _WEIGHTS, strict=True)), np.uint64(1))
    return np.asarray(total % np.uint64(_PRIME), dtype=np.uint16)

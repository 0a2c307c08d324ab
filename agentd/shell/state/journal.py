"""An agent's state on disk: what it released, what that cost, and what it needs to go on after a crash.

Theory of operation
-------------------

One file per agent (`state_file.py` says what is where). The order of a round is

    decide → intend(trial, arm) → PULL leaves → draw the noise → the reward comes → advance → commit → send

**Nothing leaves before it is on disk.** `commit` writes the releases of the round with their values and scales, own
sums and the message, and waits until the disk has them. Only then does the turn's outbox open. So a crash at any place
leaves one of two states. After the commit, the drawn value is on disk: the restarted agent sends these bytes and never
draws for that release again. Before the commit, the draw is gone, but nobody has seen it: it is
in memory only.

**In doubt, it is spent.** The environment may have counted a pull that is not in the state, and from outside a round
that was lost looks like a copy of the state from before a round that was sent. So the trial is given up: its open batch
is thrown away, the release that may have been made is charged (`join`, before anything is sent), and the agent goes on
under a new incarnation. The ledger is therefore never below what was sent, and no reward is noised twice, whichever
copy is started, as long as one is started at a time. `core/saved_state.py` has the rule.

**The intent** says which arm is concerned. It is written without waiting for the disk, so that a round waits once: it
survives the death of the process; when the machine dies with it, all arms are concerned. A pull that was intended but
that the environment has not counted is made with that arm.

**Nothing old stays.** A state takes the place of the one before in the same bytes, so that the reward between two of
them cannot be read from the file: no log of changes, no free pages.

**In more than doubt, stop.** A write that fails ends the agent before anything of the round is sent. A file that is
damaged, or that ends more than one trial before those that the environment has counted, is refused. Whoever moves it
away starts a new incarnation with empty sums: rewards from before never enter a release again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from agentd import __version__
from agentd.core.agent import Turn
from agentd.core.policy.base import Snapshot
from agentd.core.saved_state import Charged, SavedState
from agentd.errors import ConfigurationError, LedgerInDoubt, StateUnusable
from agentd.files import OwnDirectory, open_own
from agentd.shell.state.faults import why
from agentd.shell.state.reader import found, is_schema_1
from agentd.shell.state.state_file import (
    BLOCK,
    CHUNK,
    DATABASE,
    LOCK,
    WITHOUT_ROOT,
    Found,
    Slot,
    found_in,
    header,
    intent,
    record,
    schema_of,
    whole,
)
from agentd.shell.state.storage import Disk, Storage

LOCK_PATIENCE_S = 1.0
"""How long to wait for the lock: a reader that looks whether the agent runs holds it for an instant."""


class StateJournal:
    """The one process that may write an agent's state."""

    _kept_in: ClassVar[Callable[[Path], Storage]] = Disk

    def __init__(self, directory: Path, storage: Storage, lock: int, about: Mapping[str, Any]) -> None:
        self._directory = directory
        self._storage = storage
        self._lock = lock
        self._about = about
        self._held: Found | None = None
        self._slot = Slot(0, 0, 0, 0, 0, 0, 0)
        self._refused_before = self._room = 0
        self._body = self._chain = b""
        self.saved: SavedState | None = None
        """What was found on disk."""

    @classmethod
    def open(cls, directory: str | Path, about: Mapping[str, Any]) -> Self:
        """Take possession of a state directory; `about` says whose it must be, as far as that is known by now."""
        place = Path(directory)
        with _unusable(place):
            try:
                OwnDirectory.made(place).close()
            except ConfigurationError as fault:
                raise StateUnusable(str(fault)) from None
            lock = _locked(place)
            try:
                journal = cls(place, cls._kept_in(place / DATABASE), lock, about)
                journal._take_up()
            except BaseException:
                os.close(lock)
                raise
        return journal

    @classmethod
    def over(cls, storage: Storage, about: Mapping[str, Any]) -> Self:
        """Take up what nobody else can reach, such as memory; there is no lock, so never close it."""
        journal = cls(Path(":memory:"), storage, -1, about)
        journal._take_up()
        return journal

    def join(self, turn: Turn, *, incarnation: int, once: Mapping[str, Any] | None = None, **about: Any) -> None:
        """Say what is known now: run, arms, incarnation; what is on disk must agree, an empty place is filled.

        What is said `once` is written into an empty place and never compared.

        Filled with the agent as it begins: it may die before its first round is over. Where a round may have been lost,
        the turn says what it may have released; this is charged here, and only then the outbox opens.
        """
        if self.saved is None:
            with _unusable(self._directory):
                self._fill(turn, {**self._about, **about, **(once or {}), "incarnation": incarnation})
            return
        _require_same(self._directory, self.saved.about, about)
        if (turn.trial, incarnation) != (self._slot.trial, self._slot.incarnation):
            self._slot = self._slot._replace(trial=turn.trial, incarnation=incarnation, tag=0, said_at=0)
            self._body = b""
            self._put(turn.trial, turn.state, [Charged(release, None) for release in turn.possible])
        turn.committed()

    def intend(self, trial: int, arm: int) -> None:
        """Note the pull that is about to be made; it survives this process, though perhaps not this machine."""
        with self._in_doubt(trial):
            self._storage.write(self._found.layout.intent, intent(trial, arm))

    def commit(self, turn: Turn) -> None:
        """Put a round on disk, and open its outbox then."""
        head, body = turn.message
        slot = self._slot._replace(trial=turn.trial)
        if head:
            slot, self._body = slot._replace(tag=head[0], said_at=head[1]), body
        if (ledger := turn.ledger) is not None:
            slot = slot._replace(refused=self._refused_before + ledger.refused)
        self._slot = slot
        self._put(turn.trial, turn.state, turn.releases)
        turn.committed()

    def close(self) -> None:
        """Let go of it: everything is where it belongs."""
        self._storage.close()
        os.close(self._lock)

    def _put(self, trial: int, policy: Snapshot, charged: Sequence[tuple[Any, Any]] = ()) -> None:
        """A state and what it releases; where this fails, nothing that follows from it may happen."""
        number = self._slot.sequence + 1
        with self._in_doubt(trial):
            self._append(charged)
            self._slot = self._slot._replace(sequence=number)
            packed = self._found.layout.packed(self._slot, policy, self._body, self._chain)
            self._write_slot(number, packed)
            self._storage.sync()
            self._write_slot(number + 1, packed)  # two in a row would tell the reward between them

    def _write_slot(self, number: int, packed: bytes) -> None:
        self._storage.write(self._found.layout.slot(number), packed)

    def _append(self, charged: Sequence[tuple[Any, Any]]) -> None:
        for release, value in charged:
            number = self._slot.releases + 1
            packed, self._chain = record(self._chain, number, Charged(release, value))
            place = self._found.layout.record(number)
            if place + len(packed) > self._room:
                self._storage.write(self._room, bytes(CHUNK))
                self._room += CHUNK
            self._storage.write(place, packed)
            self._slot = self._slot._replace(releases=number)

    @property
    def _found(self) -> Found:
        assert self._held is not None, "nothing is written before a run is joined"  # noqa: S101
        return self._held

    @contextlib.contextmanager
    def _in_doubt(self, trial: int) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            raise LedgerInDoubt(
                f"cannot write the ledger in {self._directory}: {why(fault)}; nothing of trial {trial} was sent and "
                "the agent stops here. Make room or repair the disk and start it again: it goes on where it was"
            ) from None

    def _fill(self, turn: Turn, about: Mapping[str, Any]) -> None:
        data = whole(SavedState(about, turn.trial, turn.state, None, (), 0, None))
        self._storage.replace(data)
        self._hold(found(data, self._directory), len(data))

    def _take_up(self) -> None:
        data = self._storage.read()
        if is_schema_1(data):
            data = self._migrated()
        held = found(data, self._directory)
        if held is None:
            self._storage.write(0, bytes(BLOCK))  # a place that cannot be written is found out now
            self._storage.sync()
            return
        _require_same(self._directory, held.about, self._about)
        if schema_of(data) == WITHOUT_ROOT:
            data = whole(held.saved)
            self._storage.replace(data)
            held = found_in(data)
        self._hold(held, len(data))
        self.saved = held.saved
        self._refused_before = held.slot.refused
        self._write_again(held, data)

    def _hold(self, held: Found | None, room: int) -> None:
        assert held is not None  # noqa: S101 - it was made, or looked at, just now
        self._held, self._slot, self._body, self._chain, self._room = held, held.slot, held.body, held.chain, room

    def _write_again(self, held: Found, data: bytes) -> None:
        """Make sure that what was found is what the disk has, in both slots; and say which program writes it now."""
        if held.about.get("program") != __version__:
            self._storage.replace(header(held.about, held.layout) + data[BLOCK:])
        packed = held.layout.packed(held.slot, held.saved.policy, held.body, held.chain)
        for number in (0, 1):
            place = held.layout.slot(number)
            if data[place : place + len(packed)] != packed:
                self._storage.write(place, packed)
        self._storage.sync()

    def _migrated(self) -> bytes:
        """Put today's file in place of a database of schema 1; its bytes."""
        from agentd.shell.state.schema_1 import taken_out  # hardly any agent needs SQLite

        saved = taken_out(self._directory)
        if saved is None:
            data = bytes(BLOCK)
        else:
            _require_same(self._directory, saved.about, self._about)
            data = whole(saved)
        self._storage.replace(data)
        return data


def _require_same(directory: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse the state of somebody else."""
    wrong = [f"{name} {saved.get(name)}, not {value}" for name, value in wanted.items() if saved.get(name) != value]
    if wrong:
        raise StateUnusable(
            f"the state in {directory} belongs to another agent, run or setting: {'; '.join(wrong)}. "
            "Name another place with --state"
        )


def _locked(place: Path) -> int:
    lock = open_own(place / LOCK, os.O_RDWR)
    deadline_s = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline_s:
                time.sleep(0.05)
                continue
            os.close(lock)
            raise StateUnusable(
                f"another process uses the state in {place}; stop it, or name another place with --state"
            ) from None
        return lock


@contextlib.contextmanager
def _unusable(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise StateUnusable(
            f"cannot keep state in {place}: {why(fault)}; name a place that can be written with --state"
        ) from None

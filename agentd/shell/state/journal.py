"""An agent's state on disk: what it released, what that cost, and what it needs to go on after a crash.

Theory of operation
-------------------

One SQLite database per agent, in write-ahead mode. The order of a round is

    choose → intend(trial, arm) → pull → advance, which draws the noise → commit → send

**Nothing leaves before it is on disk.** `commit` writes the round in one transaction with synchronous FULL: own sums,
the releases of the round with their values, scales and bytes, and the message. Only then does the turn's outbox open.
So a crash at any place leaves one of two states. Before the commit, the draw is gone, but nobody has seen it: the
restarted agent asks for the same (trial, arm) again, gets the same reward (pulls are idempotent), and draws for the
first time as far as anybody can tell. After the commit, the drawn value is on disk: the restarted agent sends these
bytes and never draws for that release again. The ledger is therefore never below what was sent; it may be above by one
round.

**The intent** makes the pull repeatable: the choice followed from what others had said, and that is not kept. It is
written without waiting for the disk, so that a round waits once. It survives the death of the process; when the machine
dies with it, the environment may have counted a pull whose reward nobody used. That trial is then skipped: its number
is never used again.

**In doubt, stop.** A write that fails ends the agent before anything of the round is sent. A database that is damaged,
or whose rows do not belong together, or that ends before the trials that the environment has counted (an older copy:
its ledger may miss releases), is refused. Whoever moves it away starts a new incarnation with empty sums: rewards from
before never enter a release again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from agentd.core.agent import Turn
from agentd.core.policy.base import Released
from agentd.core.saved_state import SavedState
from agentd.errors import LedgerInDoubt, StateUnusable
from agentd.shell.state.reader import DATABASE, FORMAT, LOCK, NO_DIGEST, SCHEMA, chained, damaged, read_saved, why

CACHE_KIB = 64
"""Pages SQLite keeps in memory; the default of 2 MB would be there once per agent, and a journal is hardly read."""
LOCK_PATIENCE_S = 1.0
"""How long to wait for the lock: a reader that looks whether the agent runs holds it for an instant."""

_INSERT = "INSERT INTO state VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE = (
    "UPDATE state SET trial = ?, policy = ?, message = ?, body = ?, releases = ?, refused = ?, "
    "intent_trial = ?, intent_arm = ?, digest = ?"
)


class StateJournal:
    """The one process that may write an agent's state."""

    def __init__(self, directory: Path, database: sqlite3.Connection, lock: int, about: Mapping[str, Any]) -> None:
        self._directory = directory
        self._database = database
        self._lock = lock
        self._about = {"format": FORMAT, **about}
        self._trial = self._refused_before = 0
        self._policy, self._message, self._body = "{}", "[]", b""
        self._refused = self._intent_trial = self._intent_arm = 0
        self._releases, self._digest = 0, NO_DIGEST
        self.saved: SavedState | None = None
        """What was found on disk."""

    @classmethod
    def open(cls, directory: str | Path, about: Mapping[str, Any]) -> Self:
        """Take possession of a state directory; `about` says whose it must be, as far as that is known by now."""
        place = Path(directory)
        with _unusable(place):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = _locked(place)
            try:
                journal = cls(place, _connected(place), lock, about)
                journal._take_up()
            except BaseException:
                os.close(lock)
                raise
        return journal

    @classmethod
    def over(cls, database: sqlite3.Connection, about: Mapping[str, Any]) -> Self:
        """Take up a database that nobody else can reach, such as one in memory; there is no lock, so never close it."""
        journal = cls(Path(":memory:"), database, -1, about)
        journal._take_up()
        return journal

    def join(self, turn: Turn, **about: Any) -> None:
        """Say what is known now: run, arms, incarnation; what is on disk must agree, an empty place is filled.

        Filled with the agent as it begins: it may die before its first round is over.
        """
        if self.saved is not None:
            _require_same(self._directory, self.saved.about, {k: v for k, v in about.items() if k != "incarnation"})
            return
        self._trial, self._policy = turn.trial, json.dumps(turn.state)
        rows = [(name, json.dumps(value)) for name, value in {**self._about, **about}.items()]
        with _unusable(self._directory), self._transaction():
            for statement in SCHEMA.split(";\n"):
                self._database.execute(statement)
            self._database.executemany("INSERT INTO about VALUES (?, ?)", rows)
            self._write_state(_INSERT)

    def intend(self, trial: int, arm: int) -> None:
        """Note the pull that is about to be made; it survives this process, though perhaps not this machine."""
        self._intent_trial, self._intent_arm = trial, arm
        self._put(trial, durably=False)

    def skip_to(self, trial: int) -> None:
        """Note that trials up to this one are over, though their rewards were lost."""
        self._trial = trial
        self._put(trial)

    def commit(self, turn: Turn) -> None:
        """Put a round on disk, and open its outbox then."""
        head, body = turn.message
        if head:
            self._message, self._body = json.dumps(head), body
        self._trial, self._policy = turn.trial, json.dumps(turn.state)
        if (ledger := turn.ledger) is not None:
            self._refused = self._refused_before + ledger.refused
        self._put(turn.trial, turn.releases, body)
        turn.committed()

    def _put(self, trial: int, releases: Sequence[Released] = (), body: bytes = b"", *, durably: bool = True) -> None:
        """One transaction; where it fails, nothing that follows from it may happen."""
        try:
            if not durably:
                self._database.execute("PRAGMA synchronous = NORMAL")
            with self._transaction():
                for released in releases:
                    self._append(released, body)
                self._write_state(_UPDATE)
            if not durably:
                self._database.execute("PRAGMA synchronous = FULL")
        except (sqlite3.Error, OSError) as fault:
            raise LedgerInDoubt(
                f"cannot write the ledger in {self._directory}: {why(fault)}; nothing of trial {trial} was sent and "
                "the agent stops here. Make room or repair the disk and start it again: it goes on where it was"
            ) from None

    def close(self) -> None:
        """Bring everything into the one file and let go of it."""
        with contextlib.suppress(sqlite3.Error):  # what is in the write-ahead log is as safe as in the file
            self._database.close()
        os.close(self._lock)

    def _append(self, released: Released, body: bytes) -> None:
        release, value = released
        self._releases += 1
        row = (
            self._releases,
            release.trial,
            release.arm,
            release.pulls,
            release.scale,
            str(release.epsilon),
            value,
            body,
        )
        self._digest = chained(self._digest, row)
        self._database.execute("INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, self._digest))

    def _write_state(self, statement: str) -> None:
        row = (
            *(self._trial, self._policy, self._message, self._body, self._releases, self._refused),
            *(self._intent_trial, self._intent_arm),
        )
        self._database.execute(statement, (*row, chained(self._digest, row)))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        yield
        self._database.execute("COMMIT")  # where this fails the agent ends, and the transaction with it

    def _take_up(self) -> None:
        self._database.execute("PRAGMA synchronous = NORMAL")  # until there is something that must not be lost
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute(f"PRAGMA cache_size = {-CACHE_KIB}")
        with self._transaction():  # a place that cannot be written is found out now, not when a release is due
            self._database.execute(f"PRAGMA user_version = {FORMAT}")
        self._database.execute("PRAGMA synchronous = FULL")
        self.saved = read_saved(self._database, self._directory)
        if self.saved is None:
            return
        _require_same(self._directory, self.saved.about, self._about)
        row = self._database.execute("SELECT * FROM state").fetchone()
        _, self._trial, self._policy, self._message, self._body, self._releases, self._refused_before, *intent, _ = row
        self._intent_trial, self._intent_arm = intent
        self._refused = self._refused_before
        last = self._database.execute("SELECT digest FROM releases WHERE number = ?", (self._releases,)).fetchone()
        self._digest = last[0] if last else NO_DIGEST


def _require_same(directory: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse the state of somebody else."""
    wrong = [f"{name} {saved.get(name)}, not {value}" for name, value in wanted.items() if saved.get(name) != value]
    if wrong:
        raise StateUnusable(
            f"the state in {directory} belongs to another agent, run or setting: {'; '.join(wrong)}. "
            "Name another place with --state"
        )


def _locked(place: Path) -> int:
    lock = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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


def _connected(place: Path) -> sqlite3.Connection:
    # Made here, so that nobody else may read it; SQLite gives the files beside it the same permissions.
    os.close(os.open(place / DATABASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return sqlite3.connect(place / DATABASE, isolation_level=None, timeout=LOCK_PATIENCE_S)


@contextlib.contextmanager
def _unusable(place: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, OSError) as fault:
        raise StateUnusable(
            f"cannot keep state in {place}: {why(fault)}; name a place that can be written with --state"
        ) from None
    except sqlite3.DatabaseError as fault:
        raise damaged(place, why(fault)) from None

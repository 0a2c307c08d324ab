"""States of schema 1, the SQLite databases of agentd up to 49aef1d: read as they are, and brought to today's.

They held consecutive raw sums in a write-ahead log and in pages that were free again. So a state is not changed in
place: a new file takes the name of the old one when it is whole, and then nothing of the old one has a name any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentd.core.bodies import KINDS
from agentd.core.message import Batch, unsigned
from agentd.core.privacy.ledger import Release
from agentd.core.saved_state import Charged, SavedState
from agentd.errors import StateUnusable
from agentd.shell.state.faults import damaged, why
from agentd.shell.state.state_file import DATABASE, LOCK, LONGEST, NO_DIGEST, require_sound
from agentd.untrusted import decode_json, open_in, read_in

_BESIDE = ("-wal", "-shm", "-journal")
_STEPS = 10_000
_MOST_STEPS = 50_000_000
"""Of SQLite's machine, to read a database: a hundred for each release that fits into one."""
_LONGEST_VALUE = 16 << 20


def read_beside(directory: Path) -> SavedState | None:
    """What a database holds, read beside a running agent or without one; nothing is changed. None: nothing yet."""
    with _unchanged(directory) as path, _faults_of(directory), contextlib.closing(_read_only(path)) as database:
        return _read(database)


def taken_out(directory: Path) -> SavedState | None:
    """What a database holds, whose log is then folded into it: no file but the database itself is left."""
    path = directory / DATABASE
    with _faults_of(directory), contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        saved = _read(database)
        database.execute("PRAGMA journal_mode = DELETE")
    for ending in _BESIDE:
        path.with_name(path.name + ending).unlink(missing_ok=True)
    return saved


@contextlib.contextmanager
def _faults_of(directory: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as fault:
        if "no such" not in str(fault):  # not damaged but out of reach
            raise StateUnusable(f"cannot read the state in {directory}: {why(fault)}") from None
        raise damaged(directory, why(fault)) from None
    except (sqlite3.Error, ValueError, KeyError, TypeError, AttributeError, OverflowError) as fault:
        raise damaged(directory, why(fault)) from None


@contextlib.contextmanager
def _unchanged(directory: Path) -> Iterator[Path]:
    """The database itself while an agent holds it; else a copy, because reading what a crash left would repair it."""
    if _is_held(directory):
        yield directory / DATABASE
        return
    with tempfile.TemporaryDirectory(prefix="agentd-ledger-") as place:
        for name in (DATABASE, f"{DATABASE}-wal"):
            with contextlib.suppress(FileNotFoundError):
                (Path(place) / name).write_bytes(read_in(directory, name, LONGEST))
        yield Path(place) / DATABASE


def _is_held(directory: Path) -> bool:
    try:
        lock = open_in(directory, LOCK)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=5.0)


def _bound(database: sqlite3.Connection) -> None:
    """Let nothing in the database run for long, grow large or call for more than reading takes."""
    left = iter(range(_MOST_STEPS // _STEPS))
    database.set_progress_handler(lambda: next(left, None) is None, _STEPS)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    database.execute("PRAGMA trusted_schema = OFF")


def _read(database: sqlite3.Connection) -> SavedState | None:
    _bound(database)
    if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return None
    # Tables are all that there was; a view may be a program that never ends.
    if database.execute(
        "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index') OR NOT rootpage"
    ).fetchone()[0]:
        raise ValueError("it holds more than tables")
    if (verdict := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise ValueError(verdict)
    database.execute("BEGIN")  # one moment of a database that may be written meanwhile
    about = {name: decode_json(value.encode()) for name, value in database.execute("SELECT * FROM about LIMIT 100")}
    states = database.execute("SELECT * FROM state").fetchall()
    rows = database.execute("SELECT * FROM releases ORDER BY number").fetchall()
    database.execute("COMMIT")
    if about.pop("format") != 1:
        raise ValueError("no SQLite database has another schema than 1")
    require_sound(about)
    if len(states) != 1:
        raise ValueError("it has no state row")
    _, trial, policy, message, body, count, refused, intent_trial, intent_arm, digest = states[0]
    if digest != _chained(_chain(rows), states[0][1:-1]) or count != len(rows):
        raise ValueError("the releases and the state do not belong together")
    return SavedState(
        about=about,
        trial=trial,
        policy=decode_json(policy.encode()),
        said=_batch(about, decode_json(message.encode()), body),
        releases=tuple(Charged(Release(arm, t, pulls, scale), value) for _, t, arm, pulls, scale, _, value, *_ in rows),
        refused=refused,
        intent=(intent_trial, intent_arm) if intent_trial > trial else None,
    )


def _batch(about: Mapping[str, Any], message: Sequence[int], body: bytes) -> Batch | None:
    if not message:
        return None
    kind, trial, rows, width = message
    numbers = np.frombuffer(body, dtype="<i8").astype(np.int64).reshape(rows, width)
    head = np.array([[about["agent"], about["incarnation"], trial, 0, 0]] * rows, dtype=np.int64)
    return Batch(KINDS[kind], head, numbers, unsigned(rows))


def _chain(rows: Sequence[tuple[Any, ...]]) -> bytes:
    digest = NO_DIGEST
    for number, row in enumerate(rows, start=1):
        digest = _chained(digest, row[:-1])
        if row[0] != number or row[-1] != digest:
            raise ValueError(f"release {number} is missing or was altered")
    return digest


def _chained(before: bytes, row: Sequence[Any]) -> bytes:
    """The digest of a row and of what came before it."""
    return hashlib.sha256(before + repr(tuple(row)).encode()).digest()

"""The file of an agent's state: its tables, and how to read them without trusting them.

Releases are chained by digests and the state row is sealed by one, so that a lost or altered row is noticed. That
protects against damage, not against somebody who may write there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentd.core.bodies import KINDS
from agentd.core.message import Batch, unsigned
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.base import Released
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.saved_state import SavedState
from agentd.errors import ConfigurationError, StateUnusable

FORMAT = 1
"""Raised whenever a database written before no longer means the same."""
DATABASE = "ledger.db"
LOCK = "lock"
NO_DIGEST = bytes(32)

SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE releases (
    number INTEGER PRIMARY KEY,
    trial INTEGER NOT NULL,
    arm INTEGER NOT NULL,
    pulls INTEGER NOT NULL,
    scale INTEGER NOT NULL,   -- of the noise, in grid steps
    epsilon TEXT NOT NULL,    -- what it alone costs, an exact fraction
    value INTEGER NOT NULL,   -- what was released, in grid steps
    body BLOB NOT NULL,       -- the message that carried it first: 64-bit integers, little-endian
    digest BLOB NOT NULL      -- of this row and all before it
);
CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    trial INTEGER NOT NULL,
    policy TEXT NOT NULL,
    message TEXT NOT NULL,    -- kind, trial, rows and width of what was said last
    body BLOB NOT NULL,
    releases INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    intent_trial INTEGER NOT NULL,
    intent_arm INTEGER NOT NULL,
    digest BLOB NOT NULL      -- of this row and of the last release
);
"""


def read_saved(database: sqlite3.Connection, directory: Path) -> SavedState | None:
    """Everything in a database, checked; None where nothing was ever written."""
    try:
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return None
        return _read_saved(database)
    except sqlite3.OperationalError as fault:
        if "no such" not in str(fault):  # not damaged but out of reach
            raise
        raise damaged(directory, why(fault)) from None
    except (sqlite3.DatabaseError, ValueError, KeyError, TypeError) as fault:
        raise damaged(directory, why(fault)) from None


def read_state(directory: Path) -> SavedState:
    """What a state directory holds, read beside a running agent or without one; nothing there is changed."""
    if not (directory / DATABASE).is_file():
        raise StateUnusable(f"{directory} holds no agent's state: there is no {DATABASE} in it")
    try:
        with _snapshot(directory) as path, contextlib.closing(_read_only(path)) as database:
            saved = read_saved(database, directory)
    except (sqlite3.Error, OSError) as fault:
        raise StateUnusable(f"cannot read the state in {directory}: {why(fault)}") from None
    if saved is None:
        raise StateUnusable(f"the agent of {directory} has not joined a run yet")
    return saved


def ledger_of(saved: SavedState) -> Ledger:
    """The ledger as the agent itself keeps it."""
    algorithm = ALGORITHMS[saved.about["algorithm"]]
    if not algorithm.noised:
        raise ConfigurationError(f"{algorithm.name} keeps no ledger")
    found = Ledger(disjoint=algorithm.disjoint)
    for release, _ in saved.releases:
        found.take_back(release)
    return found


@contextlib.contextmanager
def _snapshot(directory: Path) -> Iterator[Path]:
    """The database itself while an agent holds it; else a copy, because reading what a crash left would repair it."""
    if _is_held(directory):
        yield directory / DATABASE
        return
    with tempfile.TemporaryDirectory(prefix="agentd-ledger-") as place:
        for name in (DATABASE, f"{DATABASE}-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(directory / name, Path(place) / name)
        yield Path(place) / DATABASE


def _is_held(directory: Path) -> bool:
    try:
        lock = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
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


def _read_saved(database: sqlite3.Connection) -> SavedState:
    if (verdict := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise ValueError(verdict)
    database.execute("BEGIN")  # one moment of a database that may be written meanwhile
    about = {name: json.loads(value) for name, value in database.execute("SELECT * FROM about")}
    states = database.execute("SELECT * FROM state").fetchall()
    rows = database.execute("SELECT * FROM releases ORDER BY number").fetchall()
    database.execute("COMMIT")
    if len(states) != 1:
        raise ValueError("it has no state row")
    _, trial, policy, message, body, count, refused, intent_trial, intent_arm, digest = states[0]
    if digest != chained(_chain(rows), states[0][1:-1]) or count != len(rows):
        raise ValueError("the releases and the state do not belong together")
    return SavedState(
        about=about,
        trial=trial,
        policy=json.loads(policy),
        said=_batch(about, json.loads(message), body),
        releases=tuple(
            Released(Release(arm, t, pulls, scale), value) for _, t, arm, pulls, scale, _, value, *_ in rows
        ),
        refused=refused,
        intent=(intent_trial, intent_arm) if intent_trial > trial else None,
    )


def _batch(about: Mapping[str, Any], message: Sequence[int], body: bytes) -> Batch | None:
    """What was said last; how long it may live is for the agent to say."""
    if not message:
        return None
    kind, trial, rows, width = message
    numbers = np.frombuffer(body, dtype="<i8").astype(np.int64).reshape(rows, width)
    head = np.array([[about["agent"], about["incarnation"], trial, 0, 0]] * rows, dtype=np.int64)
    return Batch(KINDS[kind], head, numbers, unsigned(rows))


def _chain(rows: Sequence[tuple[Any, ...]]) -> bytes:
    digest = NO_DIGEST
    for number, row in enumerate(rows, start=1):
        digest = chained(digest, row[:-1])
        if row[0] != number or row[-1] != digest:
            raise ValueError(f"release {number} is missing or was altered")
    return digest


def chained(before: bytes, row: Sequence[Any]) -> bytes:
    """The digest of a row and of what came before it."""
    return hashlib.sha256(before + repr(tuple(row)).encode()).digest()


def damaged(directory: Path, reason: str) -> StateUnusable:
    """What to say of a database that cannot be trusted."""
    return StateUnusable(
        f"the state in {directory} is damaged ({reason}), so what was released is not known; nothing is sent. "
        "Move it away to start over as a new incarnation, and count what its ledger said last as spent"
    )


def why(fault: Exception) -> str:
    """The reason in a few words."""
    if isinstance(fault, OSError) and fault.errno:
        return os.strerror(fault.errno)
    text = str(fault)
    return os.strerror(errno.ENOSPC) if text == "database or disk is full" else text

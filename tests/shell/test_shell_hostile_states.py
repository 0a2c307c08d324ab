"""States that no agent wrote: each is refused in one line, at once, and for next to no memory."""

from __future__ import annotations

import os
import sqlite3
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentd.core.policy import PolicySettings, make_policy
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.privacy.ledger import Release
from agentd.core.saved_state import Charged, SavedState
from agentd.errors import StateUnusable
from agentd.shell.state import state_file
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.reader import DATABASE, read_state
from agentd.shell.state.state_file import BLOCK, LONGEST, found_in, header, whole

ABOUT: dict[str, Any] = {
    "agent": 3,
    "algorithm": "private-ucb",
    "epsilon": 1.0,
    "v": 1.1,
    "seeded": False,
    "run": "ab" * 8,
    "arms": 2,
    "incarnation": 0,
}
MOST_MEGABYTES = 20


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1] >> 20
    tracemalloc.stop()
    assert peak < MOST_MEGABYTES


def state(releases: tuple[Charged, ...] = (), **changes: Any) -> SavedState:
    policy: Any = make_policy("private-ucb", PolicySettings(arms=2), 3, SeededLaplace(1, 3))
    return SavedState({**ABOUT, **changes}, 5, policy.snapshot(), None, releases, 0, None)


def claiming(place: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """A state that says something else about itself, with every digest in order: whoever may write can make them."""
    real = state_file.Layout.of
    monkeypatch.setattr(state_file.Layout, "of", lambda _about, policy: real(ABOUT, policy))
    (place / DATABASE).write_bytes(whole(state(**changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": 20_000_000}, {"arms": -1}, {"arms": True}, {"arms": "2"}, {"arms": None}, {"agent": 1 << 40},
        {"algorithm": "\x1b[2J"}, {"algorithm": ["private-ucb"]}, {"run": "\x1b[2Jgone"}, {"run": "x" * 65},
        {"epsilon": 0}, {"epsilon": "1"}, {"epsilon": float("nan")}, {"v": []}, {"seeded": 1},
    ],
    ids=repr,
)  # fmt: skip
def test_a_state_about_what_no_agent_is_is_refused(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claiming(tmp_path, monkeypatch, **changes)
    with pytest.raises(StateUnusable, match=rf"is damaged \(its {next(iter(changes))} cannot be") as refused:
        read_state(tmp_path)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("field", "value"),
    [("policy", [["x", 10**15]]), ("policy", [["x", -1]]), ("policy", "no"), ("policy", [[1, 1]]), ("message", 10**15),
     ("message", -1), ("message", 3), ("agent", None)],
)  # fmt: skip
def test_a_header_that_claims_another_layout_is_refused(field: str, value: Any, tmp_path: Path) -> None:
    data = whole(state())
    found = found_in(data)
    text = state_file.json.dumps(
        {**found.about, "policy": found.layout.policy, "message": found.layout.message, field: value}
    ).encode()
    packed = struct.pack("<16sQQ", state_file.MAGIC, state_file.SCHEMA, len(text)) + text
    block = (packed + state_file.digest(state_file.NO_DIGEST, packed)).ljust(BLOCK, b"\0")
    (tmp_path / DATABASE).write_bytes(block + data[BLOCK:])
    with pytest.raises(StateUnusable, match="is damaged"):
        read_state(tmp_path)


def test_a_header_of_another_state_does_not_fit_its_releases(tmp_path: Path) -> None:
    """Each is whole in itself; in schema 2 the two passed for one state."""
    data = whole(state((Charged(Release(1, 3, 2, 1 << 20), 5),)))
    found = found_in(data)
    for changes in ({"epsilon": 0.1}, {"agent": 4}, {"seeded": True}, {"run": "cd" * 8}):
        other = header({**found.about, **changes}, found.layout)
        (tmp_path / DATABASE).write_bytes(other + data[BLOCK:])
        with pytest.raises(StateUnusable, match="is damaged"):
            read_state(tmp_path)
    (tmp_path / DATABASE).write_bytes(header(found.about, found.layout, "another program") + data[BLOCK:])
    assert read_state(tmp_path).trial == 5


@pytest.mark.parametrize("release", [(2, 3, 2, 1), (1 << 40, 3, 2, 1), (0, 3, 0, 1), (0, 0, 1, 1), (0, 3, 2, 0)])
def test_releases_that_no_agent_can_have_made_are_refused(
    release: tuple[int, int, int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Release, "__post_init__", lambda _: None)
    data = whole(state((Charged(Release(*release), 5),)))
    monkeypatch.undo()
    (tmp_path / DATABASE).write_bytes(data)
    with pytest.raises(StateUnusable, match="is damaged"):
        read_state(tmp_path)


def a_pipe(place: Path) -> None:
    os.mkfifo(place / DATABASE)


def a_link(place: Path) -> None:
    (place / "elsewhere").write_bytes(whole(state()))
    (place / DATABASE).symlink_to(place / "elsewhere")


def far_too_long(place: Path) -> None:
    (place / DATABASE).touch()
    os.truncate(place / DATABASE, LONGEST + 1)


@pytest.mark.parametrize("hostile", [a_pipe, a_link, far_too_long])
def test_what_is_no_plain_file_of_some_size_is_not_read(hostile: Callable[[Path], None], tmp_path: Path) -> None:
    hostile(tmp_path)
    with pytest.raises(StateUnusable, match="cannot read the state"):
        read_state(tmp_path)


def database(place: Path, script: str) -> None:
    with sqlite3.connect(place / DATABASE) as made:
        made.executescript(script)
    made.close()


ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT 'a' || x, '1' FROM r"
TABLES = "CREATE TABLE about (a, b); CREATE TABLE state (a); CREATE TABLE releases (number);"


@pytest.mark.parametrize(
    "script",
    [
        f"CREATE VIEW about AS {ENDLESS}; CREATE TABLE state (a); CREATE TABLE releases (number);",
        TABLES + "CREATE TRIGGER t AFTER INSERT ON about BEGIN SELECT 1; END;",
        "CREATE TABLE about (a, b AS (zeroblob(1000000000))); CREATE TABLE state (a); CREATE TABLE releases (number);"
        "INSERT INTO about (a) VALUES ('x');",
        TABLES + "INSERT INTO about VALUES ('x', '" + "[" * 50_000 + "');",
        TABLES + "INSERT INTO about VALUES ('format', '1'), (1, 2), ('agent', NULL);",  # noqa: S608
        TABLES + "INSERT INTO about VALUES ('format', '1'), ('agent', '3'), ('arms', '20000000');",  # noqa: S608
        "CREATE TABLE something (else_);",
    ],
)
def test_a_database_that_is_more_than_tables_of_a_state_is_refused(script: str, tmp_path: Path) -> None:
    database(tmp_path, script)
    with pytest.raises(StateUnusable):
        read_state(tmp_path)


def test_a_lock_or_a_log_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    database(tmp_path, TABLES)
    os.mkfifo(tmp_path / f"{DATABASE}-wal")
    with pytest.raises(StateUnusable):
        read_state(tmp_path)
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(StateUnusable):
        read_state(tmp_path)


def test_an_agent_keeps_its_state_through_no_link_and_in_no_directory_of_another_user(tmp_path: Path) -> None:
    identity = {name: value for name, value in ABOUT.items() if name not in {"run", "arms", "incarnation"}}
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for name in (DATABASE, "lock"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).symlink_to(precious)
        with pytest.raises(StateUnusable, match="cannot keep state"):
            StateJournal.open(tmp_path / name, identity)
    if os.geteuid() == 0:
        (tmp_path / "theirs").mkdir()
        os.chown(tmp_path / "theirs", 65_534, 65_534)
        with pytest.raises(StateUnusable, match="belongs to another user"):
            StateJournal.open(tmp_path / "theirs", identity)
        assert list((tmp_path / "theirs").iterdir()) == []
    assert precious.read_text() == "precious"

"""States that agents of an earlier version left on disk: they are read, and the agents go on as they would have.

`old_states/` was made by commit 49aef1d, the last before turns: an agent with id 3, two arms, γ = 2, ε = 3, a budget of
3.5 and seed 1 played twelve trials, each rewarded by the parity of the trial before it, and died with its thirteenth
pull intended. The .sql is what was on disk; the .json is what that version did in eight trials more.

Those states were SQLite databases (schema 1). They are migrated when an agent takes them up, and read as they are by
whoever only reads.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import sqlite3
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from agentd import __version__
from agentd.core.agent import Agent
from agentd.core.assembly import assemble
from agentd.core.grid import UNIT
from agentd.core.policy.coins import KeyedCoins
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.saved_state import SavedState
from agentd.core.terms import Terms
from agentd.errors import StateUnusable
from agentd.settings import AgentSettings
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.keeper import state_identity
from agentd.shell.state.reader import DATABASE, read_state
from agentd.shell.state.state_file import BLOCK, SCHEMA, found_in, header, schema_of

STATES = Path(__file__).parent / "old_states"
ALGORITHMS = ("private-ucb", "dp-ucb-int", "sealed")


def settings(algorithm: str) -> AgentSettings:
    return AgentSettings(
        id=3,
        listen="tcp://127.0.0.1:7003",
        environment="tcp://127.0.0.1:7000",
        algorithm=algorithm,
        epsilon=3.0,
        epsilon_budget=3.5,
        seed=1,
    )


def agent_from(journal: StateJournal, algorithm: str) -> Agent:
    return assemble(
        3,
        algorithm,
        settings(algorithm).policy(2),
        Terms(2, 2).assuming(3.0, 1.1),
        noise=SeededLaplace(1, 3),
        coins=KeyedCoins(1, 3),
        trial=journal.saved.trial if journal.saved else 0,
        saved=journal.saved,
    )


def play(agent: Agent, journal: StateJournal) -> Any:
    """One trial: the arm, and what was sent."""
    intent = agent.choose()
    journal.intend(intent.trial, intent.arm)
    turn = agent.advance(UNIT * ((intent.trial - 1) % 2))
    journal.commit(turn)
    return [intent.arm, [[batch.head.tolist(), batch.body.tolist()] for batch in turn.outbox()]]


def left_behind(place: Path, algorithm: str) -> None:
    """Put the earlier agent's state into a directory."""
    database = sqlite3.connect(place / DATABASE)
    database.executescript((STATES / f"{algorithm}.sql").read_text() + "PRAGMA user_version = 1;")
    database.close()


def crashed(place: Path, algorithm: str) -> None:
    """As an earlier agent left it that died: its write-ahead log holds what it wrote last, and what it wrote before."""
    origin = place / "origin"
    origin.mkdir(parents=True)
    left_behind(origin, algorithm)
    database = sqlite3.connect(origin / DATABASE, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    (policy,) = database.execute("SELECT policy FROM state").fetchone()
    for earlier in (f'{{"raw sums of an earlier trial": {EARLIER}}}', policy):
        database.execute("UPDATE state SET policy = ?", (earlier,))
    for name in (DATABASE, f"{DATABASE}-wal"):
        shutil.copyfile(origin / name, place / name)
    database.close()
    shutil.rmtree(origin)


EARLIER = 123_456_789
"""In no state but an earlier one."""


def same(one: SavedState, other: SavedState) -> bool:
    """Whether two states mean the same; which program wrote them does not matter."""
    said = [None if state.said is None else (state.said.kind, *state.said.messages()) for state in (one, other)]
    about = [{name: value for name, value in state.about.items() if name != "program"} for state in (one, other)]
    rest = [(state.trial, state.policy, state.releases, state.refused, state.intent) for state in (one, other)]
    return said[0] == said[1] and about[0] == about[1] and rest[0] == rest[1]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_state_of_an_earlier_version_is_read_and_its_agent_goes_on_as_it_would_have(
    algorithm: str, tmp_path: Path
) -> None:
    left_behind(tmp_path, algorithm)
    journal = StateJournal.open(tmp_path, state_identity(settings(algorithm)))
    assert journal.saved is not None
    agent, refused = agent_from(journal, algorithm), journal.saved.refused
    expected = json.loads((STATES / f"{algorithm}.json").read_text())
    assert [play(agent, journal) for _ in range(8)] == expected["then"]
    assert agent.turn.state == expected["policy"]
    journal.close()
    saved = read_state(tmp_path)
    assert (saved.trial, len(saved.releases), saved.refused) == (
        20,
        expected["releases"],
        refused + expected["refused"],
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_migrated_state_is_what_today_is_written(algorithm: str, tmp_path: Path) -> None:
    before, now = tmp_path / "before", tmp_path / "now"
    before.mkdir()
    left_behind(before, algorithm)
    StateJournal.open(before, state_identity(settings(algorithm))).close()
    journal = StateJournal.open(now, state_identity(settings(algorithm)))
    agent = agent_from(journal, algorithm)
    journal.join(agent.turn, run="ab" * 8, arms=2, incarnation=0)
    for _ in range(12):
        play(agent, journal)
    journal.intend(13, agent.choose().arm)
    journal.close()
    assert same(read_state(now), read_state(before))
    assert [read_state(place).about["program"] for place in (before, now)] == [__version__] * 2
    assert [path.stat().st_size for path in (before / DATABASE, now / DATABASE)] == [
        (now / DATABASE).stat().st_size
    ] * 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_reading_does_not_migrate(algorithm: str, tmp_path: Path) -> None:
    crashed(tmp_path, algorithm)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert read_state(tmp_path).trial == 12
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nothing_that_an_earlier_version_had_written_over_outlives_the_migration(
    algorithm: str, tmp_path: Path
) -> None:
    crashed(tmp_path, algorithm)
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert str(EARLIER).encode() in written
    StateJournal.open(tmp_path, state_identity(settings(algorithm))).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [DATABASE, "lock"]
    left = (tmp_path / DATABASE).read_bytes()
    assert str(EARLIER).encode() not in left
    assert struct.pack("<q", EARLIER) not in left
    assert b"SQLite" not in left


STEPS = {"connect", "execute", "close", "open", "pwrite", "fsync", "fdatasync", "replace", "rename", "unlink"}
"""Calls that reach for the disk."""


def migrated_up_to(step: int, place: Path, algorithm: str) -> bool:
    """Take up a state in a process of its own that dies at a step; whether it came to the end."""
    child = os.fork()
    if not child:
        left = step

        def at(frame: object, event: str, called: Any) -> None:
            nonlocal left
            if event == "c_call" and called.__name__ in STEPS:
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(at)
        StateJournal.open(place, state_identity(settings(algorithm)))
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code == 0


def test_a_migration_that_dies_anywhere_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    algorithm, origin, schemas, step = "private-ucb", tmp_path / "origin", set(), 0
    crashed(origin, algorithm)
    expected = read_state(origin)
    while True:
        place = tmp_path / str(step)
        shutil.copytree(origin, place)
        done = migrated_up_to(step, place, algorithm)
        schemas.add((place / DATABASE).read_bytes()[:6])
        assert same(read_state(place), expected)
        journal = StateJournal.open(place, state_identity(settings(algorithm)))
        assert journal.saved is not None
        assert same(journal.saved, expected)
        journal.close()
        assert sorted(path.name for path in place.iterdir()) == [DATABASE, "lock"]
        if done:
            break
        step += 1
    assert step > 10
    assert schemas == {b"SQLite", b"agentd"}


def test_an_earlier_state_that_never_joined_a_run_is_an_empty_place(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / DATABASE)
    database.execute("PRAGMA user_version = 1")
    database.close()
    with pytest.raises(StateUnusable, match="has not joined a run yet"):
        read_state(tmp_path)
    journal = StateJournal.open(tmp_path, state_identity(settings("sealed")))
    assert journal.saved is None
    journal.close()


def test_the_state_of_another_agent_is_not_migrated(tmp_path: Path) -> None:
    left_behind(tmp_path, "sealed")
    with pytest.raises(StateUnusable, match="algorithm sealed, not private-ucb"):
        StateJournal.open(tmp_path, state_identity(settings("private-ucb")))
    assert (tmp_path / DATABASE).read_bytes().startswith(b"SQLite")


def test_a_damaged_earlier_state_is_refused(tmp_path: Path) -> None:
    left_behind(tmp_path, "sealed")
    database = sqlite3.connect(tmp_path / DATABASE)
    database.execute("UPDATE releases SET value = 0 WHERE number = 1")
    database.commit()
    database.close()
    for use in (read_state, lambda place: StateJournal.open(place, state_identity(settings("sealed")))):
        with pytest.raises(StateUnusable, match=r"is damaged \(release 1 is missing or was altered\)"):
            use(tmp_path)


def test_a_state_of_a_later_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    left_behind(tmp_path, "sealed")
    StateJournal.open(tmp_path, state_identity(settings("sealed"))).close()
    data = bytearray((tmp_path / DATABASE).read_bytes())
    data[16:24] = struct.pack("<Q", SCHEMA + 1)
    (tmp_path / DATABASE).write_bytes(data)
    for use in (read_state, lambda place: StateJournal.open(place, state_identity(settings("sealed")))):
        with pytest.raises(
            StateUnusable, match=rf"has schema {SCHEMA + 1}, .* knows schemas up to {SCHEMA}"
        ) as refused:
            use(tmp_path)
        assert refused.value.exit_code == 78
    assert (tmp_path / DATABASE).read_bytes() == data


def test_the_program_that_wrote_the_state_up_to_49aef1d_refuses_what_is_written_today(tmp_path: Path) -> None:
    """It opens the same name as a SQLite database, and says that it is damaged."""
    left_behind(tmp_path, "sealed")
    StateJournal.open(tmp_path, state_identity(settings("sealed"))).close()
    data = (tmp_path / DATABASE).read_bytes()
    database = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    with pytest.raises(sqlite3.DatabaseError, match="file is not a database"):
        database.execute("PRAGMA journal_mode = WAL")
    database.close()
    assert (tmp_path / DATABASE).read_bytes() == data


def test_the_newest_program_puts_its_name_under_a_state_that_it_takes_up(tmp_path: Path) -> None:
    left_behind(tmp_path, "sealed")
    StateJournal.open(tmp_path, state_identity(settings("sealed"))).close()
    data = (tmp_path / DATABASE).read_bytes()
    held = found_in(data)
    earlier = header({**held.about}, held.layout, program="0.0.9")
    (tmp_path / DATABASE).write_bytes(earlier + data[BLOCK:])
    assert read_state(tmp_path).about["program"] == "0.0.9"
    StateJournal.open(tmp_path, state_identity(settings("sealed"))).close()
    assert read_state(tmp_path).about["program"] == __version__
    assert (tmp_path / DATABASE).read_bytes() == data


def left_in_schema_2(place: Path, algorithm: str) -> bytes:
    """What commit b5bccd8 made of the same state, whose digests left out what the state is about."""
    text = (STATES / f"{algorithm}.schema-2.b85").read_text().replace("\n", "")
    data = zlib.decompress(base64.b85decode(text))
    (place / DATABASE).write_bytes(data)
    return data


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_state_of_schema_2_is_read_as_it_is_and_taken_up_as_one_of_today(algorithm: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    data = left_in_schema_2(old, algorithm)
    left_behind(new, algorithm)
    before = read_state(old)
    assert same(before, read_state(new))
    assert (old / DATABASE).read_bytes() == data, "reading changes nothing"
    journal = StateJournal.open(old, state_identity(settings(algorithm)))
    agent = agent_from(journal, algorithm)
    written = (old / DATABASE).read_bytes()
    assert (schema_of(data), schema_of(written)) == (2, SCHEMA)
    assert same(read_state(old), before)
    expected = json.loads((STATES / f"{algorithm}.json").read_text())
    assert [play(agent, journal) for _ in range(8)] == expected["then"]
    journal.close()

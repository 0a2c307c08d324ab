"""Who holds which seat, in memory and in the journal."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentd.environment.seat_journal import NAME, SeatJournal
from agentd.environment.seating import SeatChange, SeatEvent, Seating
from agentd.errors import AgentdError, ConfigurationError
from agentd.runs.seats import seat_hash

RUN = bytes.fromhex("00112233445566ff")
MINE, OTHER = b"m" * 16, b"o" * 16
HEADER, RECORD = 32, 48
EVENTS = [
    SeatEvent(SeatChange.TAKEN, 3, 0, seat_hash(RUN, 3, MINE)),
    SeatEvent(SeatChange.RETURNED, 3, 40),
    SeatEvent(SeatChange.TAKEN, 65535, 0, seat_hash(RUN, 65535, OTHER)),
    SeatEvent(SeatChange.RELEASED, 3, 41),
]


def taken(agent: int = 3) -> Seating:
    seating = Seating(RUN)
    seating.take(agent, MINE, 0)
    return seating


# --- holders


def test_the_first_token_takes_a_seat_and_no_other_does() -> None:
    seating = taken()
    assert seating.holds(3, MINE)
    assert not seating.holds(3, OTHER)
    assert not seating.may_take(3, OTHER)
    assert seating.take_fresh() == [SeatEvent(SeatChange.TAKEN, 3, 0, seat_hash(RUN, 3, MINE))]
    seating.take(3, MINE, 7)
    assert seating.take_fresh() == [], "who holds it already changes nothing"


def test_nobody_holds_a_seat_that_nobody_took() -> None:
    assert not Seating(RUN).holds(3, MINE)
    assert Seating(RUN).may_take(3, MINE)


def test_a_restored_seat_is_held_by_whoever_shows_its_token() -> None:
    seating = Seating(RUN)
    seating.restore(EVENTS[0])
    assert not seating.holds(3, OTHER)
    assert seating.holds(3, MINE)
    assert seating.holds(3, MINE), "also without the hash"
    assert not seating.holds(3, OTHER)


def test_a_released_seat_is_free_and_the_token_of_before_is_worth_nothing() -> None:
    seating = taken()
    assert seating.holds(3, MINE)
    seating.release(3, 41)
    assert not seating.holds(3, MINE)
    assert seating.may_take(3, OTHER)
    seating.take(3, OTHER, 41)
    assert seating.holds(3, OTHER)
    assert not seating.may_take(3, MINE)
    assert [event.change for event in seating.take_fresh()] == [
        SeatChange.TAKEN,
        SeatChange.RELEASED,
        SeatChange.TAKEN,
    ]


def test_releasing_a_free_seat_changes_nothing() -> None:
    seating = Seating(RUN)
    seating.release(3, 0)
    assert seating.take_fresh() == []


def test_hashes_that_were_handed_over_hold_their_seats_unless_something_happened_to_these() -> None:
    seating = taken(agent=1)
    seating.take(2, MINE, 0)
    seating.release(2, 5)
    hashes = {agent: seat_hash(RUN, agent, OTHER) for agent in (0, 1, 2)}
    assert seating.reserve(hashes) == 2
    assert [seating.holds(agent, OTHER) for agent in (0, 1, 2)] == [True, False, False]
    assert seating.holds(1, MINE)
    assert seating.may_take(2, MINE)


# --- lives


def test_everybody_begins_with_incarnation_0_and_returns_after_so_many_trials() -> None:
    seating = Seating(RUN)
    assert seating.incarnation_of(3) == 0
    assert seating.renew(3, 0) == 0, "nothing was pulled: it is the same life"
    assert seating.take_fresh() == []
    assert seating.renew(3, 40) == 40
    assert seating.renew(3, 40) == 40, "the same hello again"
    assert seating.take_fresh() == [SeatEvent(SeatChange.RETURNED, 3, 40)]
    assert seating.lives_since(0) == (1, ((3, 40),))


def test_lives_are_told_in_the_order_of_their_changes_and_the_newest_of_each_agent_only() -> None:
    seating = Seating(RUN)
    for agent, trials in ((3, 10), (7, 20), (3, 30), (5, 40)):
        seating.renew(agent, trials)
    assert seating.lives_since(0) == (4, ((7, 20), (3, 30), (5, 40)))
    assert seating.lives_since(2) == (4, ((3, 30), (5, 40)))
    assert seating.lives_since(4) == (4, ())
    assert seating.lives_since(9) == (4, ((7, 20), (3, 30), (5, 40))), "more than has happened: tell all"


def test_lives_beyond_64_are_told_next_time() -> None:
    seating = Seating(RUN)
    for agent in range(150):
        seating.renew(agent, 1 + agent)
    seating.renew(0, 500)
    known, heard, notes = 0, [], 0
    while known < seating.returns:
        known, lives = seating.lives_since(known)
        assert len(lives) <= 64
        heard += lives
        notes += 1
    assert notes == 3
    assert heard == [*((agent, 1 + agent) for agent in range(1, 150)), (0, 500)]


# --- the journal


@contextmanager
def opened(directory: Path, *, begin: bool = False) -> Iterator[SeatJournal]:
    journal = SeatJournal.open(directory)
    try:
        if begin:
            journal.begin(RUN)
        yield journal
    finally:
        journal.close()


def write(directory: Path, events: list[SeatEvent] = EVENTS) -> Path:
    with opened(directory, begin=True) as journal:
        journal.append(events)
    return directory / NAME


def read(directory: Path) -> tuple[list[SeatEvent], int]:
    with opened(directory) as journal:
        return journal.read(RUN)


def test_changes_written_down_are_read_back_by_their_owner_only(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert read(tmp_path) == (EVENTS, 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_is_laid_out_as_its_module_says(tmp_path: Path) -> None:
    content = write(tmp_path, EVENTS[:1]).read_bytes()
    assert content[:HEADER] == b"agentdSJ" + struct.pack("<II", 1, RECORD) + RUN + bytes(8)
    assert struct.unpack("<HH4xQ32s", content[HEADER:]) == (1, 3, 0, EVENTS[0].digest)


def test_no_token_is_ever_written(tmp_path: Path) -> None:
    seating = taken()
    seating.renew(3, 40)
    assert MINE not in write(tmp_path, seating.take_fresh()).read_bytes()


def test_changes_are_on_the_disk_when_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, begin=True) as journal:
        synced: list[int] = []
        really = os.fsync
        monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size) or really(fd))
        journal.append(EVENTS)
        assert synced == [HEADER + len(EVENTS) * RECORD], "one for all of them"


@pytest.mark.parametrize("torn", range(1, RECORD))
def test_a_torn_last_record_is_cut_off_and_the_journal_goes_on(tmp_path: Path, torn: int) -> None:
    path = write(tmp_path)
    with path.open("r+b") as file:
        file.truncate(HEADER + 3 * RECORD + torn)
    assert read(tmp_path) == (EVENTS[:3], torn)
    with opened(tmp_path) as journal:
        journal.append(EVENTS[3:])
    assert read(tmp_path) == (EVENTS, 0)


@pytest.mark.parametrize("zeros", [4, RECORD, 3 * RECORD + 5])
def test_zeros_that_a_power_cut_left_at_the_end_are_cut_off(tmp_path: Path, zeros: int) -> None:
    path = write(tmp_path)
    with path.open("ab") as file:
        file.write(bytes(zeros))
    assert read(tmp_path) == (EVENTS, zeros)


@pytest.mark.parametrize("offset", range(HEADER, HEADER + 2 * RECORD))
def test_a_changed_byte_anywhere_in_the_records_is_noticed(tmp_path: Path, offset: int) -> None:
    path = write(tmp_path)
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x41
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"seats\.journal is damaged: record \d is not what was written"):
        read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"agentdSJ", b"agentdPJ" + bytes(24)])
def test_what_is_no_journal_of_this_run_is_refused(tmp_path: Path, content: bytes) -> None:
    write(tmp_path).write_bytes(content)
    with pytest.raises(ConfigurationError, match="it is not the journal of this run") as fault:
        read(tmp_path)
    assert fault.value.exit_code == 78


def test_a_full_disk_is_told_before_a_welcome_could_leave(tmp_path: Path) -> None:
    journal = SeatJournal(tmp_path / NAME, os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(AgentdError, match=r"cannot append to .*No space left"):
        journal.append(EVENTS)
    journal.close()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        SeatJournal.open(tmp_path)
    assert not (tmp_path / "elsewhere").exists()

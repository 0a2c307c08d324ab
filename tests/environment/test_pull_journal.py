"""Nothing pulled is forgotten, nothing is counted twice, and what somebody else changed is not trusted."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from env_clients import hello, pull
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.environment.pull_journal import NAME, PullJournal, replay
from agentd.environment.run_terms import RunTerms, declared
from agentd.environment.shared_bandit import Counted, SharedBandit
from agentd.errors import AgentdError, ConfigurationError
from agentd.runs.arms import Arms, uniforms
from agentd.wire.environment_messages import Reward

RUN = bytes.fromhex("00112233445566ff")
ARMS = Arms.fixed((0.9, 0.5))
HEADER, RECORD = 32, 16


def fresh_bandit(rounds: int | None = None) -> SharedBandit:
    return SharedBandit(RunTerms(agreed=declared(RUN, ARMS.count, None, rounds), seed=7, arms=ARMS))


def pulls_of(agent: int, arms: list[int], first: int = 1) -> list[Counted]:
    drawn = uniforms(7, agent, first, len(arms)).tolist()
    return [
        (agent, trial, arm, ARMS.deal_one(arm, u))
        for trial, (arm, u) in enumerate(zip(arms, drawn, strict=True), start=first)
    ]


@contextmanager
def opened(directory: Path, *, begin: bool = False) -> Iterator[PullJournal]:
    journal = PullJournal.open(directory)
    try:
        if begin:
            journal.begin(RUN)
        yield journal
    finally:
        journal.close()


def write(directory: Path, *batches: list[Counted]) -> Path:
    with opened(directory, begin=True) as journal:
        for batch in batches:
            journal.append(batch)
    return directory / NAME


def replayed(directory: Path) -> tuple[SharedBandit, int]:
    bandit = fresh_bandit()
    with opened(directory) as journal:
        torn = replay(journal, bandit)
    return bandit, torn


def complaint_about(directory: Path) -> str:
    with pytest.raises(ConfigurationError) as fault:
        replayed(directory)
    assert fault.value.exit_code == 78
    assert "is damaged" in str(fault.value)
    return str(fault.value)


def test_pulls_written_down_are_read_back(tmp_path: Path) -> None:
    write(tmp_path, pulls_of(3, [0, 1]), pulls_of(0, [1]), pulls_of(3, [1], first=3))
    bandit, torn = replayed(tmp_path)
    assert torn == 0
    assert bandit.rows == [0, 3]
    assert bandit.matrix()[0].tolist() == [[1, 65535, 65535], [0, 1, 1]]


def test_the_file_is_laid_out_as_its_module_says(tmp_path: Path) -> None:
    content = write(tmp_path, [(3, 7, 1, 1048576)]).read_bytes()
    assert content[:HEADER] == b"agentdPJ" + struct.pack("<II", 1, RECORD) + RUN + bytes(8)
    assert struct.unpack("<IIH2xI", content[HEADER:]) == (3, 7, 1, 1048576)


def test_an_empty_batch_writes_nothing(tmp_path: Path) -> None:
    assert write(tmp_path, []).stat().st_size == HEADER


def test_a_batch_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: writes.append(len(data)) or real(fd, data))
    write(tmp_path, pulls_of(0, [0, 1, 0, 1]))
    assert writes == [HEADER, 4 * RECORD]


def test_a_write_that_the_system_cuts_short_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:5]))
    write(tmp_path, pulls_of(0, [0, 1]))
    assert replayed(tmp_path)[0].pulls == 2


def test_a_full_disk_is_told_before_a_reply_could_leave(tmp_path: Path) -> None:
    journal = PullJournal(tmp_path / NAME, os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(AgentdError, match=r"cannot append to .*No space left") as fault:
        journal.append(pulls_of(0, [0]))
    assert fault.value.exit_code == 1
    os.close(journal._descriptor)


@pytest.mark.parametrize("torn", range(1, RECORD))
def test_a_torn_last_record_is_cut_off_and_the_journal_goes_on(tmp_path: Path, torn: int) -> None:
    path = write(tmp_path, pulls_of(0, [0, 1, 1]))
    with path.open("r+b") as file:
        file.truncate(HEADER + 2 * RECORD + torn)
    bandit, cut = replayed(tmp_path)
    assert (bandit.pulls, cut) == (2, torn)
    with opened(tmp_path) as journal:
        journal.append(pulls_of(0, [0], first=3))
    bandit, cut = replayed(tmp_path)
    assert (bandit.pulls, cut) == (3, 0)


@pytest.mark.parametrize("zeros", [4, RECORD, 3 * RECORD + 5])
def test_zeros_that_a_power_cut_left_at_the_end_are_cut_off(tmp_path: Path, zeros: int) -> None:
    path = write(tmp_path, pulls_of(0, [0, 1]))
    with path.open("ab") as file:
        file.write(bytes(zeros))
    assert replayed(tmp_path)[0].pulls == 2
    assert path.stat().st_size == HEADER + 2 * RECORD


@pytest.mark.parametrize("offset", range(HEADER, HEADER + 2 * RECORD))
def test_a_changed_byte_anywhere_in_the_records_is_noticed(tmp_path: Path, offset: int) -> None:
    path = write(tmp_path, pulls_of(5, [0, 1, 1]))
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x41
    path.write_bytes(content)
    assert "is not what was written" in complaint_about(tmp_path)


@pytest.mark.parametrize("offset", [0, 8, 12, 16])
def test_a_changed_header_is_noticed(tmp_path: Path, offset: int) -> None:
    path = write(tmp_path, pulls_of(0, [0]))
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    assert "not the journal of this run" in complaint_about(tmp_path)


def test_a_journal_shorter_than_its_header_is_damaged(tmp_path: Path) -> None:
    write(tmp_path).write_bytes(b"agentdPJ")
    assert "not the journal of this run" in complaint_about(tmp_path)


@pytest.mark.parametrize(
    "pulls",
    [pulls_of(0, [0, 1])[1:], pulls_of(0, [0, 1])[::-1], pulls_of(0, [0]) * 2],
    ids=["a trial is missing", "trials are swapped", "a trial is there twice"],
)
def test_records_that_are_sound_but_out_of_order_are_noticed(tmp_path: Path, pulls: list[Counted]) -> None:
    write(tmp_path, pulls)
    assert "the trials of agent 0 are not" in complaint_about(tmp_path)


def test_rewards_of_another_seed_are_noticed(tmp_path: Path) -> None:
    agent, trial, arm, reward = pulls_of(0, [0])[0]
    write(tmp_path, [(agent, trial, arm, (1 << 20) - reward)])
    assert "not those of this run's seed" in complaint_about(tmp_path)


def test_one_directory_serves_one_environment_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(ConfigurationError, match="another environment service is using"):
        PullJournal.open(tmp_path)
    with opened(tmp_path) as journal:
        assert journal.size == 0


def test_a_journal_that_holds_pulls_is_never_begun_again(tmp_path: Path) -> None:
    write(tmp_path, pulls_of(0, [0]))
    with pytest.raises(ConfigurationError, match=r"environment\.json beside it is missing"):
        write(tmp_path)
    assert replayed(tmp_path)[0].pulls == 1


def test_a_beginning_that_was_interrupted_is_made_again(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"agen")
    write(tmp_path, pulls_of(0, [0]))
    assert replayed(tmp_path)[0].pulls == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=8), max_size=6),
    st.integers(0, RECORD - 1),
)
def test_a_bandit_read_back_from_any_journal_is_the_one_that_wrote_it(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, int]]], torn: int
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    bandit = fresh_bandit()
    with opened(directory, begin=True) as journal:
        for agent in {agent for batch in batches for agent, _ in batch}:
            bandit.answer(hello(agent), 0.0)
        for batch in batches:
            for agent, arm in batch:
                trial = bandit.seats[agent].next_trial
                assert isinstance(bandit.answer(pull(agent, trial, arm), 0.0), Reward)
            journal.append(bandit.take_fresh())
    with (directory / NAME).open("ab") as file:
        file.write(b"\x07" * torn)
    again, cut = replayed(directory)
    assert cut == torn
    assert again.rows == bandit.rows
    for mine, theirs in zip(bandit.matrix(), again.matrix(), strict=True):
        assert np.array_equal(mine, theirs)


def test_a_journal_that_no_such_run_can_have_filled_is_not_read_into_memory(tmp_path: Path) -> None:
    """A terabyte that takes no room on the disk that it was sent on."""
    bandit = SharedBandit(RunTerms(agreed=declared(RUN, ARMS.count, 2, 5), seed=7, arms=ARMS))
    with opened(tmp_path, begin=True) as journal:
        os.truncate(tmp_path / NAME, 1 << 40)
        with pytest.raises(ConfigurationError, match="longer than 2 agents can have made it in 5 rounds"):
            replay(journal, bandit)


def test_a_journal_is_its_owners_only_and_no_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / NAME).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        PullJournal.open(tmp_path)
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).touch(mode=0o644)
    with opened(tmp_path, begin=True):
        assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "precious").read_text() == "precious"

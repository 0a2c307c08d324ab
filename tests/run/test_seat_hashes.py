"""The hashes of seats, and the file in which a launcher hands them over."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest

from agentd.errors import ConfigurationError
from agentd.runs.seats import read_seats, seat_hash, write_seats

RUN, TOKEN = bytes(range(8)), bytes(range(16))


def test_a_hash_is_of_one_token_one_agent_and_one_run() -> None:
    assert seat_hash(RUN, 3, TOKEN) == hashlib.sha256(b"agentd seat 1" + RUN + b"\x03\x00" + TOKEN).digest()
    others = {seat_hash(RUN, 4, TOKEN), seat_hash(bytes(8), 3, TOKEN), seat_hash(RUN, 3, bytes(16))}
    assert len(others | {seat_hash(RUN, 3, TOKEN)}) == 4


def test_seats_come_back_from_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    hashes = {agent: seat_hash(RUN, agent, TOKEN) for agent in (7, 0, 65535)}
    write_seats(tmp_path / "seats.jsonl", hashes)
    assert read_seats(tmp_path / "seats.jsonl") == hashes
    assert stat.S_IMODE((tmp_path / "seats.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "line",
    [
        *("", "{", "[]", "3", '{"agent": 3}', '{"agent": true, "sha256": "HEX"}', '{"agent": 65536, "sha256": "HEX"}'),
        *('{"agent": 3, "sha256": "00"}', '{"agent": 3, "sha256": 5}', '{"agent": "3", "sha256": "HEX"}'),
    ],
)
def test_what_is_no_seat_is_refused_with_its_line(line: str, tmp_path: Path) -> None:
    good = f'{{"agent": 1, "sha256": "{"00" * 32}"}}'
    (tmp_path / "seats").write_text(f"{good}\n{line.replace('HEX', '00' * 32)}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="line 2 is not of the form"):
        read_seats(tmp_path / "seats")


def test_an_agent_has_one_seat(tmp_path: Path) -> None:
    (tmp_path / "seats").write_text(f'{{"agent": 1, "sha256": "{"00" * 32}"}}\n' * 2, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="line 2 names agent 1 again"):
        read_seats(tmp_path / "seats")
    with pytest.raises(ConfigurationError, match="No such file"):
        read_seats(tmp_path / "nothing")

"""The secret of a seat is where the agent finds it again, before anybody hears of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from agentd.errors import ConfigurationError
from agentd.settings import AgentSettings
from agentd.shell.state.seat_file import seat_token, write_seat


def settings(**changes: Any) -> AgentSettings:
    usual = {"id": 3, "listen": "tcp://127.0.0.1:7003", "environment": "tcp://127.0.0.1:7000"}
    return AgentSettings(**(usual | changes))


def test_it_is_drawn_once_and_found_again(tmp_path: Path) -> None:
    place = tmp_path / "seats" / "agent-3"
    token = seat_token(settings(seat=str(place)))
    assert len(token) == 16
    assert seat_token(settings(seat=str(place))) == token
    assert place.read_text() == f"{token.hex()}\n"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert [path.name for path in place.parent.iterdir()] == ["agent-3"]


def test_it_is_beside_the_state_unless_it_has_a_place_of_its_own(tmp_path: Path) -> None:
    state, other = tmp_path / "state", tmp_path / "other"
    beside = seat_token(settings(state=str(state)))
    assert (state / "seat").read_text() == f"{beside.hex()}\n"
    assert seat_token(settings(state=str(state), seat=str(other))) != beside
    assert other.exists()


def test_without_a_place_it_is_another_every_time() -> None:
    assert seat_token(settings()) != seat_token(settings())


def test_it_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a machine that loses power leaves behind is the token, or nothing."""
    seen: list[tuple[int, bool]] = []
    really = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: seen.append((os.fstat(fd).st_size, (tmp_path / "seat").exists())) or really(fd)
    )
    write_seat(tmp_path / "seat", bytes(16))
    assert seen[0] == (33, False)
    assert seen[1][1], "then the directory, with the name in it"


def test_what_an_interrupted_agent_left_is_not_taken_for_a_token(tmp_path: Path) -> None:
    (tmp_path / "seat.new").write_text("0123")
    token = seat_token(settings(seat=str(tmp_path / "seat")))
    assert (tmp_path / "seat").read_text() == f"{token.hex()}\n"
    assert not (tmp_path / "seat.new").exists()


@pytest.mark.parametrize("text", ["", "\n", "00" * 15, "00" * 17, "zz" * 16, "é" * 16, "00" * 1000])
def test_what_is_no_token_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "seat").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"is damaged: .*agentd env release 3") as fault:
        seat_token(settings(seat=str(tmp_path / "seat")))
    assert fault.value.exit_code == 78


def test_a_place_that_cannot_be_read_or_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read the seat in .*: Is a directory"):
        seat_token(settings(seat=str(tmp_path)))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot (read|write) the seat .*: Not a directory"):
        seat_token(settings(seat=str(tmp_path / "file" / "seat")))

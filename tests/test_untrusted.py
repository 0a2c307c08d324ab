"""What others may have written is read in bounded time and room, or refused; and it drives no terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from other_user import NOBODY

from agentd.untrusted import decode_json, open_in, printable, printable_lines, read_in, read_json_in, read_named


def test_a_plain_file_is_read_wherever_it_lies_inside(tmp_path: Path) -> None:
    (tmp_path / "logs" / "agent-0").mkdir(parents=True)
    (tmp_path / "logs" / "agent-0" / "x").write_text('{"a": [1]}')
    assert read_json_in(tmp_path, "logs/agent-0/x") == {"a": [1]}


def test_nothing_is_waited_for_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").write_text("{}")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "there" / "x")
    (tmp_path / "room").symlink_to(tmp_path / "there")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "link", "room/x", "device", "there", "nothing"):
        with pytest.raises(OSError):  # noqa: PT011 - the kernel's words differ
            open_in(tmp_path, name)
    with pytest.raises(ValueError, match="it is not a file"):
        read_named(tmp_path / "pipe", 10)
    assert read_named(tmp_path / "link", 10) == b"{}", "an operator may name a file by a link"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_belongs_to_us_or_to_the_owner_of_its_directory(tmp_path: Path) -> None:
    (tmp_path / "lent").mkdir()
    for place in (tmp_path / "lent" / "x", tmp_path / "x"):
        place.write_text("{}")
        os.chown(place, NOBODY, NOBODY)
    with pytest.raises(OSError, match="owner"):
        read_in(tmp_path, "x")
    with pytest.raises(OSError, match="owner"):
        read_in(tmp_path, "lent/x")
    os.chown(tmp_path / "lent", NOBODY, NOBODY)
    assert read_in(tmp_path, "lent/x") == b"{}"


def test_a_file_that_is_too_long_is_refused_before_its_memory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    os.truncate(tmp_path / "x", 1 << 40)
    with pytest.raises(ValueError, match="longer than"):
        read_in(tmp_path, "x")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[" * 33 + b"]" * 33, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" + b"[]," * 1_000_000 + b"1]", "more than 1000000 values"),
        (b"[" + b"1," * 1_000_001 + b"1]", "more than 1000000 values"),
        (b"\xff\xfe[\x001\x00]\x00", "not text in UTF-8"),
        (b"1" * 5_000, "integer string"),
        (b"", "Expecting value"),
    ],
)
def test_json_that_is_deep_or_broad_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode_json(content)


def test_json_as_deep_as_it_may_be_is_read() -> None:
    assert decode_json(b"[" * 32 + b"]" * 32)


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b2J", "\x07", "\r", "\u202e", "\u2066", "\u200b", "\ud800", "\u2028"])
def test_text_for_people_drives_no_terminal(text: str) -> None:
    assert printable(f"a{text}b").isprintable()
    assert printable_lines(f"a\n{text}b").split("\n")[0] == "a"
    assert printable("ε = 1 für 世界") == "ε = 1 für 世界"

"""What was done to a run on purpose, as it is written down and read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentd.runs.fault_log import FILE, Fault, append, read_events, read_faults


def test_what_is_written_down_is_read_again_as_a_fault_and_as_an_event(tmp_path: Path) -> None:
    written = append(tmp_path, 7, Fault("kill", "agent 3 killed", (3,)))
    assert read_faults(tmp_path) == [written]
    assert read_events(tmp_path) == [(7, "agent 3 killed")]


def test_only_lines_that_describe_a_fault_are_events(tmp_path: Path) -> None:
    path = tmp_path / FILE
    assert read_events(tmp_path) == []
    os.mkfifo(path)
    assert read_events(tmp_path) == [], "what is no file is not waited for"
    path.unlink()
    lines = [
        '{"round": 3, "what": "x"}',
        "[1]",
        '{"round": "a", "what": "x"}',
        "{}",
        '{"round": Infinity, "what": "x"}',
        "\udcff",
        '{"round": 1, "what": 2}',
        '{"round": -1, "what": "x"}',
        '{"round": 1e3, "what": "x"}',
        '{"round": 4, "what": "\\u001b[2Jgone \\u202ebackwards"}',
        '{"round": 5, "what": ' + "[" * 900 + "]" * 900 + "}",
        f'{{"round": 6, "what": "{"x" * 70_000}"}}',
    ]
    path.write_text("\n".join(lines), encoding="utf-8", errors="surrogateescape")
    assert read_events(tmp_path) == [(3, "x"), (4, "?[2Jgone ?backwards")]


def test_a_log_that_is_a_link_or_far_too_long_is_not_read_and_a_link_is_not_written_to(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text('{"round": 3, "what": "x"}\n', encoding="utf-8")
    (tmp_path / FILE).symlink_to(precious)
    assert read_faults(tmp_path) == []
    with pytest.raises(OSError, match="symbolic links"):
        append(tmp_path, 7, Fault("kill", "agent 3 killed", (3,)))
    assert precious.read_text(encoding="utf-8").count("\n") == 1
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).touch()
    os.truncate(tmp_path / FILE, 1 << 40)
    assert read_faults(tmp_path) == []

"""What was done to a run on purpose, as it is written down and read again."""

from __future__ import annotations

import os
from pathlib import Path

from agentd.run.fault_log import FILE, Fault, append, read_events, read_faults


def test_what_is_written_down_is_read_again_as_a_fault_and_as_an_event(tmp_path: Path) -> None:
    written = append(tmp_path, 7, Fault("kill", "agent 3 killed", (3,)))
    assert read_faults(tmp_path) == [written]
    assert read_events(tmp_path / FILE) == [(7, "agent 3 killed")]


def test_only_lines_that_describe_a_fault_are_events(tmp_path: Path) -> None:
    path = tmp_path / "faults.jsonl"
    assert read_events(path) == []
    os.mkfifo(path)
    assert read_events(path) == [], "what is no file is not waited for"
    path.unlink()
    lines = [
        '{"round": 3, "what": "x"}',
        "[1]",
        '{"round": "a", "what": "x"}',
        "{}",
        '{"round": Infinity, "what": "x"}',
        "\udcff",
        '{"round": 1, "what": 2}',
    ]
    path.write_text("\n".join(lines), encoding="utf-8", errors="surrogateescape")
    assert read_events(path) == [(3, "x"), (1, "2")]

"""Logs are JSON lines, in a file or on standard error, and nothing global is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import structlog
from loopback import events

from agentd.errors import ConfigurationError
from agentd.settings import LOG_LEVELS as LEVELS
from agentd.shell.json_log import open_log


def closed(log: Any) -> None:
    log._logger._file.close()


def test_every_line_is_json_with_what_was_bound_to_it(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "down" / "agent-3.jsonl"
    log = open_log(str(file), "info")
    log.bind(agent=3, run="00ff").info("ready", trial=7, who="Ünal")
    (line,) = events(file)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"agent": 3, "run": "00ff", "trial": 7, "who": "Ünal", "event": "ready", "level": "info"}
    assert "Ünal" in file.read_text(encoding="utf-8")
    closed(log)


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    for number in (1, 2):
        log = open_log(str(tmp_path / "log"), "info")
        log.info("started", number=number)
        closed(log)
    assert [line["number"] for line in events(tmp_path / "log")] == [1, 2]


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_below_the_level_is_left_out(level: str, tmp_path: Path) -> None:
    log = open_log(str(tmp_path / "log"), level)
    for name in LEVELS:
        getattr(log, name)("said", how=name)
    assert [line["how"] for line in events(tmp_path / "log")] == list(LEVELS[LEVELS.index(level) :])
    closed(log)


def test_without_a_file_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    open_log(None, "info").info("ready")
    streams = capsys.readouterr()
    assert streams.out == ""
    assert json.loads(streams.err)["event"] == "ready"


def test_an_exception_stays_on_its_line(tmp_path: Path) -> None:
    log = open_log(str(tmp_path / "log"), "info")
    try:
        raise ValueError("as a test")
    except ValueError:
        log.exception("failed")
    (line,) = events(tmp_path / "log")
    assert "ValueError: as a test" in line["exception"]
    closed(log)


def test_two_logs_of_one_process_do_not_mix(tmp_path: Path) -> None:
    before = structlog.get_config()
    first, second = (open_log(str(tmp_path / name), "info").bind(agent=name) for name in ("a", "b"))
    first.info("one")
    second.info("two")
    assert [line["agent"] for line in events(tmp_path / "a")] == ["a"]
    assert [line["agent"] for line in events(tmp_path / "b")] == ["b"]
    assert structlog.get_config() == before
    closed(first)
    closed(second)


def test_a_file_that_cannot_be_written_is_the_operators_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "file" / "deep" / "log", "Not a directory")):
        with pytest.raises(ConfigurationError) as fault:
            open_log(str(path), "info")
        assert fault.value.exit_code == 78
        assert str(fault.value) == f"cannot write the log {path}: {why}"


def test_people_read_lines_and_programs_json(tmp_path: Path) -> None:
    file = tmp_path / "log"
    log = open_log(str(file), "info", "human").bind(agent=3, run="00ff")
    log.warning("neighbour down", neighbour=1, silent_s=12.3456789)
    log.bind(role="environment").info("a \x1b[2J\nb")
    closed(log)
    first, second = file.read_text(encoding="utf-8").splitlines()
    assert first[8:] == "  WARNING  agent 3:  neighbour down  neighbour=1  silent_s=12.35"
    assert second[8:] == "           environment:  a ?[2J?b"  # what others wrote drives no terminal


def test_it_is_for_people_where_a_terminal_is_written_to(tmp_path: Path) -> None:
    """And JSON in files, whatever is on the terminal."""
    reading, terminal = os.openpty()
    shown, kept = open_log(os.ttyname(terminal), "info", "auto"), open_log(str(tmp_path / "log"), "info", "auto")
    shown.info("ready", trial=1)
    kept.info("ready", trial=1)
    assert os.read(reading, 1000).rstrip()[8:] == b"           ready  trial=1"
    assert events(tmp_path / "log")[0]["event"] == "ready"
    asked = open_log(os.ttyname(terminal), "info", "json")
    asked.info("ready")
    assert json.loads(os.read(reading, 1000))["event"] == "ready"
    for log in (shown, kept, asked):
        closed(log)
    os.close(reading)
    os.close(terminal)


def test_a_traceback_for_people_has_its_lines(tmp_path: Path) -> None:
    log = open_log(str(tmp_path / "log"), "info", "human")
    try:
        raise ValueError("odd")
    except ValueError:
        log.exception("failed")
    closed(log)
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert (lines[1], lines[-1]) == ("Traceback (most recent call last):", "ValueError: odd")

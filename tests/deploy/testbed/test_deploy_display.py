"""What an operator sees while a testbed runs."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from agentd.runs.status import AgentStatus, Status, read_status
from deploy.testbed.display import (
    Lines,
    LiveTable,
    Nothing,
    clock,
    display,
    figures,
    progress_of,
    rich_table,
    time_left,
)
from deploy.testbed.lifecycle import Phase
from deploy.testbed.supervisor import View

STATUS = Status(
    rounds=1000,
    group_regret=1234.56,
    pulls=1200,
    pulls_per_s=100.0,
    agents=(
        AgentStatus(id=0, trial=400, messages=5000, dropped=3),
        AgentStatus(id=1, trial=500, messages=6000),
        AgentStatus(id=2, trial=7, messages=1),
    ),
)
VIEW = View(phase=Phase.RUNNING, elapsed_s=75.0, agents=3, rounds=1000, down=(2,), status=STATUS)


def test_the_figures_of_a_running_testbed_are_all_there() -> None:
    assert dict(figures(VIEW)) == {
        "round": "400 of 1,000",
        "regret": "1,234.6",
        "messages": "11,001",
        "dropped": "3",
        "pulls/s": "100",
        "down": "2",
        "elapsed": "1:15",
        "left": "0:08",
    }


def test_a_testbed_that_starts_says_how_far_it_is() -> None:
    starting = replace(VIEW, phase=Phase.STARTING, down=())
    assert figures(starting)[:2] == [("phase", "starting"), ("agents", "3 of 3 in step")]
    assert dict(figures(replace(starting, status=None))) == {"phase": "starting", "agents": "3", "elapsed": "1:15"}


def test_nobody_guesses_the_end_without_a_speed() -> None:
    assert time_left(VIEW) == 8.0
    assert time_left(replace(VIEW, status=None)) is None
    assert time_left(replace(VIEW, status=replace(STATUS, pulls_per_s=0.0))) is None
    assert time_left(replace(VIEW, phase=Phase.STOPPING_AGENTS)) is None
    assert time_left(replace(VIEW, status=replace(STATUS, pulls=5000))) == 0.0


def test_of_many_that_are_down_the_first_are_named() -> None:
    assert dict(figures(replace(VIEW, down=tuple(range(3, 20)))))["down"].endswith("13, 14 and 5 more")
    assert dict(figures(replace(VIEW, down=())))["down"] == "nobody"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (7265, "2:01:05")])
def test_times_read_as_on_a_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_lines_come_no_more_often_than_they_should(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(5.0)
    for elapsed_s in (0.0, 0.2, 4.9, 5.0, 5.2, 10.1):
        lines.update(replace(VIEW, elapsed_s=elapsed_s))
    shown = capsys.readouterr().out.splitlines()
    assert [line.partition("elapsed ")[2][:4] for line in shown] == ["0:00", "0:05", "0:10"]
    assert shown[0].startswith("round 400 of 1,000  regret 1,234.6  messages 11,001")


def test_what_an_operator_should_hear_of_is_said_at_once_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(5.0)
    for notices in ((), ("it died",), ("it died",), ("it died", "again")):
        lines.update(replace(VIEW, notices=notices))
    assert [line for line in capsys.readouterr().out.splitlines() if "regret" not in line] == ["it died", "again"]
    console = Console(width=60, record=True)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        table = LiveTable(live)
        table.update(replace(VIEW, notices=("it died [now]",)))
        table.update(replace(VIEW, notices=("it died [now]",)))
    assert console.export_text().count("it died [now]") == 1


def test_the_table_shows_the_figures_and_who_is_down_in_red() -> None:
    console = Console(width=60, force_terminal=True, record=True)
    console.print(rich_table(VIEW))
    text = console.export_text(clear=False)
    assert "1,234.6" in text
    assert "\x1b[1;31m" in console.export_text(styles=True)


def test_the_bar_follows_the_rounds_of_those_who_are_up() -> None:
    assert progress_of(VIEW) == (900, 2000), "agent 2 is down: nobody waits for it"
    assert progress_of(replace(VIEW, phase=Phase.STARTING)) == (3, 3)
    assert progress_of(replace(VIEW, status=None)) == (0, 1)
    missed = replace(STATUS, agents=(AgentStatus(id=0, trial=7, round=1000), AgentStatus(id=1, trial=9, done=True)))
    assert progress_of(replace(VIEW, status=missed)) == (2000, 2000), "rounds that were missed are over, too"


def drawn(view: View) -> str:
    terminal = io.StringIO()
    Console(file=terminal, width=90, force_terminal=True, color_system="standard").print(rich_table(view))
    return terminal.getvalue()


def test_the_table_has_a_bar_the_time_left_and_colours_unless_nobody_wants_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "45%" in drawn(VIEW)
    assert "0:08 left" in drawn(VIEW)
    assert "\x1b[32m" in drawn(VIEW)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[(?:\d;)?3\d", drawn(VIEW))


def test_who_lags_and_who_is_silent_is_named() -> None:
    agents = (
        AgentStatus(id=0, trial=500, round=500, last_seen_s_ago=0.1, epsilon=0.5),
        AgentStatus(id=1, trial=480, round=480, last_seen_s_ago=0.1, epsilon=1.0),
        AgentStatus(id=2, trial=499, round=499, last_seen_s_ago=31.0),
        AgentStatus(id=3, trial=7, round=7, last_seen_s_ago=90.0),
        AgentStatus(id=4, trial=100, round=100, done=True),
    )
    view = replace(VIEW, agents=5, down=(3,), status=replace(STATUS, agents=agents))
    shown = dict(figures(view))
    assert shown["late"] == "agent 1, 20 rounds behind; agent 2, silent for 31 s"
    assert shown["ε spent"] == "1 of one reward"
    many = tuple(AgentStatus(id=each, trial=0, round=0 if each else 50) for each in range(9))
    assert dict(figures(replace(view, status=replace(STATUS, agents=many))))["late"].endswith("; and 2 more")


def test_the_output_decides_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with display(quiet=True, terminal=True) as shown:
        assert isinstance(shown, Nothing)
        assert shown.tick_s is None
        shown.update(VIEW)
    with display(quiet=False, terminal=False) as shown:
        assert isinstance(shown, Lines)
    with display(quiet=False, terminal=True) as shown:
        assert isinstance(shown, LiveTable)
        shown.update(VIEW)
    monkeypatch.setitem(sys.modules, "rich.live", None)
    with display(quiet=False, terminal=True) as shown:
        assert isinstance(shown, Lines), "without rich a terminal gets lines"


def test_the_status_file_is_read_as_the_environment_writes_it(tmp_path: Path) -> None:
    agent = {"id": 4, "trial": 9, "regret": 1.0, "messages": 2, "bytes": 3, "dropped": 5, "epsilon": None, "done": True}
    status = {"rounds": None, "agents": [agent], "group_regret": 1.0, "pulls": 9, "pulls_per_s": 0.5, "done": True}
    (tmp_path / "status.json").write_text(json.dumps(status), encoding="utf-8")
    assert read_status(tmp_path) == Status(
        rounds=None,
        group_regret=1.0,
        pulls=9,
        pulls_per_s=0.5,
        agents=(AgentStatus(id=4, trial=9, regret=1.0, messages=2, bytes=3, dropped=5, done=True),),
        done=True,
    )


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"rounds": 1, "agents": [{}]}', b"[" * 5000])
def test_a_status_that_cannot_be_read_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "status.json").write_bytes(content)
    assert read_status(tmp_path) is None


def test_the_round_of_a_testbed_is_that_of_its_slowest_agent_that_is_up() -> None:
    assert STATUS.round() == 7
    assert STATUS.round(but=[2]) == 400
    assert replace(STATUS, agents=()).round() == 0
    assert STATUS.seen() == {0, 1, 2}
    assert STATUS.awake() == set(), "nobody has asked since the environment started"
    assert replace(STATUS, agents=(AgentStatus(id=4, trial=0, last_seen_s_ago=0.5),)).awake() == {4}
    assert replace(
        STATUS,
        agents=(
            AgentStatus(id=0, trial=0),
            AgentStatus(id=1, trial=0, done=True),
        ),
    ).seen() == {1}

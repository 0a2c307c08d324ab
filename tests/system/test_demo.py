"""The demo, run as a visitor runs it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from evidence import until
from running_testbeds import PATIENCE_S, agentd, agentd_json, nothing_runs, pids_of, read_json, start

from agentd.cli.testbed.demo_words import TRY_NEXT, program

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "demo"


@pytest.mark.slow
def test_the_demo_shows_that_company_pays_and_what_the_papers_way_costs_at_the_same_epsilon(place: Path) -> None:
    figures = agentd_json("demo", "--rounds", "250", "--seed", "7", "--out", str(place))
    assert figures["cooperation_won"] is True
    assert figures["regret_sealed"] < 0.4 * figures["regret_alone"]
    assert figures["regret_sealed"] < 0.4 * figures["regret_paper"]
    assert figures["privacy"]["per_agent_epsilon"] == figures["privacy"]["nominal_epsilon"] == 1.0
    assert figures["privacy_paper"]["nominal_epsilon"] < 0.1
    assert 0.5 < figures["privacy_paper"]["per_agent_epsilon"] <= 1.0
    assert figures["privacy"]["note"] == "reproducible, not private"
    assert (figures["agents"], figures["rounds"]) == (16, 250)
    ElementTree.parse(figures["picture"])  # noqa: S314 - our own file
    parts = [read_json(place / part / "summary.json") for part in ("alone", "paper", "sealed")]
    assert [part["group_regret"] for part in parts] == [
        figures[f"regret_{one}"] for one in ("alone", "paper", "sealed")
    ]
    assert [part["algorithm"] for part in parts] == ["ucb1", "private-ucb", "sealed"]
    assert parts[0]["group_regret"] == pytest.approx(
        figures["yardstick"]["alone"]["group_regret"]
    )  # it was simulated, too
    arms = [read_json(place / part / "manifest.json")["arms"] for part in ("alone", "paper", "sealed")]
    assert arms[0] == arms[1] == arms[2]


def test_the_demo_says_so_when_company_did_not_pay(place: Path) -> None:
    """Two agents have little to tell each other, and their noise costs more than it brings."""
    said = agentd("demo", "--agents", "2", "--rounds", "60", "--seed", "5", "--out", str(place), code=1).stdout
    assert "Company did not pay this time" in said
    assert "Picture: " in said
    assert said.partition("Try next:\n")[2].splitlines() == [
        f"  {shlex.quote(sys.executable)} -m agentd {words}" for words in TRY_NEXT
    ]


@pytest.mark.slow
def test_what_to_type_next_works_as_it_is_printed(tmp_path: Path) -> None:
    lines = "\n".join(f"{shlex.quote(sys.executable)} -m agentd {words}" for words in TRY_NEXT)
    done = subprocess.run(["bash", "-ec", lines], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert (tmp_path / "sweep" / "sweep.csv").is_file()


def test_what_to_type_next_begins_with_a_name_that_a_shell_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin dir" / "agentd"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "argv", ["bin dir/agentd", "demo"])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert program() == "'bin dir/agentd'"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program() == "agentd"


def test_ctrl_c_ends_the_demo(place: Path) -> None:
    with start("demo", "--rounds", "100000", "--out", str(place)) as process:
        until(lambda: (read_json(place / "alone" / "status.json") or {}).get("pulls", 0) > 20)
        pids = pids_of(place / "alone")
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert nothing_runs(pids)
    assert not (place / "paper").exists()

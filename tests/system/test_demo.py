"""The demo, run as a visitor runs it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest
from evidence import until
from running_testbeds import PATIENCE_S, agentd, agentd_json, nothing_runs, pids_of, read_json, start

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "demo"


@pytest.mark.slow
def test_the_demo_shows_that_company_pays(place: Path) -> None:
    figures = agentd_json("demo", "--rounds", "250", "--seed", "7", "--out", str(place))
    assert figures["cooperation_won"] is True
    assert figures["regret_together"] < 0.8 * figures["regret_alone"]
    assert figures["privacy"]["per_agent_epsilon"] > figures["privacy"]["nominal_epsilon"]
    assert figures["privacy"]["note"] == "reproducible, not private"
    assert (figures["agents"], figures["rounds"]) == (16, 250)
    ElementTree.parse(figures["picture"])  # noqa: S314 - our own file
    halves = [read_json(place / half / "summary.json") for half in ("alone", "together")]
    assert [half["group_regret"] for half in halves] == [figures["regret_alone"], figures["regret_together"]]
    assert [half["algorithm"] for half in halves] == ["ucb1", "private-ucb"]
    arms = [read_json(place / half / "manifest.json")["arms"] for half in ("alone", "together")]
    assert arms[0] == arms[1]


def test_the_demo_says_so_when_company_did_not_pay(place: Path) -> None:
    """Two agents have little to tell each other, and their noise costs more than it brings."""
    said = agentd("demo", "--agents", "2", "--rounds", "60", "--seed", "10", "--out", str(place), code=1).stdout
    assert "Company did not pay this time" in said
    assert "Picture: " in said
    assert "Try next:" in said


def test_ctrl_c_ends_the_demo(place: Path) -> None:
    with start("demo", "--rounds", "100000", "--out", str(place)) as process:
        until(lambda: (read_json(place / "alone" / "status.json") or {}).get("pulls", 0) > 20)
        pids = pids_of(place / "alone")
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert nothing_runs(pids)
    assert not (place / "together").exists()

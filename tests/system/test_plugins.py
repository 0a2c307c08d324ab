"""A policy with a body of its own runs where ours do, though nothing of agentd knows its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running_testbeds import PATIENT, agentd

pytestmark = pytest.mark.system

TESTS = Path(__file__).parent.parent
RUN = ("--agents", "3", "--edge-probability", "1", "--rounds", "40", "--arms", "0.9,0.5,0.2", "--seed", "5")
MINE = ("--algorithm", "win-counting")
LINE = "win-counting has no vectorised twin: it runs on the core agents"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A world in which the module can be imported, and is named."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", f"{TESTS / 'plugins'}:{TESTS.parent}")
    monkeypatch.setenv("AGENTD_PLUGINS", "win_counting")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pulls(run_dir: Path) -> list[Any]:
    with np.load(run_dir / "pulls.npz") as file:
        return [file[name].tolist() for name in ("arm", "reward")]


def test_it_runs_in_processes_as_it_does_in_memory(place: Path) -> None:
    lies = ("--byzantine", "1", "--contamination", "0.5")
    up = agentd("up", *RUN, *MINE, *lies, *PATIENT, "--run-dir", str(place / "up"), "--json")
    simulated = agentd("simulate", *RUN, *MINE, *lies, "--run-dir", str(place / "simulated"), "--json")
    assert simulated.stderr.splitlines() == [LINE]
    assert pulls(place / "up") == pulls(place / "simulated")
    one, other = json.loads(up.stdout), json.loads(simulated.stdout)
    assert (one["privacy"].pop("simulated"), other["privacy"].pop("simulated")) == (False, True)
    assert other["privacy"].pop("note").endswith(one["privacy"].pop("note"))
    for figure in ("algorithm", "group_regret", "messages", "bytes", "dropped", "privacy"):
        assert one[figure] == other[figure], figure
    assert one["messages"] > 0
    assert not one["dropped"]


def test_it_learns_from_what_the_others_tell_in_its_own_body(place: Path) -> None:
    for gamma in ("0", "1"):
        agentd("simulate", *RUN, *MINE, "--gamma", gamma, "--run-dir", str(place / gamma))
    assert pulls(place / "0") != pulls(place / "1")


def test_an_engine_that_was_asked_for_is_refused_in_one_line_and_the_other_one_says_nothing(place: Path) -> None:
    refused = agentd("simulate", *RUN, *MINE, "--engine", "vector", code=2)
    assert refused.stderr == "error: win-counting has no vectorised twin; use --engine agents\n"
    asked = agentd("simulate", *RUN, *MINE, "--engine", "agents", "--run-dir", str(place / "agents"))
    assert asked.stderr == ""


def test_one_agent_may_run_it_among_others_that_only_relay_it(place: Path) -> None:
    mixed = (*RUN, "--policy", "1=win-counting", "--policy", "2=coop-ucb", "--algorithm", "coop-ucb")
    agentd("up", *mixed, *PATIENT, "--run-dir", str(place / "up"))
    agentd("simulate", *mixed, "--engine", "agents", "--run-dir", str(place / "simulated"))
    assert pulls(place / "up") == pulls(place / "simulated")


def test_nobody_knows_it_where_it_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTD_PLUGINS")
    assert "'win-counting' is not one of 'ucb1'" in agentd("simulate", *RUN, *MINE, code=2).stderr


@pytest.mark.parametrize("name", ["no_such_module", "win_counting,no_such_module"])
def test_what_cannot_be_loaded_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("AGENTD_PLUGINS", name)
    said = agentd("simulate", *RUN, code=78).stderr
    assert said == (
        "error: cannot load no_such_module, which AGENTD_PLUGINS or a flag names: "
        "ModuleNotFoundError: No module named 'no_such_module'\n"
    )

"""A runtime is one module and its registration: one that agentd does not know carries a testbed as ours do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from running_testbeds import CONTRACT, PATIENT, agentd, agentd_json, nothing_runs, pids_of, read_json

from agentd.errors import ConfigurationError
from deploy.testbed.runtime import RUNTIMES, find_runtime, register_runtime

pytestmark = pytest.mark.system

PLUGINS = Path(__file__).parent.parent / "plugins"
NICENESS = 7


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory to be, in a world in which the runtime `nice` can be imported and is named."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", f"{PLUGINS}:{PLUGINS.parent.parent}")
    monkeypatch.setenv("AGENTD_PLUGINS", "nice_runtime")
    return tmp_path / "run"


def test_a_runtime_of_ones_own_starts_shows_breaks_and_stops_a_testbed(place: Path) -> None:
    flags = ("--runtime", "nice", "--agents", "3", "--edge-probability", "1", "--rounds", "1000000", "--seed", "1")
    started = agentd_json("up", *flags, *PATIENT, "--run-dir", str(place), "--detach")
    pids = pids_of(place)
    try:
        assert started["state"] == "running"
        assert read_json(place / "testbed.json")["runtime"] == "nice"
        environment, *agents = (os.getpriority(os.PRIO_PROCESS, pid) for pid in pids)
        assert agents == [environment + NICENESS] * 3
        agentd("chaos", "pause", "1", "--for", "10ms")
        agentd("chaos", "kill", "2")
        assert agentd_json("status", str(place))["down"] == [2]
        assert {entry["running"] for entry in agentd_json("ps", str(place))[0]["processes"]} == {True, False}
    finally:
        agentd("down", str(place))
    assert nothing_runs(pids)
    assert {path.name for path in place.iterdir()} >= CONTRACT
    assert read_json(place / "summary.json")["runtime"] == "nice"
    assert read_json(place / "manifest.json")["runtime"] == "nice"


def test_what_means_nothing_to_a_runtime_is_refused_by_its_name(place: Path) -> None:
    refused = agentd("up", "--runtime", "nice", "--image", "mine", "--run-dir", str(place), code=2)
    assert refused.stderr == "error: --image means nothing with --runtime nice; leave it out\n"
    assert not place.exists()


def test_nobody_knows_it_where_it_is_not_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTD_PLUGINS")
    assert "'nice' is not one of 'local', 'compose', 'swarm'" in agentd("up", "--runtime", "nice", code=2).stderr


@pytest.mark.parametrize("name", list(RUNTIMES))
def test_every_runtime_answers_to_its_name(name: str) -> None:
    assert find_runtime(name).name == name


def test_a_name_is_given_once_and_an_unknown_one_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="there is a runtime local already"):
        register_runtime("local", "somewhere:ELSE")
    with pytest.raises(ConfigurationError, match="there is no runtime nowhere, only local, compose, swarm"):
        find_runtime("nowhere")

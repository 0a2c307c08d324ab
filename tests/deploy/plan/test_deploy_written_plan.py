"""What `agentd up` wrote down becomes the same plan again, or is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentd.errors import ConfigurationError
from agentd.runs.scenario import Scenario, make_scenario
from agentd.runs.summary import manifest
from agentd.settings import Pace, TestbedSettings
from deploy.plan.plan import Keep, Loopback, Plan, Sockets, lay_out, make_plan
from deploy.plan.written_plan import laid_out_again, read_manifest, read_plan

RUN = bytes(range(8))


@pytest.fixture
def scenario() -> Scenario:
    settings = TestbedSettings(
        agents=5, edge_probability=0.6, byzantine=1, policies={3: "ucb1"}, arms=(0.9, 0.5), gamma="full", seed=3
    )
    return make_scenario(settings)


@pytest.fixture
def plan(scenario: Scenario, tmp_path: Path) -> Plan:
    keep = Keep(state=True, epsilon_budget=5.0, on_budget="stop")
    return make_plan(scenario, run=RUN, base_port=17_000, run_dir=tmp_path, pace=Pace(clock="free"), keep=keep)


def written(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()


def test_a_plan_and_its_settings_are_read_back_as_they_were(scenario: Scenario, plan: Plan) -> None:
    settings, liars = read_manifest(written(manifest(scenario, "local")))
    assert (settings, liars) == (scenario.settings, scenario.spec.liars)
    assert read_plan(written(plan.to_json()), scenario) == plan


def test_a_plan_can_be_laid_out_elsewhere(scenario: Scenario, plan: Plan, tmp_path: Path) -> None:
    there = tmp_path / "there"
    pace, keep = Pace(clock="free"), Keep(state=True, epsilon_budget=5.0, on_budget="stop")
    wanted = make_plan(scenario, run=RUN, base_port=20_000, run_dir=there, pace=pace, keep=keep)
    assert laid_out_again(plan, Loopback(20_000, there)) == wanted
    with_sockets = laid_out_again(plan, Sockets("/tmp/agentd-12345678", there))  # noqa: S108
    assert with_sockets == lay_out(
        scenario,
        Sockets("/tmp/agentd-12345678", there),  # noqa: S108
        run=RUN,
        pace=pace,
        keep=keep,
    )
    assert read_plan(written(with_sockets.to_json()), scenario) == with_sockets
    assert (
        with_sockets.environment,
        with_sockets.agents[3].listen,
        with_sockets.base_port,
        len(with_sockets.ports),
    ) == (
        "ipc:///tmp/agentd-12345678/e",
        "ipc:///tmp/agentd-12345678/a3",
        None,
        0,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"run": "no hex"},
        {"run": None},
        {"base_port": "x"},
        {"agents": []},
        {"agents": [{}]},
        {"agents": None},
    ],
)
def test_a_plan_that_is_none_is_refused(change: dict[str, Any], scenario: Scenario, plan: Plan) -> None:
    with pytest.raises(ConfigurationError, match=r"plan\.json is damaged"):
        read_plan(written(plan.to_json() | change), scenario)


@pytest.mark.parametrize(
    ("name", "value"),
    [("id", 7), ("peers", {}), ("peers", {"x": "y"}), ("gamma", -1), ("algorithm", "none"), ("rounds", "many")],
)
def test_an_agent_that_is_not_the_plans_is_refused(name: str, value: Any, scenario: Scenario, plan: Plan) -> None:
    content = plan.to_json()
    content["agents"][0][name] = value
    with pytest.raises(ConfigurationError, match=r"plan\.json is damaged"):
        read_plan(written(content), scenario)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b"[" * 5000, b'{"settings": {"agents": 5}}'])
def test_a_manifest_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"manifest\.json is damaged"):
        read_manifest(content)


KEYED = ("keys", "roster", "roster_note")


def test_a_plan_that_is_laid_out_again_names_no_file_outside_of_its_run_directory(plan: Plan, tmp_path: Path) -> None:
    """Somebody may have sent it: a health file is overwritten once a second."""
    precious = dict.fromkeys(("health_file", "terms", "log_file", "faults_file", "seat", *KEYED), "/home/me/precious")
    precious["operator_fingerprint"] = "ab" * 32
    hostile = replace(plan, agents=tuple(replace(agent, **precious) for agent in plan.agents))
    again = laid_out_again(hostile, Loopback(20_000, tmp_path))
    assert "precious" not in json.dumps(again.to_json())
    assert not any(agent.has_keys for agent in again.agents)

"""Plans: who listens where and who peers with whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.terms import Clock, PolicyTerms
from agentd.errors import SettingsError
from agentd.runs.scenario import Scenario, make_scenario
from agentd.settings import Pace, TestbedSettings
from agentd.shell.agreement import narrowed
from agentd.terms_file import terms_from_json
from deploy.plan.environment import plan_environment
from deploy.plan.plan import Keep, Plan, make_plan, port_count
from deploy.testbed.launch import fresh_run

RUN = bytes(range(8))


@pytest.fixture
def path_of_three(tmp_path: Path) -> str:
    file = tmp_path / "path.edges"
    file.write_text("0 1\n1 2\n", encoding="utf-8")
    return str(file)


def planned(scenario: Scenario, base_port: int = 17000, pace: Pace | None = None) -> Plan:
    return make_plan(scenario, run=RUN, base_port=base_port, run_dir=Path("run"), pace=pace or Pace())


COMMON = {
    "faults_file": "run/chaos/links.json",
    "health_file": None,
    "gamma": 1,
    "rewards_per_person": 1,
    "agreed_epsilon": None,
    "rounds": 50,
    "epsilon": 0.5,
    "v": 1.1,
    "sigma": 0.5,
    "estimator": "trimmed",
    "rule": "thompson",
    "refresh": 100,
    "noise": "exact",
    "contamination": 0.001,
    "half_life": None,
    "tolerate": 0.3,
    "arm_means": None,
    "bounds": [0.0, 1.0],
    "http": None,
    "http_insecure": False,
    "http_names": [],
    "log_format": "auto",
    "mqtt": None,
    "mqtt_credentials": None,
    "keys": None,
    "roster": None,
    "operator_fingerprint": None,
    "roster_note": None,
    "verify_every": 8,
    "max_outstanding": 1,
    "attack": "worst",
    "incarnation": None,
    "clock": "free",
    "interval_s": 0.25,
    "round_timeout_s": 2.0,
    "ready_timeout_s": 9.0,
    "admit": [],
    "insecure": False,
    "terms": None,
    "log_level": "info",
    "state": None,
    "epsilon_budget": None,
    "on_budget": "listen",
}
EXPECTED = {
    "run": "0001020304050607",
    "base_port": 17000,
    "sockets": None,
    "environment": "tcp://127.0.0.1:17000",
    "agents": [
        {
            "id": 0,
            "listen": "tcp://127.0.0.1:17001",
            "environment": "tcp://127.0.0.1:17000",
            "peers": {"1": "tcp://127.0.0.1:17002"},
            "algorithm": "private-ucb",
            "lies": True,
            "log_file": "run/logs/agent-0.jsonl",
            "seat": "run/seats/agent-0/seat",
        },
        {
            "id": 1,
            "listen": "tcp://127.0.0.1:17002",
            "environment": "tcp://127.0.0.1:17000",
            "peers": {"0": "tcp://127.0.0.1:17001", "2": "tcp://127.0.0.1:17003"},
            "algorithm": "private-ucb",
            "lies": False,
            "log_file": "run/logs/agent-1.jsonl",
            "seat": "run/seats/agent-1/seat",
        },
        {
            "id": 2,
            "listen": "tcp://127.0.0.1:17003",
            "environment": "tcp://127.0.0.1:17000",
            "peers": {"1": "tcp://127.0.0.1:17002"},
            "algorithm": "ucb1",
            "lies": False,
            "log_file": "run/logs/agent-2.jsonl",
            "seat": "run/seats/agent-2/seat",
        },
    ],
}


def test_a_small_plan_is_byte_for_byte_what_it_was(path_of_three: str) -> None:
    about: dict[str, Any] = {"rounds": 50, "epsilon": 0.5, "policies": {2: "ucb1"}, "byzantine": 1, "seed": 4}
    scenario = make_scenario(TestbedSettings(topology=path_of_three, algorithm="private-ucb", **about))
    assert scenario.spec.liars == {0}, "the seed decides who lies"
    pace = Pace(clock="free", interval_s=0.25, round_timeout_s=2.0, ready_timeout_s=9.0)
    expected = {**EXPECTED, "agents": [{**COMMON, "seed": 4, **agent} for agent in EXPECTED["agents"]]}  # type: ignore[dict-item]

    def as_bytes(content: object) -> bytes:
        return json.dumps(content, sort_keys=True, indent=1).encode()

    assert as_bytes(planned(scenario, pace=pace).to_json()) == as_bytes(expected)


def test_a_plan_depends_on_nothing_but_its_arguments(path_of_three: str) -> None:
    scenario = make_scenario(TestbedSettings(topology=path_of_three))
    assert planned(scenario) == planned(scenario)


def test_without_a_seed_of_the_operator_no_agent_gets_one(path_of_three: str) -> None:
    scenario = make_scenario(TestbedSettings(topology=path_of_three))
    plan = planned(scenario)
    assert {agent.seed for agent in plan.agents} == {None}
    assert str(scenario.spec.seed) not in json.dumps(plan.to_json()), "who knows the seed knows every reward"


@given(agents=st.integers(1, 30), probability=st.floats(0.3, 1.0), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_every_link_is_planned_at_both_ends_and_every_port_once(agents: int, probability: float, seed: int) -> None:
    scenario = make_scenario(TestbedSettings(agents=agents, edge_probability=probability, seed=seed))
    plan = planned(scenario)
    listens = {agent.id: agent.listen for agent in plan.agents}
    assert len({plan.environment, *listens.values()}) == port_count(agents) == len(plan.ports)
    for agent in plan.agents:
        assert set(agent.peers) == set(scenario.graph.neighbours(agent.id))
        assert all(listens[peer] == address for peer, address in agent.peers.items())
        assert agent.environment == plan.environment
    assert plan.largest_degree == max(scenario.graph.degrees())
    assert plan.links == len(scenario.graph.edges)


@pytest.mark.parametrize("base_port", [0, -1, 65_533, 70_000])
def test_ports_that_do_not_exist_are_refused(path_of_three: str, base_port: int) -> None:
    scenario = make_scenario(TestbedSettings(topology=path_of_three))
    with pytest.raises(SettingsError, match="--base-port must leave room for 4 ports up to 65535"):
        planned(scenario, base_port)


def test_the_last_ports_there_are_can_be_used(path_of_three: str) -> None:
    assert planned(make_scenario(TestbedSettings(topology=path_of_three)), 65_532).ports[-1] == 65_535


def test_no_two_runs_have_the_same_id() -> None:
    assert len(fresh_run()) == 8
    assert fresh_run() != fresh_run()


@pytest.mark.parametrize("seed", [7, None])
def test_the_environment_is_told_what_all_agents_agree_on(path_of_three: str, seed: int | None) -> None:
    scenario = make_scenario(TestbedSettings(topology=path_of_three, policies={2: "ucb1"}, seed=seed, rounds=50))
    pace = Pace(clock="free", interval_s=0.25)
    plan = make_plan(scenario, run=RUN, base_port=17000, run_dir=Path("run"), pace=pace)
    terms = terms_from_json(plan_environment(scenario, plan, "run").terms)
    assert not terms.drawn, "the run's id is drawn when it begins"
    assert any(terms.beacon) == (seed is not None)
    assert (terms.lifetime, terms.horizon, terms.clock, terms.interval_us) == (1, 50, Clock.FREE, 250_000)
    assert terms.policies == (
        PolicyTerms("sealed", 4, 1.0, None, ((0, 1),)),
        PolicyTerms("ucb1", 0, None, None, ((2, 2),)),
    )
    for agent in plan.agents:
        assert narrowed(agent, terms) == (agent, {}), "no agent is told anything else"


def test_agents_that_add_noise_keep_their_state_where_that_is_asked_for(path_of_three: str) -> None:
    scenario = make_scenario(TestbedSettings(topology=path_of_three, policies={2: "ucb1"}))
    keep = Keep(state=True, epsilon_budget=2.0, on_budget="stop")
    plan = make_plan(scenario, run=RUN, base_port=17000, run_dir=Path("run"), pace=Pace(), keep=keep)
    kept = [(agent.state, agent.epsilon_budget) for agent in plan.agents]
    assert kept == [("run/state/agent-0", 2.0), ("run/state/agent-1", 2.0), (None, None)]

"""What a summary says of privacy is exactly true: of what has happened, of what is covered, and of whose word it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentd.core.bodies import SEALED
from agentd.core.policy import ALGORITHMS, Algorithm, register_policy
from agentd.core.policy.sealed import Sealed
from agentd.runs.scenario import Scenario, make_scenario
from agentd.runs.spec import Outcome
from agentd.runs.summary import banner, manifest, summarise, table
from agentd.settings import TestbedSettings
from agentd.simulation.network import InMemoryNetwork
from agentd.simulation.network_faults import Crash, Faults

REPRODUCIBLE = "reproducible, not private"
LEAKS = "the noised sums, given the sequence of pulls, which itself leaks"


def scenario_of(**changes: Any) -> Scenario:
    usual: dict[str, Any] = {"agents": 3, "edge_probability": 1.0, "rounds": 60, "random_arms": 2}
    return make_scenario(TestbedSettings(**(usual | changes)))


def told(scenario: Scenario, outcome: Outcome | None = None, *, simulated: bool = False) -> dict[str, Any]:
    ran = outcome or InMemoryNetwork(scenario.spec).run()
    return summarise(scenario, ran, 1.0, simulated=simulated)


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("simulated", [True, False])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_transcript_is_called_private_only_where_agents_ran_unseeded_and_it_is_proven(
    algorithm: str, simulated: bool, seed: int | None
) -> None:
    scenario = scenario_of(algorithm=algorithm, seed=seed)
    privacy = told(scenario, simulated=simulated)["privacy"]
    assert privacy["transcript_private"] is (algorithm in ("sealed", "shielded") and not simulated and seed is None)
    assert (privacy["simulated"], privacy["reproducible"]) == (simulated, seed is not None)
    assert privacy["note"].startswith("simulated") is simulated
    assert (REPRODUCIBLE in privacy["note"]) == (seed is not None)
    about = manifest(scenario, "simulate/agents" if simulated else "local")
    assert about["privacy_note"] == privacy["note"]


@pytest.mark.parametrize(
    ("algorithm", "covers"),
    [
        ("private-ucb", LEAKS),
        ("dp-ucb-int", "the sequence of pulls, which follows from noised sums alone; nothing is told"),
        ("sealed", "everything that leaves an agent"),
        ("coop-ucb", "nothing: no noise is added"),
    ],
)
def test_it_says_what_epsilon_is_about(algorithm: str, covers: str) -> None:
    summary = told(scenario_of(algorithm=algorithm))
    assert summary["privacy"]["covers"] == covers
    if ALGORITHMS[algorithm].noised:
        assert covers in table(summary, Path())


def test_of_several_algorithms_it_says_what_each_covers() -> None:
    privacy = told(scenario_of(algorithm="sealed", policies={1: "private-ucb", 2: "ucb1"}))["privacy"]
    assert privacy["covers"] == f"everything that leaves an agent; {LEAKS}; nothing: no noise is added"
    assert privacy["transcript_private"] is False


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    claim = Algorithm("their-own", "claims much", SEALED, True, True, Sealed, disjoint=True, covers="all, they say")
    yield register_policy(claim).name
    del ALGORITHMS["their-own"]


def test_what_a_plug_in_claims_is_unproven(plug_in: str) -> None:
    privacy = told(scenario_of(algorithm=plug_in))["privacy"]
    assert privacy["transcript_private"] == "unproven"
    assert told(scenario_of(algorithm=plug_in), simulated=True)["privacy"]["transcript_private"] is False
    assert told(scenario_of(algorithm=plug_in, seed=1))["privacy"]["transcript_private"] is False
    assert privacy["covers"] == "unproven: what a plug-in claims, all, they say"
    assert privacy["epsilon_at_delta"] == float("inf")  # nobody knows its schedule


def test_a_simulation_speaks_of_no_privacy_that_was_spent() -> None:
    scenario = scenario_of(algorithm="sealed")
    said = table(told(scenario, simulated=True), Path())
    assert "privacy spent" not in said
    assert "simulated: no agent ran" in said
    assert "privacy spent" in table(told(scenario), Path())


def test_the_epsilon_at_delta_is_that_of_the_schedule_whatever_was_pulled() -> None:
    settings: dict[str, Any] = {"rounds": 100, "seed": 4, "algorithm": "private-ucb"}
    few, many = scenario_of(**settings, random_arms=5), scenario_of(**settings, random_arms=1)
    first, second = (told(scenario)["privacy"] for scenario in (few, many))
    assert first["per_agent_epsilon"] < second["per_agent_epsilon"]  # one arm gets all pulls
    assert first["epsilon_at_delta"] == second["epsilon_at_delta"]
    assert "each of 100 rounds" in first["at_delta_of"]


def test_the_lives_of_an_agent_in_memory_are_the_larger_and_the_sum() -> None:
    scenario = scenario_of(seed=5)
    network = InMemoryNetwork(scenario.spec, Faults(crashes=(Crash(1, at=40, back=45, keeps_state=False),)))
    outcome = network.run()
    assert outcome.epsilon is not None
    assert outcome.epsilon_over_lives is not None
    summary = told(scenario, outcome)
    assert summary["privacy"]["lives"] == outcome.lives == 2
    assert outcome.epsilon_over_lives[1] > outcome.epsilon[1]
    assert outcome.epsilon_over_lives[0] == outcome.epsilon[0]
    assert "an agent had 2 lives: whoever is behind one reward in each" in table(summary, Path())


def test_a_banner_and_a_summary_tell_what_a_reward_and_what_a_person_is_promised() -> None:
    scenario = scenario_of(algorithm="sealed", epsilon=1.0, rewards_per_person=8)
    assert "each reward ε = 0.125, so that a person behind 8 rewards at most has ε = 1" in banner(scenario)
    summary = told(scenario)
    privacy = summary["privacy"]
    assert (privacy["per_agent_epsilon"], privacy["per_person_epsilon"]) == (0.125, 1.0)
    assert (privacy["nominal_epsilon"], privacy["rewards_per_person"]) == (0.125, 8)
    assert "r rewards of one person cost r·ε: 8 of them ε = 1" in table(summary, Path())
    assert "person" not in banner(scenario_of(algorithm="sealed"))

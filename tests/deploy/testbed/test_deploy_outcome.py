"""From what a testbed left behind to its summary."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from env_clients import hello, pull, report

from agentd.core.trust.blame import Blame, Why
from agentd.core.upwards import whole_up
from agentd.environment.live_status import report_to_json
from agentd.environment.run_terms import RunTerms, declared
from agentd.environment.shared_bandit import SharedBandit
from agentd.environment.store import Store
from agentd.errors import AgentdError
from agentd.runs import fault_log
from agentd.runs.directory import RunDirectory
from agentd.runs.scenario import Scenario, make_scenario
from agentd.runs.spec import Outcome
from agentd.runs.summary import table
from agentd.settings import TestbedSettings
from agentd.simulation.engine import run_vector
from agentd.simulation.network import run_agents
from agentd.wire.environment_messages import MICRO
from deploy.testbed.lifecycle import Lost
from deploy.testbed.outcome import add_yardstick, charge, collect, read_reports, rescue_pulls, write_summary
from deploy.testbed.supervisor import Ending

RUN = b"12345678"


def scenario_of(**settings: object) -> Scenario:
    defaults = {"agents": 4, "edge_probability": 1.0, "rounds": 60, "seed": 3, "algorithm": "private-ucb"}
    return make_scenario(TestbedSettings(**{**defaults, **settings}))  # type: ignore[arg-type]


def bare(outcome: Outcome) -> Outcome:
    """Only the pulls: what the environment knows."""
    return Outcome(outcome.arm, outcome.reward)


@pytest.mark.parametrize("algorithm", ["private-ucb", "dp-ucb-int"])
@pytest.mark.parametrize("epsilon", [1.0, 0.3])
def test_what_was_spent_follows_from_the_pulls_alone(algorithm: str, epsilon: float) -> None:
    scenario = scenario_of(algorithm=algorithm, epsilon=epsilon)
    told = run_vector([scenario.spec])[0]
    outcome = bare(told)
    charge(outcome, scenario, [])
    assert outcome.releases == told.releases > 0
    assert told.epsilon is not None
    assert outcome.epsilon is not None
    np.testing.assert_array_equal(outcome.epsilon, told.epsilon)
    np.testing.assert_array_equal(outcome.epsilon_at_delta, told.epsilon_at_delta)


def test_an_agent_without_noise_among_others_is_exposed_without_bound() -> None:
    scenario = scenario_of(policies={2: "coop-ucb"})
    told = run_agents(scenario.spec)
    outcome = bare(told)
    charge(outcome, scenario, [])
    assert outcome.epsilon is not None
    assert math.isinf(outcome.epsilon[2])
    np.testing.assert_array_equal(outcome.epsilon, told.epsilon)


def test_where_nobody_adds_noise_there_is_nothing_to_charge() -> None:
    scenario = scenario_of(algorithm="coop-ucb")
    outcome = bare(run_vector([scenario.spec])[0])
    charge(outcome, scenario, [])
    assert outcome.epsilon is None


def test_an_agent_that_reports_more_than_its_pulls_explain_is_believed() -> None:
    scenario = scenario_of()
    outcome = bare(run_vector([scenario.spec])[0])
    charge(outcome, scenario, [report(1, 60, 0, 0, (), 99_000_000, True), report(9, 60, 0, 0, (), 1, True)])
    assert outcome.epsilon is not None
    assert outcome.epsilon[1] == pytest.approx(99.0)
    assert outcome.epsilon.argmax() == 1


def test_what_is_reported_was_rounded_up_and_is_taken_for_that(tmp_path: Path) -> None:
    scenario = scenario_of()
    exact = run_vector([scenario.spec])[0].epsilon
    assert exact is not None
    outcome = bare(run_vector([scenario.spec])[0])
    up = [whole_up(float(each), MICRO) for each in exact]
    charge(outcome, scenario, [report(agent, 60, 0, 0, (), micro, True) for agent, micro in enumerate(up)])
    np.testing.assert_array_equal(outcome.epsilon, exact)
    charge(outcome, scenario, [report(0, 60, 0, 0, (), up[0] + 1, True)])
    assert outcome.epsilon is not None
    assert outcome.epsilon[0] * MICRO >= up[0] + 1  # a unit more was spent than the pulls explain: all of it counts


def test_what_earlier_lives_spent_stays_although_the_ledger_on_disk_began_anew(tmp_path: Path) -> None:
    scenario = scenario_of()
    told = left_behind(tmp_path, scenario)
    assert told.epsilon is not None
    path = tmp_path / "reports.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["reports"][1] |= {"life": 40, "lives_before": [2, 99_000_000, 99_500_000]}
    path.write_text(json.dumps(content), encoding="utf-8")
    privacy = write_summary(RunDirectory(tmp_path), scenario, Ending(2.5, 15), RUN)["privacy"]
    assert (privacy["per_agent_epsilon"], privacy["lives"]) == (99.0, 3)
    assert privacy["epsilon_over_lives"] == pytest.approx(99.5 + told.epsilon[1])


def left_behind(place: Path, scenario: Scenario) -> Outcome:
    """A run directory as the environment leaves it."""
    outcome = run_vector([scenario.spec])[0]
    RunDirectory(place).write_pulls(outcome.arm, outcome.reward)
    reports = [report(agent, 60, 100, 5000, (("stale", agent),), 0, True) for agent in range(4)]
    reports[2] = replace(reports[2], blames=(Blame(1, Why.SLOW, 3), Blame(77, Why.SLOW, 3)))
    (place / "reports.json").write_text(json.dumps({"reports": [report_to_json(r) for r in reports]}), encoding="utf-8")
    return outcome


def test_the_summary_joins_pulls_reports_faults_and_losses(tmp_path: Path) -> None:
    scenario = scenario_of()
    told = left_behind(tmp_path, scenario)
    fault_log.append(tmp_path, 30, fault_log.Fault("kill", "agent-1 killed", (1,)))
    ending = Ending(2.5, 15, "", (Lost(1, -9, "killed by SIGKILL"),))
    summary = write_summary(RunDirectory(tmp_path), scenario, ending, RUN)
    assert json.loads((tmp_path / "summary.json").read_text(encoding="utf-8")) == summary
    assert (summary["messages"], summary["bytes"], summary["dropped"]) == (400, 20_000, {"stale": 6})
    assert summary["interrupted"] is True
    assert summary["blamed"] == {"1": {"slow": [2]}}
    assert "blamed            agent 1: slow (says 2)" in table(summary, tmp_path).splitlines()
    assert summary["agents_lost"] == [{"agent": 1, "exit_code": -9, "why": "killed by SIGKILL"}]
    assert summary["events"] == [{"round": 30, "what": "agent-1 killed"}]
    (fault,) = summary["faults"]
    assert (fault["round"], fault["verb"], fault["agents"], fault["what"]) == (30, "kill", [1], "agent-1 killed")
    assert summary["privacy"]["releases"] == told.releases
    assert summary["wall_s"] == 2.5
    assert summary["run"] == RUN.hex()


def test_pulls_are_rescued_from_the_journal_where_the_environment_was_killed(tmp_path: Path) -> None:
    scenario = scenario_of(arms=(0.9, 0.1), agents=2, rounds=5)
    terms = RunTerms(agreed=declared(RUN, scenario.spec.arms.count, 2, 5), seed=3, arms=scenario.spec.arms)
    store = Store.open(tmp_path)
    store.begin(terms)
    bandit = SharedBandit(terms)
    bandit.answer(hello(1), 0.0)
    bandit.answer(pull(1, 1, 1), 0.0)
    store.record_seats(bandit.seating.take_fresh())
    store.record(bandit.take_fresh())
    store.close()
    rescue_pulls(RunDirectory(tmp_path), scenario)
    outcome = collect(tmp_path, scenario)
    assert outcome.arm[1, 0] == 1
    assert int((outcome.arm != 65_535).sum()) == 1
    assert (tmp_path / "regret.csv").is_file()


def test_a_run_that_ended_before_any_pull_still_has_all_its_files(tmp_path: Path) -> None:
    scenario = scenario_of()
    summary = write_summary(RunDirectory(tmp_path), scenario, Ending(0.1, 2), RUN)
    assert summary["group_regret"] == 0.0
    assert summary["privacy"]["per_agent_epsilon"] == 0.0
    assert {"pulls.npz", "regret.csv", "regret.svg", "summary.json"} <= {path.name for path in tmp_path.iterdir()}


def test_the_summary_is_complete_before_it_is_held_against_others_and_stays_so_where_nobody_waits(
    tmp_path: Path,
) -> None:
    scenario = scenario_of(byzantine=1, policies={2: "dp-ucb-int"})
    left_behind(tmp_path, scenario_of())
    directory = RunDirectory(tmp_path)
    summary = write_summary(directory, scenario, Ending(0.1, 2), RUN)
    assert json.loads((tmp_path / "summary.json").read_text(encoding="utf-8")) == summary
    assert "yardstick" not in summary
    assert table(summary, tmp_path)  # as of runs that were made before there was one
    hurried = add_yardstick(directory, scenario, summary, lambda: True)
    assert set(hurried["yardstick"]["left_out"].values()) == {"it was interrupted"}
    complete = add_yardstick(directory, scenario, summary, lambda: False)
    assert complete["yardstick"]["left_out"] == {}
    assert complete["yardstick"]["rounds"] == complete["rounds_made"] == 60
    assert {key: complete[key] for key in summary} == summary
    assert json.loads((tmp_path / "summary.json").read_text(encoding="utf-8")) == complete
    assert "coop-thompson: every pull" in (tmp_path / "regret.svg").read_text(encoding="utf-8")
    assert (tmp_path / "regret.csv").read_text(encoding="utf-8").startswith("round,group_regret,alone,alone_thompson")


def test_pulls_that_are_there_are_not_touched(tmp_path: Path) -> None:
    scenario = scenario_of()
    left_behind(tmp_path, scenario)
    before = (tmp_path / "pulls.npz").read_bytes()
    rescue_pulls(RunDirectory(tmp_path), replace(scenario))
    assert (tmp_path / "pulls.npz").read_bytes() == before


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"reports": [{"agent": 0}]}', '{"reports": 3}'])
def test_damaged_reports_are_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "reports.json").write_text(content, encoding="utf-8")
    with pytest.raises(AgentdError, match="cannot read the agents' reports"):
        read_reports(tmp_path)

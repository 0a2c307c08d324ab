"""From what a testbed left in its run directory to the figures of its summary."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS, intend, make_policy
from agentd.core.privacy.ledger import Ledger
from agentd.core.privacy.sealing import Weighting
from agentd.environment.live_status import dropped_in_all, epsilon_of, report_from_json
from agentd.environment.shared_bandit import SharedBandit
from agentd.environment.store import REPORTS, Store, read_terms
from agentd.errors import AgentdError, StateUnusable
from agentd.run import fault_log
from agentd.run.directory import RunDirectory
from agentd.run.fault_log import read_events, read_faults
from agentd.run.regret import NO_REWARD, NOT_PULLED
from agentd.run.scenario import Scenario
from agentd.run.spec import DELTA, Outcome
from agentd.run.summary import summarise
from agentd.wire.environment_messages import MICRO, Report
from deploy.plan.plan import state_name
from deploy.testbed.supervisor import Ending

PULLS = "pulls.npz"


def write_summary(
    directory: RunDirectory, scenario: Scenario, ending: Ending, run: bytes, runtime: str = "local"
) -> dict[str, Any]:
    """Complete the run directory, whatever the environment managed to write; returns the summary."""
    rescue_pulls(directory, scenario)
    outcome = collect(directory.path, scenario)
    summary = summarise(scenario, outcome, ending.wall_s)
    summary |= {
        "runtime": runtime,
        "run": run.hex(),
        "interrupted": ending.stopped_by is not None,
        "failure": ending.failure,
        "agents_lost": [lost.to_json() for lost in ending.lost],
        "faults": read_faults(directory.path),
        "events": [{"round": round_, "what": what} for round_, what in outcome.events],
    }
    directory.write_json("summary.json", summary)
    return summary


def rescue_pulls(directory: RunDirectory, scenario: Scenario) -> None:
    """Write pulls.npz and the regret from the journal where the environment could not; empty where there is none."""
    path = directory.path
    if (path / PULLS).is_file():
        return
    terms = read_terms(path)
    if terms is not None:
        store = Store.open(path)
        try:
            bandit = SharedBandit(terms, lambda _connection: False)
            store.take_up(bandit)
            store.write_results(bandit)
        finally:
            store.close()
        return
    shape = (scenario.settings.agents, scenario.settings.rounds)
    arm = np.full(shape, NOT_PULLED, dtype=np.uint16)
    directory.write_pulls(arm, np.full(shape, NO_REWARD, dtype=np.int32))
    directory.write_regret(arm, scenario.spec.arms.means, "Group regret")


def collect(run_dir: Path, scenario: Scenario) -> Outcome:
    """What happened: the pulls as the environment counted them, the rest as the agents reported it."""
    with np.load(run_dir / PULLS, allow_pickle=False) as file:
        outcome = Outcome(np.asarray(file["arm"], dtype=np.uint16), np.asarray(file["reward"], dtype=np.int32))
    reports = read_reports(run_dir)
    outcome.messages = sum(report.messages for report in reports)
    outcome.bytes = sum(report.bytes for report in reports)
    outcome.dropped.update(dropped_in_all(reports))
    outcome.events = read_events(run_dir / fault_log.FILE)
    charge(outcome, scenario, reports)
    settle(outcome, run_dir)
    return outcome


def read_reports(run_dir: Path) -> list[Report]:
    """The newest report of each agent that made one."""
    path = run_dir / REPORTS
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [report_from_json(report) for report in content["reports"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise AgentdError(f"cannot read the agents' reports in {path}: {fault}") from None


def charge(outcome: Outcome, scenario: Scenario, reports: Sequence[Report]) -> None:
    """What each agent spent, as its own ledger has it; never below what it reported.

    When an agent releases follows from how often it pulled each arm, so the pulls tell what its ledger held, also where
    it died before its last report. An agent that came back without its state began a new ledger; counting its lives as
    one only overstates what it spent. Where batches close is the group's affair with sealed: there a pull counts as
    released, and how many releases there were is not known.
    """
    spec = scenario.spec
    agents = outcome.arm.shape[0]
    names = [spec.algorithm_of(agent) for agent in range(agents)]
    if not any(ALGORITHMS[name].noised for name in names):
        return
    pulls = np.array([np.bincount(row[row != NOT_PULLED], minlength=spec.arms.count) for row in outcome.arm])
    outcome.epsilon, outcome.epsilon_at_delta = np.full((2, agents), math.inf)
    releases = 0
    for name in {name for name in names if ALGORITHMS[name].noised}:
        mine = [agent for agent in range(agents) if names[agent] == name]
        if ALGORITHMS[name].transcript_private:
            outcome.epsilon[mine] = np.where(pulls[mine].any(axis=1), _one_release(scenario), 0.0)
            outcome.epsilon_at_delta[mine] = outcome.epsilon[mine]
            continue
        worst = pulls[mine].max(axis=1)
        spent = _spent_on_one_arm(name, scenario, np.unique(pulls[mine]))
        outcome.epsilon[mine] = [spent[int(count)][0] for count in worst]
        outcome.epsilon_at_delta[mine] = [spent[int(count)][1] for count in worst]
        releases += sum(spent[int(count)][2] for count in pulls[mine].ravel())
    outcome.releases = None if any(ALGORITHMS[name].transcript_private for name in names) else releases
    for report in reports:
        if report.agent < agents:
            reported = epsilon_of(report)
            # What is reported was rounded, by less than one unit.
            least = reported - 1 / MICRO if reported is not None else math.inf
            outcome.epsilon[report.agent] = max(outcome.epsilon[report.agent], least)


def settle(outcome: Outcome, run_dir: Path) -> None:
    """Let the ledgers that agents kept on disk take the place of what was worked out from their pulls."""
    from agentd.shell.state.reader import DATABASE, ledger_of, read_state  # only a testbed that kept state loads SQLite

    spent: dict[int, Ledger] = {}
    for agent in range(outcome.arm.shape[0]):
        if (run_dir / state_name(agent) / DATABASE).is_file():
            with contextlib.suppress(StateUnusable):  # damaged, or never used: the pulls still tell
                spent[agent] = ledger_of(read_state(run_dir / state_name(agent)))
    if outcome.epsilon is None or outcome.epsilon_at_delta is None:
        return
    for agent, ledger in spent.items():
        outcome.epsilon[agent] = ledger.epsilon_one_reward()
        outcome.epsilon_at_delta[agent] = ledger.epsilon_one_reward(DELTA)
    if len(spent) == outcome.arm.shape[0]:
        outcome.releases = sum(ledger.releases() for ledger in spent.values())


def _one_release(scenario: Scenario) -> float:
    """What sealed spends per reward if its batch closed, and its pulls do not tell whether it did: no more than ε."""
    return UNIT / Weighting.of(scenario.settings.epsilon).scale


class _Silence:
    """Noise for a ledger's sake: how much of it was drawn decides nothing there."""

    def draw(self, arm: int, scale: int) -> int:  # noqa: ARG002
        return 0


def _spent_on_one_arm(
    name: str, scenario: Scenario, counts: NDArray[np.integer[Any]]
) -> dict[int, tuple[float, float, int]]:
    """After each of these numbers of pulls of one arm: ε, ε at DELTA, and how many releases there were."""
    policy = make_policy(name, scenario.spec.policy, 0, _Silence())
    ledger = policy.ledger
    if ledger is None:
        raise AgentdError(f"{name} is said to add noise but keeps no ledger")
    spent = {}
    pulled = 0
    for count in counts.tolist():
        for trial in range(pulled + 1, count + 1):
            policy.observe(intend(policy, trial, 0), 0, 0)
        pulled = count
        spent[count] = (ledger.epsilon_one_reward(), ledger.epsilon_one_reward(DELTA), ledger.releases())
    return spent

"""From what a testbed left in its run directory to the figures of its summary."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.core.policy import ALGORITHMS, first_release, intend, make_policy
from agentd.core.privacy.ledger import Ledger
from agentd.environment import lives_spent
from agentd.environment.live_status import blamed_in, dropped_in_all, epsilon_of, in_units, report_from_json
from agentd.environment.lives_spent import LivesSpent
from agentd.environment.shared_bandit import SharedBandit
from agentd.environment.store import REPORTS, Store, read_terms
from agentd.errors import AgentdError, StateUnusable
from agentd.runs import blamed
from agentd.runs.decisive import in_words
from agentd.runs.directory import RunDirectory
from agentd.runs.fault_log import read_events, read_faults
from agentd.runs.regret import NO_REWARD, NOT_PULLED
from agentd.runs.scenario import Scenario
from agentd.runs.spec import Outcome, scheduled_at_delta
from agentd.runs.summary import summarise
from agentd.untrusted import read_json_in
from agentd.wire.environment_messages import MICRO, Report
from agentd.wire.terms_digest import digest
from deploy.plan.plan import state_name
from deploy.testbed.supervisor import Ending

PULLS = "pulls.npz"
EARLIER_REPORTS = "reports-before.json"
"""What agents had reported when their run was taken up again: they count from 0 since."""


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
        "terms": _terms_digest(directory.path),
        "interrupted": ending.stopped_by is not None,
        "failure": ending.failure,
        "blamed": blamed.to_json(blamed_in(read_reports(directory.path), range(scenario.settings.agents))),
        "agents_lost": [lost.to_json() for lost in ending.lost],
        "faults": read_faults(directory.path),
        "events": [{"round": round_, "what": what} for round_, what in outcome.events],
    }
    directory.write_json("summary.json", summary)
    return summary


def add_yardstick(
    directory: RunDirectory, scenario: Scenario, summary: dict[str, Any], stop: Callable[[], bool]
) -> dict[str, Any]:
    """Hold the run against what others would have come to with its arms, seed and rounds; returns the summary with it.

    The directory is complete before: whoever cannot wait loses this only.
    """
    from agentd.experiment.played_beside import play_beside  # when all is over: nobody waits for its import before

    arm = _read_pulls(directory.path)[0]
    yardstick = play_beside(scenario.spec, arm, stop)
    summary = {**summary, "yardstick": yardstick.to_json()}
    directory.write_json("summary.json", summary)
    events, title = read_events(directory.path), f"Group regret, {summary['algorithm']}"
    means = scenario.spec.arms.means
    directory.write_regret(arm, means, title, events, subtitle=in_words(summary), yardstick=yardstick)
    return summary


def _terms_digest(path: Path) -> str | None:
    """Of what the run was agreed on, as its environment wrote it down; None where it did not come to that."""
    terms = read_terms(path)
    return digest(terms.agreed) if terms is not None else None


def rescue_pulls(directory: RunDirectory, scenario: Scenario) -> None:
    """Write pulls.npz and the regret from the journal where the environment could not; empty where there is none."""
    terms, settings = read_terms(directory.path), scenario.settings
    if terms is not None and (terms.agents, terms.rounds) != (settings.agents, settings.rounds):
        raise AgentdError(f"what the environment left in {directory.path} is of another run than it was asked for")
    if write_results(directory.path):
        return
    shape = (scenario.settings.agents, scenario.settings.rounds)
    arm = np.full(shape, NOT_PULLED, dtype=np.uint16)
    directory.write_pulls(arm, np.full(shape, NO_REWARD, dtype=np.int32))
    directory.write_regret(arm, scenario.spec.arms.means, "Group regret")


def write_results(path: Path) -> bool:
    """Write pulls.npz and the regret from the journal, unless they are there; False where there is no journal."""
    if (path / PULLS).is_file():
        return True
    terms = read_terms(path)
    if terms is None:
        return False
    store = Store.open(path)
    try:
        bandit = SharedBandit(terms)
        store.take_up(bandit)
        store.write_results(bandit)
    finally:
        store.close()
    return True


def collect(run_dir: Path, scenario: Scenario) -> Outcome:
    """What happened: the pulls as the environment counted them, the rest as the agents reported it."""
    outcome = Outcome(*_read_pulls(run_dir))
    reports = read_reports(run_dir)
    said = [*read_reports(run_dir, EARLIER_REPORTS), *reports]
    outcome.messages = sum(report.messages for report in said)
    outcome.bytes = sum(report.bytes for report in said)
    outcome.dropped.update(dropped_in_all(said))
    outcome.events = read_events(run_dir)
    charge(outcome, scenario, reports)
    settle(outcome, run_dir, scenario)
    add_lives(outcome, read_lives(run_dir))
    return outcome


def _read_pulls(run_dir: Path) -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
    with np.load(run_dir / PULLS, allow_pickle=False) as file:
        return np.asarray(file["arm"], dtype=np.uint16), np.asarray(file["reward"], dtype=np.int32)


def read_reports(run_dir: Path, name: str = REPORTS) -> list[Report]:
    """The newest report of each agent that made one."""
    path = run_dir / name
    try:
        content = read_json_in(run_dir, name)
        return [report_from_json(report) for report in content["reports"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise AgentdError(f"cannot read the agents' reports in {path}: {fault}") from None


def read_lives(run_dir: Path) -> dict[int, LivesSpent]:
    """What each agent had spent in lives before the one that reported last."""
    try:
        content = read_json_in(run_dir, REPORTS)
        return {report["agent"]: lives_spent.from_json(report)[1] for report in content["reports"]}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise AgentdError(f"cannot read the agents' reports in {run_dir / REPORTS}: {fault}") from None


def add_lives(outcome: Outcome, lives: Mapping[int, LivesSpent]) -> None:
    """Let what earlier lives of an agent have spent stay: of one reward the largest counts, of one in each the sum."""
    if outcome.epsilon is None:
        return
    outcome.epsilon_over_lives = outcome.epsilon.copy()
    for agent, before in lives.items():
        if agent < len(outcome.epsilon) and before.lives:
            largest, total = (math.inf if each is None else each for each in map(in_units, before[1:]))
            outcome.epsilon_over_lives[agent] += total
            outcome.epsilon[agent] = max(outcome.epsilon[agent], largest)
            outcome.lives = max(outcome.lives, before.lives + 1)


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
        if ALGORITHMS[name].disjoint:
            outcome.epsilon[mine] = np.where(pulls[mine].any(axis=1), _one_release(name, scenario), 0.0)
            outcome.epsilon_at_delta[mine] = scheduled_at_delta(spec, name)
            continue
        worst = pulls[mine].max(axis=1)
        spent = _spent_on_one_arm(name, scenario, np.unique(pulls[mine]))
        outcome.epsilon[mine] = [spent[int(count)][0] for count in worst]
        outcome.epsilon_at_delta[mine] = scheduled_at_delta(spec, name)
        releases += sum(spent[int(count)][1] for count in pulls[mine].ravel())
    outcome.releases = None if any(ALGORITHMS[name].disjoint for name in names) else releases
    for report in reports:
        if report.agent < agents:
            reported = epsilon_of(report)
            # What is reported was rounded up, by less than one unit: then the pulls tell it exactly.
            if reported is None or reported - 1 / MICRO >= outcome.epsilon[report.agent]:
                outcome.epsilon[report.agent] = math.inf if reported is None else reported


def settle(outcome: Outcome, run_dir: Path, scenario: Scenario) -> None:
    """Let the ledgers that agents kept on disk take the place of what was worked out from their pulls."""
    from agentd.shell.state.reader import DATABASE, ledger_of, read_state  # only for a testbed that kept state

    spent: dict[int, Ledger] = {}
    lost: set[int] = set()
    for agent in range(outcome.arm.shape[0]):
        if (run_dir / state_name(agent) / DATABASE).is_file():
            with contextlib.suppress(StateUnusable):  # damaged, or never used: the pulls still tell
                saved = read_state(run_dir / state_name(agent))
                spent[agent] = ledger_of(saved)
                if any(value is None for _, value in saved.releases):
                    lost.add(agent)
    if outcome.epsilon is None or outcome.epsilon_at_delta is None:
        return
    for agent, ledger in spent.items():
        outcome.epsilon[agent] = ledger.epsilon_one_reward()
        name = scenario.spec.algorithm_of(agent)
        outcome.epsilon_at_delta[agent] = scheduled_at_delta(scenario.spec, name, lost=agent in lost)
    if len(spent) == outcome.arm.shape[0]:
        outcome.releases = sum(ledger.releases() for ledger in spent.values())


def _one_release(name: str, scenario: Scenario) -> float:
    """What is spent per reward if its batch closed, and the pulls do not tell whether it did."""
    cost = first_release(name, scenario.spec.policy)
    return math.inf if cost is None else cost


class _Silence:
    """Noise for a ledger's sake: how much of it was drawn decides nothing there."""

    def draw(self, arm: int, scale: int) -> int:  # noqa: ARG002
        return 0


def _spent_on_one_arm(name: str, scenario: Scenario, counts: NDArray[np.integer[Any]]) -> dict[int, tuple[float, int]]:
    """After each of these numbers of pulls of one arm: ε, and how many releases there were."""
    policy, silence = make_policy(name, scenario.spec.policy, 0), _Silence()
    ledger = policy.ledger
    if ledger is None:
        raise AgentdError(f"{name} is said to add noise but keeps no ledger")
    spent = {}
    pulled = 0
    for count in counts.tolist():
        for trial in range(pulled + 1, count + 1):
            intent = intend(policy, trial, 0)
            if intent.noise is not None:
                intent.noise.draw(silence)
            policy.observe(intent, 0, 0)
        pulled = count
        spent[count] = (ledger.epsilon_one_reward(), ledger.releases())
    return spent

"""Taking up a run whose supervisor died: what it left is ended, and everything starts again from journal and states.

Agents cannot be adopted: whoever started them dies with the supervisor, and they notice. So what still runs of them is
ended, by the marks that `agentd down` goes by. The environment then finds every pull in its journal; agents with state
go on where they stopped, others come back as after any crash. Only files of the user's own are believed.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path

from agentd.environment.live_status import report_to_json
from agentd.environment.run_terms import RunTerms
from agentd.environment.store import REPORTS, TERMS
from agentd.errors import AgentdError, ConfigurationError
from agentd.files import OwnDirectory
from agentd.runs import fault_log
from agentd.runs.directory import RunDirectory
from agentd.runs.scenario import Scenario, decided
from agentd.runs.status import FILE as STATUS
from agentd.runs.status import read_status
from agentd.untrusted import decode_json
from deploy.plan.plan import Plan
from deploy.plan.written_plan import read_manifest, read_plan
from deploy.testbed import control, registry
from deploy.testbed.outcome import EARLIER_REPORTS, PULLS, read_reports
from deploy.testbed.registry import State, Testbed
from deploy.testbed.runtime import Prepared, find_runtime
from topology.node_link import parse
from topology.validation import TopologyError

WHAT = "taken up again after its supervisor died"


def take_up(run_dir: str) -> Prepared:
    """A run that lost its supervisor, ready to go on; refuses one that is over, runs, or is none."""
    place = Path(run_dir).absolute()
    own = OwnDirectory(place)
    try:
        testbed = _require_crashed(own, place)
        _require_no_links(place)
        scenario, plan = _read_back(own)
        prepared = find_runtime(testbed.runtime).take_up(testbed, scenario, plan, RunDirectory(place))
        try:
            _clear(place)
        except BaseException:
            prepared.release()
            raise
    except BaseException:
        own.close()
        raise

    def release() -> None:
        prepared.release()
        with contextlib.suppress(OSError):  # given back before
            own.close()

    return replace(prepared, release=release)


def _require_crashed(own: OwnDirectory, place: Path) -> Testbed:
    text = own.read(registry.FILE)
    if text is None:
        raise ConfigurationError(f"{place} holds no testbed: there is no {registry.FILE} in it; see agentd ps")
    testbed = registry.parse(text, place)
    if testbed.state is State.ENDED:
        raise ConfigurationError(f"the run in {place} is over; start another one with agentd up")
    lives = f"the run in {place} has a supervisor: process {testbed.supervisor.pid}; end it with agentd down {place}"
    if testbed.is_supervised():
        raise AgentdError(lives)
    own.lock(f"the run in {place} is being taken up by another agentd up --resume")
    return testbed


def _require_no_links(place: Path) -> None:
    """Refuse a directory whose logs or states would be written elsewhere; we make no links."""
    for directory, rooms, files in os.walk(place):
        if links := [name for name in (*rooms, *files) if (Path(directory) / name).is_symlink()]:
            raise ConfigurationError(
                f"{Path(directory) / links[0]} is a link, and agentd makes none; see who made it, remove it, try again"
            )


def _read_back(own: OwnDirectory) -> tuple[Scenario, Plan]:
    terms = _terms(own)
    try:
        graph = parse(_required(own, "topology.json"))
    except TopologyError as fault:
        raise ConfigurationError(f"cannot use {own.path / 'topology.json'}: {fault}") from None
    settings, liars = read_manifest(_required(own, "manifest.json"))
    if settings.agents != graph.nodes:
        raise ConfigurationError(f"{own.path} has {settings.agents} agents and a graph of {graph.nodes}")
    scenario = decided(settings, graph, terms.arms, seed=terms.seed, liars=liars)
    plan = read_plan(_required(own, "plan.json"), scenario)
    if plan.run != terms.run:
        raise ConfigurationError(f"{own.path} holds the plan of one run and the journal of another; nothing can go on")
    return scenario, plan


def _terms(own: OwnDirectory) -> RunTerms:
    text = own.read(TERMS)
    if text is None:
        raise ConfigurationError(f"the run in {own.path} had not begun: there is no {TERMS}; start it anew")
    try:
        return RunTerms.from_json(decode_json(text))
    except ValueError as fault:
        raise ConfigurationError(f"cannot use {own.path / TERMS}: {fault}") from None


def _required(own: OwnDirectory, name: str) -> bytes:
    text = own.read(name)
    if text is None:
        raise ConfigurationError(f"there is no {name} in {own.path}: it is not complete enough to be taken up")
    return text


def _clear(place: Path) -> None:
    """Remove what would be taken for news, and write down what agents said before as said before.

    An agent that is told to stop says that it is done; that was so of its process, not of its trials.
    """
    fault_log.append(place, fault_log.current_round(read_status(place)), fault_log.Fault("resume", WHAT))
    for name in (control.SOCKET, STATUS, PULLS, "regret.csv", "regret.svg", "summary.json"):
        (place / name).unlink(missing_ok=True)
    said = [report_to_json(report) for report in read_reports(place)]
    earlier = [report_to_json(report) for report in read_reports(place, EARLIER_REPORTS)]
    RunDirectory(place).write_json(EARLIER_REPORTS, {"reports": [*earlier, *said]})
    nothing_yet = {"messages": 0, "bytes": 0, "dropped": {}, "done": False}
    RunDirectory(place).write_json(REPORTS, {"reports": [report | nothing_yet for report in said]})

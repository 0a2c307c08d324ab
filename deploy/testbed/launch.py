"""A testbed from its plan to its summary: write it down, carry it out, write down what came of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentd.core.message import TOKEN_BYTES
from agentd.files import DIRECTORY, open_own, replace_text
from agentd.interrupts import signals_noted
from agentd.runs.directory import RunDirectory
from agentd.runs.scenario import Scenario
from agentd.runs.seats import seat_hash, write_seats
from agentd.runs.summary import manifest
from deploy.plan.names import SUPERVISOR_LOG
from deploy.plan.plan import LINK_FAULTS, RUN_BYTES, SEAT_HASHES, Plan, seat_name
from deploy.testbed import registry
from deploy.testbed.lifecycle import grace_for
from deploy.testbed.outcome import add_yardstick, write_summary
from deploy.testbed.processes import Processes
from deploy.testbed.runtime import Prepared
from deploy.testbed.supervisor import Display, Ending, Supervisor
from topology.graph_files import to_node_link


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a testbed."""

    summary: dict[str, Any]
    ending: Ending


def fresh_run() -> bytes:
    """The id of a run: no two have the same, not even of one seed, so that frames of one are never another's."""
    return secrets.token_bytes(RUN_BYTES)


def new_directory(scenario: Scenario, run_dir: str | Path | None) -> RunDirectory:
    """The run directory, by its full name."""
    directory = RunDirectory.create(run_dir, f"up-{scenario.settings.algorithm}")
    return RunDirectory(directory.path.resolve())


def write_plan(directory: RunDirectory, scenario: Scenario, plan: Plan, runtime: str) -> None:
    """Write down what is going to run."""
    (directory.path / "logs").mkdir(mode=DIRECTORY)
    (directory.path / LINK_FAULTS).parent.mkdir(mode=DIRECTORY)
    directory.write_json("manifest.json", manifest(scenario, runtime))
    directory.write_topology(to_node_link(scenario.graph))
    directory.write_json("plan.json", plan.to_json())
    if plan.keys is None:
        _draw_seats(directory.path, plan)


def _draw_seats(place: Path, plan: Plan) -> None:
    """Give every agent the secret of its seat, in a file that only its owner may read, and the environment the hashes.

    So nobody but the agents of this launcher takes a seat, and one that comes back without its state still has its own.
    """
    (place / seat_name(0)).parent.parent.mkdir(mode=DIRECTORY)
    hashes = {}
    for agent in plan.agents:
        token, own = secrets.token_bytes(TOKEN_BYTES), place / seat_name(agent.id)
        own.parent.mkdir(mode=DIRECTORY)
        replace_text(own, f"{token.hex()}\n")
        hashes[agent.id] = seat_hash(plan.run, agent.id, token)
    write_seats(place / SEAT_HASHES, hashes)


def carry_out(
    prepared: Prepared,
    display: Display,
    *,
    processes: Processes | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> Result:
    """Run a prepared testbed to its end, in this process."""
    plan, directory, runtime = prepared.plan, prepared.directory, prepared.runtime
    about = {"runtime": runtime.name, "project": prepared.project, "sockets": plan.sockets or plan.keys or ""}
    testbed = registry.new_testbed(plan.run, directory.path, len(plan.agents), **about)
    log = -1
    try:
        log = open_own(
            directory.path / SUPERVISOR_LOG, os.O_WRONLY | os.O_APPEND
        )  # open until the end: it shows who we are
        registry.record(testbed)
        registry.announce(testbed)
    except BaseException:
        _close(log)
        prepared.release()
        raise
    try:
        supervisor = Supervisor(
            plan,
            prepared.environment,
            testbed,
            processes if processes is not None else prepared.processes(),
            display,
            grace_s=grace_for(len(plan.agents), runtime.grace_per_agent_s),
            revivals=runtime.revivals,
            on_ready=on_ready,
        )
        ending = supervisor.run()
        with signals_noted() as came:  # everything has stopped; one more Ctrl-C must not cost the summary
            summary = write_summary(directory, prepared.scenario, ending, plan.run, runtime.name)
            return Result(add_yardstick(directory, prepared.scenario, summary, lambda: bool(came)), ending)
    finally:
        try:
            registry.mark_ended(registry.read(directory.path))
        finally:
            _close(log)
            prepared.release()


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)

"""A testbed from its plan to its summary: write it down, carry it out, write down what came of it."""

from __future__ import annotations

import contextlib
import secrets
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentd.run.directory import RunDirectory
from agentd.run.scenario import Scenario
from agentd.run.summary import manifest
from deploy.plan.plan import LINK_FAULTS, RUN_BYTES, Plan, run_of_seed
from deploy.testbed import registry
from deploy.testbed.lifecycle import grace_for
from deploy.testbed.outcome import write_summary
from deploy.testbed.processes import Processes
from deploy.testbed.runtime import Prepared
from deploy.testbed.supervisor import Display, Ending, Supervisor
from topology.graph_files import to_node_link


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a testbed."""

    summary: dict[str, Any]
    ending: Ending


def run_of(scenario: Scenario) -> bytes:
    """The id of a run: of its seed, where the operator chose it."""
    seed = scenario.settings.seed
    return run_of_seed(seed) if seed is not None else secrets.token_bytes(RUN_BYTES)


def new_directory(scenario: Scenario, run_dir: str | Path | None) -> RunDirectory:
    """The run directory, by its full name."""
    directory = RunDirectory.create(run_dir, f"up-{scenario.settings.algorithm}")
    return RunDirectory(directory.path.resolve())


def write_plan(directory: RunDirectory, scenario: Scenario, plan: Plan, runtime: str) -> None:
    """Write down what is going to run."""
    (directory.path / "logs").mkdir()
    (directory.path / LINK_FAULTS).parent.mkdir()
    directory.write_json("manifest.json", manifest(scenario, runtime))
    directory.write_json("topology.json", to_node_link(scenario.graph))
    directory.write_json("plan.json", plan.to_json())


def carry_out(
    prepared: Prepared,
    display: Display,
    *,
    processes: Processes | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> Result:
    """Run a prepared testbed to its end, in this process."""
    plan, directory, runtime = prepared.plan, prepared.directory, prepared.runtime
    about = {"runtime": runtime.name, "project": prepared.project}
    testbed = registry.new_testbed(plan.run, directory.path, len(plan.agents), **about)
    registry.record(testbed)
    registry.announce(testbed)
    try:
        supervisor = Supervisor(
            plan,
            prepared.environment,
            testbed,
            processes if processes is not None else prepared.processes(),
            display,
            grace_s=grace_for(len(plan.agents), runtime.grace_per_agent_s),
            on_ready=on_ready,
        )
        ending = supervisor.run()
        with _undisturbed():
            return Result(write_summary(directory, prepared.scenario, ending, plan.run, runtime.name), ending)
    finally:
        registry.mark_ended(registry.read(directory.path))
        prepared.release()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Everything has stopped; one more Ctrl-C must not cost the summary."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""A testbed from its scenario to its summary: prepare it, carry it out, write down what came of it."""

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
from agentd.settings import Pace
from deploy.local import preflight
from deploy.local.children import EnvironmentPart
from deploy.local.local_processes import Crew as LocalCrew
from deploy.plan.plan import LINK_FAULTS, RUN_BYTES, Keep, Plan, make_plan, run_of_seed
from deploy.plan.ports import Reservation, reserve
from deploy.testbed import registry
from deploy.testbed.lifecycle import grace_for
from deploy.testbed.outcome import write_summary
from deploy.testbed.runtime import Crew
from deploy.testbed.supervisor import Display, Ending, Supervisor
from topology.graph_files import to_node_link

RUNTIME = "local"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A testbed of which everything is decided and nothing runs."""

    scenario: Scenario
    plan: Plan
    directory: RunDirectory
    reservation: Reservation
    runtime: str = RUNTIME
    project: str = ""
    """What its containers and networks carry as label; empty: it has none."""
    hire: Callable[[], Crew] | None = None
    """Makes whoever carries it out; None: forks of this machine."""

    @property
    def part(self) -> EnvironmentPart:
        """What the environment is told."""
        spec = self.scenario.spec
        return EnvironmentPart(
            listen=self.plan.environment,
            arms=spec.arms.to_json(),
            agents=spec.network.agents,
            rounds=spec.rounds,
            seed=spec.seed,
            run=self.plan.run,
            run_dir=str(self.directory.path),
        )


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a testbed."""

    summary: dict[str, Any]
    ending: Ending


def prepare(
    scenario: Scenario,
    *,
    run_dir: str | Path | None,
    base_port: int | None = None,
    pace: Pace | None = None,
    keep: Keep | None = None,
) -> Prepared:
    """Reserve ports, check the machine and write down the plan; whatever is missing is refused here, in one line."""
    settings = scenario.settings
    run = run_of(scenario)
    pace = pace if pace is not None else Pace()
    reservation = reserve(settings.agents, base_port)
    try:
        port = reservation.base_port
        preflight.check(make_plan(scenario, run=run, base_port=port, run_dir=Path(), pace=pace, keep=keep))
        directory = new_directory(scenario, run_dir)
        plan = make_plan(scenario, run=run, base_port=port, run_dir=directory.path, pace=pace, keep=keep)
        write_plan(directory, scenario, plan, RUNTIME)
    except BaseException:
        reservation.release()
        raise
    return Prepared(scenario, plan, directory, reservation)


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
    prepared: Prepared, display: Display, *, crew: Crew | None = None, on_ready: Callable[[], None] = lambda: None
) -> Result:
    """Run a prepared testbed to its end, in this process."""
    plan, directory = prepared.plan, prepared.directory
    about = {"runtime": prepared.runtime, "project": prepared.project}
    testbed = registry.new_testbed(plan.run, directory.path, len(plan.agents), **about)
    registry.record(testbed)
    registry.announce(testbed)
    try:
        hands = crew if crew is not None else prepared.hire() if prepared.hire else LocalCrew(directory.path)
        grace_s = grace_for(len(plan.agents), containers=bool(prepared.project))
        ending = Supervisor(plan, prepared.part, testbed, hands, display, grace_s=grace_s, on_ready=on_ready).run()
        with _undisturbed():
            return Result(write_summary(directory, prepared.scenario, ending, plan.run, prepared.runtime), ending)
    finally:
        registry.mark_ended(registry.read(directory.path))
        prepared.reservation.release()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Everything has stopped; one more Ctrl-C must not cost the summary."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

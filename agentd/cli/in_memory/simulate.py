"""agentd simulate: a testbed in memory."""

from __future__ import annotations

import json
import time
from typing import Any

import click
from click.core import ParameterSource

from agentd.cli.options import FROM_ENVIRONMENT, testbed_options, testbed_settings
from agentd.errors import SettingsError
from agentd.runs.directory import RunDirectory, finite
from agentd.runs.scenario import Scenario, make_scenario
from agentd.runs.spec import Outcome
from agentd.runs.summary import banner, manifest, summarise, table
from agentd.simulation.engine import has_twin, refuse_what_needs_agents, run_vector
from agentd.simulation.network import run_agents
from agentd.simulation.traffic import count_bytes


@click.command(context_settings=FROM_ENVIRONMENT)
@testbed_options
@click.option(
    "--engine",
    type=click.Choice(["agents", "vector"]),
    default="vector",
    show_default=True,
    help="Core agents on an in-memory network, or all agents vectorised; the pulls are the same.",
)
@click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Print the summary as JSON.")
def simulate(engine: str, as_json: bool, run_dir: str | None, **flags: Any) -> None:
    """Run a testbed in memory: the same algorithms, graph, arms and noise as `agentd up`, without processes.

    \b
    agentd simulate --agents 200 --edge-probability 0.1 --algorithm private-ucb --seed 7
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    settings = testbed_settings(**flags)
    if settings.noise != "exact":
        raise SettingsError(
            f"a simulation draws noise from keyed streams; --noise {settings.noise} is for agents that are processes"
        )
    scenario = make_scenario(settings)
    if not has_twin(settings.algorithm) and _is_default("engine"):
        click.echo(f"{settings.algorithm} has no vectorised twin: it runs on the core agents", err=True)
        engine = "agents"
    if engine == "vector":
        refuse_what_needs_agents([scenario.spec])
    directory = RunDirectory.create(run_dir, f"simulate-{scenario.settings.algorithm}")
    if not as_json:
        click.echo(banner(scenario))
    started = time.perf_counter()
    outcome = _run(scenario, engine, quiet=as_json)
    wall_s = time.perf_counter() - started
    summary = write_run(directory, scenario, outcome, wall_s, runtime=f"simulate/{engine}")
    click.echo(json.dumps(finite(summary), ensure_ascii=False) if as_json else table(summary, directory.path))


def _is_default(option: str) -> bool:
    return click.get_current_context().get_parameter_source(option) is ParameterSource.DEFAULT


def _run(scenario: Scenario, engine: str, *, quiet: bool) -> Outcome:
    if engine == "agents":
        return run_agents(scenario.spec)
    with click.progressbar(length=scenario.spec.rounds, label="rounds", hidden=quiet) as bar:
        outcome = run_vector([scenario.spec], progress=lambda _round: bar.update(1))[0]
    outcome.bytes = count_bytes(scenario.spec, outcome.sent)
    return outcome


def write_run(
    directory: RunDirectory, scenario: Scenario, outcome: Outcome, wall_s: float, runtime: str
) -> dict[str, Any]:
    """Fill the run directory; returns the summary."""
    from topology.graph_files import to_node_link

    summary = summarise(scenario, outcome, wall_s, simulated=True)
    directory.write_json("manifest.json", manifest(scenario, runtime))
    directory.write_json("topology.json", to_node_link(scenario.graph))
    directory.write_pulls(outcome.arm, outcome.reward)
    directory.write_regret(outcome.arm, scenario.spec.arms.means, f"Group regret, {scenario.settings.algorithm}")
    directory.write_json("summary.json", summary)
    return summary

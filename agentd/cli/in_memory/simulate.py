"""agentd simulate: a testbed in memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from agentd.cli.configuration.explaining import ExplainingCommand
from agentd.cli.in_memory.simulate_repeated import simulate_repeated
from agentd.cli.options import FROM_ENVIRONMENT, scenario_of, testbed_options, testbed_settings
from agentd.cli.progress import progress
from agentd.errors import SettingsError
from agentd.experiment.played_beside import play_beside
from agentd.interrupts import signals_noted
from agentd.runs.decisive import in_words
from agentd.runs.directory import RunDirectory, finite
from agentd.runs.history.history_file import write_history
from agentd.runs.scenario import Scenario
from agentd.runs.spec import Outcome
from agentd.runs.summary import banner, manifest, summarise, table
from agentd.runs.yardstick import Yardstick
from agentd.simulation.engine import refuse_what_needs_agents, run_vector, spoken, what_needs_agents
from agentd.simulation.network import run_agents
from agentd.simulation.traffic import count_bytes
from agentd.simulation.traffic_history import history_of

_PATIENCE = 2
"""Signals that are taken note of: the first ends the run, the second what it is compared with, the third all."""


@click.command(cls=ExplainingCommand, context_settings=FROM_ENVIRONMENT)
@testbed_options
@click.option(
    "--engine",
    type=click.Choice(["agents", "vector"]),
    default="vector",
    show_default=True,
    help="Core agents on an in-memory network, or all agents vectorised; the pulls are the same.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="So many runs, with the seeds from --seed on: one table with mean and spread instead of the pulls.",
)
@click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Print the summary as JSON.")
def simulate(engine: str, repetitions: int, as_json: bool, run_dir: str | None, **flags: Any) -> None:
    """Run a testbed in memory: the same algorithms, graph, arms and noise as `agentd up`, without processes.

    \b
    agentd simulate --agents 200 --edge-probability 0.1 --seed 7
    agentd simulate --agents 20 --repetitions 30

    Ctrl-C ends it with what was made so far. Beside the regret stand those of the same arms and seed played alone and
    shared without privacy, and the lower bound. Exit codes: 0 done, 130 interrupted.

    An algorithm of your own is --algorithm mine.py:MyPolicy, a class in a file; see docs/library.md.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    settings = testbed_settings(**flags)
    if settings.noise != "exact":
        raise SettingsError(
            f"a simulation draws noise from keyed streams; --noise {settings.noise} is for agents that are processes"
        )
    if repetitions > 1:
        if not _is_default("engine"):
            raise SettingsError("--repetitions choose their engine themselves: leave --engine out")
        simulate_repeated(settings, repetitions, run_dir, as_json=as_json)
        return
    scenario = scenario_of(settings)
    if _is_default("engine") and (why := what_needs_agents(scenario.spec)) is not None:
        click.echo(f"{why}: it runs on the core agents", err=True)
        engine = "agents"
    if engine == "vector":
        refuse_what_needs_agents([scenario.spec])
    with signals_noted(_PATIENCE) as came:
        directory = RunDirectory.create(run_dir, f"simulate-{scenario.settings.algorithm}")
        if not as_json:
            click.echo(banner(scenario))
        started = time.perf_counter()
        outcome = _run(scenario, engine, lambda: bool(came), quiet=as_json)
        summary = summarise(scenario, outcome, time.perf_counter() - started, simulated=True)
        stopped_by = came[0] if came and summary["rounds_made"] < scenario.spec.rounds else None
        noted = len(came)
        yardstick = play_beside(scenario.spec, outcome.arm, lambda: len(came) > noted)
        summary |= {"interrupted": stopped_by is not None, "yardstick": yardstick.to_json()}
        write_run(directory, scenario, outcome, summary, yardstick, runtime=f"simulate/{engine}")
    click.echo(json.dumps(finite(summary), ensure_ascii=False) if as_json else table(summary, directory.path))
    if stopped_by is not None:
        click.echo("stopped before it was done", err=True)
        click.get_current_context().exit(128 + stopped_by)


def _is_default(option: str) -> bool:
    return click.get_current_context().get_parameter_source(option) is ParameterSource.DEFAULT


def _run(scenario: Scenario, engine: str, stop: Callable[[], bool], *, quiet: bool) -> Outcome:
    if engine == "agents":
        return run_agents(scenario.spec, stop=stop)
    with progress("rounds", scenario.spec.rounds, quiet=quiet) as advance:
        outcome = run_vector([scenario.spec], progress=lambda _round: advance(), stop=stop)[0]
    outcome.bytes = count_bytes(*spoken(scenario.spec, outcome))
    return outcome


def write_run(
    directory: RunDirectory,
    scenario: Scenario,
    outcome: Outcome,
    summary: dict[str, Any],
    yardstick: Yardstick,
    *,
    runtime: str,
) -> None:
    """Fill the run directory."""
    from topology.graph_files import to_node_link

    directory.write_json("manifest.json", manifest(scenario, runtime))
    directory.write_topology(to_node_link(scenario.graph))
    directory.write_pulls(outcome.arm, outcome.reward)
    means, title = scenario.spec.arms.means, f"Group regret, {summary['algorithm']}"
    directory.write_regret(outcome.arm, means, title, subtitle=in_words(summary), yardstick=yardstick)
    if runtime.endswith("vector") and (looks := history_of(scenario.spec, outcome)):
        write_history(directory.path, looks)
    directory.write_json("summary.json", summary)

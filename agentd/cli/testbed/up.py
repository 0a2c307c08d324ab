"""agentd up: start a testbed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from agentd.cli.options import FROM_ENVIRONMENT, group_options, taken, testbed_options, testbed_settings
from agentd.cli.testbed.common_options import plan_options
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.knobs import values_of
from agentd.errors import SettingsError
from agentd.run.directory import finite
from agentd.run.scenario import Scenario, make_scenario
from agentd.run.summary import banner, table
from agentd.settings import Pace, Spending
from deploy.plan.plan import Keep
from deploy.testbed import description, registry
from deploy.testbed.detach import Tell, detached
from deploy.testbed.display import Nothing, display
from deploy.testbed.launch import Result, carry_out
from deploy.testbed.runtime import DEFAULT_RUNTIME, RUNTIMES, Prepared, Wanted, find_runtime
from deploy.testbed.supervisor import LOG

F = TypeVar("F", bound=Callable[..., Any])

_UP_OPTIONS = (
    click.option(
        "--runtime",
        type=click.Choice(RUNTIMES),
        default=DEFAULT_RUNTIME,
        show_default=True,
        help="Where the processes run: on this machine, in containers of compose, or in those of a Docker swarm.",
    ),
    click.option("--detach", is_flag=True, help="Return once all agents run; `agentd down` ends it."),
    click.option(
        "--base-port",
        type=int,
        help="Ports of the environment and then of the agents, from here on.  [default: the first free row from 17000]",
    ),
    click.option(
        "--state/--no-state",
        default=None,
        help="Keep the agents' ledgers and state in the run directory.  [default: yes, unless --seed]",
    ),
    group_options(Spending),
    click.option(
        "--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Print nothing but the summary, as JSON."
    ),
)


def _up_options(command: F) -> F:
    for option in reversed(_UP_OPTIONS):
        command = option(command)
    return command


@click.command(context_settings=FROM_ENVIRONMENT)
@testbed_options
@_up_options
@plan_options
@click.pass_context
def up(
    ctx: click.Context,
    /,
    *,
    runtime: str,
    image: str | None,
    subnet: str | None,
    detach: bool,
    base_port: int | None,
    state: bool | None,
    as_json: bool,
    run_dir: str | None,
    **flags: Any,
) -> None:
    """Start a testbed: agents and their environment as processes of their own, talking over ZeroMQ.

    \b
    agentd up --agents 20 --edge-probability 0.3
    agentd up --agents 20 --detach && agentd status && agentd down
    agentd image build && agentd up --agents 8 --runtime compose

    Ctrl-C stops everything and leaves the run directory complete. Exit codes: 0 done, 1 agents failed, 130 interrupted.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    pace, spending = Pace(**taken(Pace, flags)), Spending(**taken(Spending, flags))
    scenario = make_scenario(testbed_settings(**flags))
    keep = _keep(scenario, state, spending)
    wanted = Wanted(run_dir=run_dir, pace=pace, keep=keep, base_port=base_port, image=image, subnet=subnet)
    prepared = find_runtime(runtime).prepare(scenario, wanted)
    if not as_json:
        click.echo(banner(scenario))
    if detach:
        ctx.exit(_up_detached(prepared, as_json=as_json))
    with display(quiet=as_json, terminal=sys.stdout.isatty()) as shown:
        result = carry_out(prepared, shown)
    ctx.exit(_say_result(prepared, result, as_json=as_json))


def _keep(scenario: Scenario, state: bool | None, spending: Spending) -> Keep:
    """What the agents write down; a seeded run has no privacy to keep a ledger of, and the disk costs time."""
    spec = scenario.spec
    noised = any(ALGORITHMS[spec.algorithm_of(agent)].noised for agent in range(scenario.graph.nodes))
    if spending.epsilon_budget is not None and not noised:
        raise SettingsError(f"--epsilon-budget: {scenario.settings.algorithm} adds no noise; no budget bounds it")
    keeps = scenario.settings.seed is None if state is None else state
    return Keep(state=keeps, **values_of(Spending, spending))


def _say_result(prepared: Prepared, result: Result, *, as_json: bool) -> int:
    place = prepared.directory.path
    if as_json:
        click.echo(json.dumps(finite({**result.summary, "run_dir": str(place)}), ensure_ascii=False))
    else:
        click.echo(table(result.summary, place))
    for lost in result.ending.lost[:5]:
        click.echo(f"lost: agent {lost.agent}: {lost.why}", err=True)
    if len(result.ending.lost) > 5:
        click.echo(f"lost: {len(result.ending.lost) - 5} more agents; see {place / LOG}", err=True)
    if result.ending.failure:
        click.echo(f"error: {result.ending.failure}", err=True)
    elif result.ending.stopped_by is not None:
        click.echo("stopped before it was done", err=True)
    return result.ending.exit_code


def _up_detached(prepared: Prepared, *, as_json: bool) -> int:
    place = prepared.directory.path

    def work(tell: Tell) -> None:
        result = carry_out(prepared, Nothing(), on_ready=lambda: tell({"failure": "", "exit_code": 0}))
        tell({"failure": result.ending.failure, "exit_code": result.ending.exit_code})

    news = detached(work, place / LOG)
    prepared.release()  # the supervisor has its own copies
    testbed = registry.read(place)
    if as_json:
        about = {"environment": prepared.plan.environment, "failure": news["failure"]}
        click.echo(json.dumps({**description.describe(testbed), **about, "supervisor": testbed.supervisor.pid}))
    elif not news["failure"]:
        click.echo(
            f"{testbed.agents} agents are running in {place}\nsee: agentd status, agentd logs; end it: agentd down"
        )
    if news["failure"]:
        click.echo(f"error: {news['failure']}", err=True)
    return int(news["exit_code"])

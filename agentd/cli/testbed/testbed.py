"""The testbed verbs: up, down, ps, logs, status."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from agentd.cli.options import FROM_ENVIRONMENT, group_options, taken, testbed_options, testbed_settings
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.knobs import values_of
from agentd.errors import SettingsError
from agentd.run.directory import finite
from agentd.run.scenario import Scenario, make_scenario
from agentd.run.summary import banner, table
from agentd.settings import Pace, Spending
from deploy.plan.plan import Keep
from deploy.testbed import description, merged_logs, registry
from deploy.testbed.detach import Tell, detached
from deploy.testbed.display import Nothing, display
from deploy.testbed.launch import Result, carry_out
from deploy.testbed.registry import Testbed
from deploy.testbed.runtime import DEFAULT_RUNTIME, RUNTIMES, Prepared, Wanted, find_runtime
from deploy.testbed.stopping import bring_down
from deploy.testbed.supervisor import LOG

F = TypeVar("F", bound=Callable[..., Any])

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_json_option = click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Machine-readable.")
_testbed_argument = click.argument("run_dir", required=False)

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

_PLAN_OPTIONS = (
    click.option(
        "--image", metavar="NAME", help="Of the containers; see agentd image build.  [default: agentd:VERSION]"
    ),
    click.option("--subnet", metavar="CIDR", help="Of the containers' network.  [default: one that is free]"),
    group_options(Pace),
)


def plan_options(command: F) -> F:
    """The flags that say how agents keep time and what containers are made of, for verbs that plan testbeds."""
    for option in reversed(_PLAN_OPTIONS):
        command = option(command)
    return command


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


@click.command(context_settings=_HELP)
@_testbed_argument
@click.option("--all", "everything", is_flag=True, help="Every testbed of this user.")
@_json_option
def down(run_dir: str | None, everything: bool, as_json: bool) -> None:
    """Stop a testbed and clean up after it: the one in RUN_DIR, or the newest that runs.

    Doing it twice does no harm.
    """
    if run_dir is not None and everything:
        raise SettingsError("name a run directory or say --all, not both")
    stopped = [bring_down(testbed) for testbed in _to_stop(run_dir, everything=everything)]
    if as_json:
        click.echo(json.dumps([asdict(one) for one in stopped]))
    for one in [] if as_json else stopped:
        click.echo(f"{one.run_dir}: {one.did}")
    if not stopped and not as_json:
        click.echo("no testbed is running")


def _to_stop(run_dir: str | None, *, everything: bool) -> list[Testbed]:
    if run_dir is not None:
        return [registry.read(Path(run_dir))]
    running = [testbed for testbed in registry.known() if testbed.is_running()]
    return running if everything else running[:1]


@click.command(context_settings=_HELP)
@_testbed_argument
@click.option("--all", "everything", is_flag=True, help="Ended testbeds too.")
@_json_option
def ps(run_dir: str | None, everything: bool, as_json: bool) -> None:
    """List the processes of running testbeds, or of the one in RUN_DIR."""
    testbeds = [registry.read(Path(run_dir))] if run_dir is not None else registry.known()
    shown = [testbed for testbed in testbeds if everything or run_dir is not None or testbed.is_running()]
    if as_json:
        click.echo(json.dumps([_listed(testbed) for testbed in shown]))
    elif shown:
        click.echo("\n\n".join(description.processes_text(testbed) for testbed in shown))
    else:
        click.echo("no testbed is running; start one with agentd up")


def _listed(testbed: Testbed) -> dict[str, Any]:
    return {
        "run": testbed.run,
        "run_dir": str(testbed.run_dir),
        "state": description.state_of(testbed),
        "processes": description.processes(testbed),
    }


@click.command(context_settings=_HELP)
@_testbed_argument
@_json_option
def status(run_dir: str | None, as_json: bool) -> None:
    """Show how a testbed is doing: the one in RUN_DIR, or the newest that runs, or the newest."""
    about = description.describe(registry.choose(run_dir))
    click.echo(json.dumps(finite(about), ensure_ascii=False) if as_json else description.status_text(about))


@click.command(context_settings=_HELP)
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@click.option("--run-dir", metavar="DIR", help="The testbed.  [default: the newest that runs, or the newest]")
@click.option("--follow", "-f", is_flag=True, help="Go on showing what is logged until the testbed has ended.")
@click.option("--lines", "-n", type=click.IntRange(0), default=50, show_default=True, help="How many lines to show.")
@_json_option
def logs(agents: tuple[str, ...], run_dir: str | None, follow: bool, lines: int, as_json: bool) -> None:
    """Show what the agents of a testbed logged, merged by time: of the named agents, `environment`, or of all."""
    testbed = registry.choose(run_dir)
    files = merged_logs.log_files(testbed, agents)

    def show(line: merged_logs.Line) -> None:
        click.echo(line.text if as_json else line.readable())

    for line in merged_logs.last_lines(files, lines):
        show(line)
    if follow:
        for line in merged_logs.new_lines(files, _while_running(testbed.run_dir)):
            show(line)


def _while_running(run_dir: Path) -> Iterator[bool]:
    while True:
        yield registry.read(run_dir).is_running()

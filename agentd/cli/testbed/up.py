"""agentd up: start a testbed."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from agentd.cli.configuration.explaining import ExplainingCommand
from agentd.cli.options import FROM_ENVIRONMENT, group_options, scenario_of, taken, testbed_options, testbed_settings
from agentd.cli.testbed.common_options import keep_of, keep_options, plan_options
from agentd.cli.watching.page_beside import PageBeside, page_beside
from agentd.errors import SettingsError
from agentd.interrupts import termination_as_interrupt
from agentd.quantities import counted
from agentd.runs.directory import finite
from agentd.runs.summary import banner, table
from agentd.settings import Hosting, Pace, Spending
from deploy.testbed import description, registry
from deploy.testbed.detach import start_detached
from deploy.testbed.display import display
from deploy.testbed.launch import Result, carry_out
from deploy.testbed.resume import take_up
from deploy.testbed.runtime import DEFAULT_RUNTIME, RUNTIMES, TRANSPORTS, Prepared, Wanted, find_runtime
from deploy.testbed.supervisor import LOG

F = TypeVar("F", bound=Callable[..., Any])

INTERRUPTED = 130

_UP_OPTIONS = (
    click.option(
        "--runtime",
        type=click.Choice(RUNTIMES),
        default=DEFAULT_RUNTIME,
        show_default=True,
        help="Where the processes run: on this machine, in containers of compose, or in those of a Docker swarm.",
    ),
    click.option(
        "--resume", metavar="DIR", help="Take up the run in DIR, whose supervisor died; with --detach and --json only."
    ),
    click.option("--detach", is_flag=True, help="Return once all agents run; `agentd down` ends it."),
    click.option("--dashboard", is_flag=True, help="Serve a web page that shows it, live and again; Ctrl-C ends it."),
    click.option(
        "--allow-chaos", is_flag=True, help="Let that page kill, pause and cut off agents; see agentd dashboard --help."
    ),
    click.option(
        "--transport",
        type=click.Choice(TRANSPORTS),
        help="How they speak: ipc keeps other users of this machine out, tcp has ports.  [default: ipc; with "
        "--base-port and in containers tcp]",
    ),
    click.option(
        "--base-port",
        type=int,
        help="Ports of the environment and then of the agents, from here on.  [default: the first free row from 17000]",
    ),
    click.option(
        "--keys",
        is_flag=True,
        help="Encrypt and authenticate all links with keys that are made for this testbed and thrown away with it.",
    ),
    group_options(Hosting),
    keep_options,
    click.option(
        "--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Print nothing but the summary, as JSON."
    ),
)


def _up_options(command: F) -> F:
    for option in reversed(_UP_OPTIONS):
        command = option(command)
    return command


@click.command(cls=ExplainingCommand, context_settings=FROM_ENVIRONMENT)
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
    dashboard: bool,
    allow_chaos: bool,
    transport: str | None,
    base_port: int | None,
    keys: bool,
    state: bool | None,
    as_json: bool,
    run_dir: str | None,
    resume: str | None,
    **flags: Any,
) -> None:
    """Start a testbed: agents and their environment as processes of their own, talking over ZeroMQ.

    \b
    agentd up --agents 20 --edge-probability 0.3
    agentd up --agents 20 --detach && agentd status && agentd down
    agentd up --agents 16 --rounds 20000 --dashboard
    agentd image build && agentd up --agents 8 --runtime compose

    Ctrl-C stops everything and leaves the run directory complete. Exit codes: 0 done, 1 agents failed, 130 interrupted.

    An environment that dies is started again, once. What else died goes on with agentd up --resume DIR.

    An algorithm of your own is --algorithm mine.py:MyPolicy, a class in a file; see docs/library.md.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    _refuse_odd_page(dashboard=dashboard, allow_chaos=allow_chaos, detach=detach)
    with termination_as_interrupt():  # from before there are sockets until a supervisor hears signals itself
        if resume is not None:
            _refuse_beside_resume(ctx)
            prepared = take_up(resume)
        else:
            pace, spending = Pace(**taken(Pace, flags)), Spending(**taken(Spending, flags))
            hosting = Hosting(**taken(Hosting, flags))
            scenario = scenario_of(testbed_settings(**flags))
            keep = keep_of(scenario, state, spending)
            wanted = Wanted(
                run_dir=run_dir,
                pace=pace,
                keep=keep,
                transport=transport,
                base_port=base_port,
                image=image,
                subnet=subnet,
                keys=keys or None,
                hosting=hosting,
            )
            prepared = find_runtime(runtime).prepare(scenario, wanted)
        with contextlib.ExitStack() as at_last:
            at_last.callback(prepared.release)
            page = at_last.enter_context(_page(prepared, allow_chaos=allow_chaos)) if dashboard else None
            code = _carried_out(prepared, detach=detach, as_json=as_json)
            if page is not None and code != INTERRUPTED:
                page.stay()
    ctx.exit(code)


def _refuse_odd_page(*, dashboard: bool, allow_chaos: bool, detach: bool) -> None:
    if allow_chaos and not dashboard:
        raise SettingsError("--allow-chaos is about the page: add --dashboard")
    if dashboard and detach:
        raise SettingsError("--dashboard ends with this command: leave out --detach, or start agentd dashboard beside")


def _page(prepared: Prepared, *, allow_chaos: bool) -> contextlib.AbstractContextManager[PageBeside]:
    return page_beside(prepared.directory.path, allow_chaos=allow_chaos)


def _carried_out(prepared: Prepared, *, detach: bool, as_json: bool) -> int:
    if not as_json:
        click.echo(banner(prepared.scenario))
    if detach:
        return _up_detached(prepared, as_json=as_json)
    with display(quiet=as_json, terminal=sys.stdout.isatty()) as shown:
        result = carry_out(prepared, shown)
    return _say_result(prepared, result, as_json=as_json)


def _refuse_beside_resume(ctx: click.Context) -> None:
    """A run is taken up as it was begun."""
    typed = [
        one for one in ctx.command.params if ctx.get_parameter_source(str(one.name)) is ParameterSource.COMMANDLINE
    ]
    if others := sorted(
        {one.opts[0] for one in typed} - {"--resume", "--detach", "--json", "--dashboard", "--allow-chaos"}
    ):
        raise SettingsError(f"--resume takes a run up as it was begun; leave out {', '.join(others)}")


def _say_result(prepared: Prepared, result: Result, *, as_json: bool) -> int:
    place = prepared.directory.path
    if as_json:
        click.echo(json.dumps(finite({**result.summary, "run_dir": str(place)}), ensure_ascii=False))
    else:
        click.echo(table(result.summary, place))
    for lost in result.ending.lost[:5]:
        click.echo(f"lost: agent {lost.agent}: {lost.why}", err=True)
    if len(result.ending.lost) > 5:
        click.echo(f"lost: {counted(len(result.ending.lost) - 5, 'more agent')}; see {place / LOG}", err=True)
    if result.ending.failure:
        click.echo(f"error: {result.ending.failure}", err=True)
    elif result.ending.stopped_by is not None:
        click.echo("stopped before it was done", err=True)
    return result.ending.exit_code


def _up_detached(prepared: Prepared, *, as_json: bool) -> int:
    place = prepared.directory.path
    news = start_detached(prepared)
    testbed = registry.read(place)
    if as_json:
        about = {"environment": prepared.plan.environment, "failure": news["failure"]}
        click.echo(json.dumps({**description.describe(testbed), **about, "supervisor": testbed.supervisor.pid}))
    elif not news["failure"]:
        run = "is running" if testbed.agents == 1 else "are running"
        click.echo(f"{counted(testbed.agents, 'agent')} {run} in {place}")
        click.echo("see: agentd status, agentd logs; end it: agentd down")
    if news["failure"]:
        click.echo(f"error: {news['failure']}", err=True)
    return int(news["exit_code"])

"""agentd chaos: break things in a running testbed on purpose, and see what the others make of it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from agentd.cli.configuration.forms import LASTING
from agentd.cli.testbed.common_options import run_dir_option
from agentd.runs import fault_log
from agentd.runs.directory import finite
from agentd.shell.link_faults import Side, parse_agents, parse_sides
from agentd.untrusted import printable
from deploy.chaos.chaos import Chaos
from deploy.testbed import registry

F = TypeVar("F", bound=Callable[..., Any])

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Agents(click.ParamType):  # type: ignore[type-arg]
    """`3` or `0-2,7`."""

    name = "AGENTS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Side:
        try:
            return value if isinstance(value, frozenset) else parse_agents(str(value))
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


class Cut(click.ParamType):  # type: ignore[type-arg]
    """`0-3|4-7`."""

    name = "CUT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Side, ...]:
        try:
            return value if isinstance(value, tuple) else parse_sides(str(value))
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


_agents = click.argument("agents", type=Agents())
_for = click.option(
    "--for",
    "for_s",
    type=LASTING,
    help="Undo it after this time (10s, 500ms, 2m); wait until then.",
)


def _verb(command: F) -> F:
    """What all verbs share: which testbed, and how to tell what was done."""

    @functools.wraps(command)
    def run(run_dir: str | None, as_json: bool, **arguments: Any) -> None:
        told = functools.partial(_tell, as_json=as_json)
        command(Chaos(registry.choose(run_dir)), told, **arguments)

    run = run_dir_option(run)
    return click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="One JSON line per fault.")(run)  # type: ignore[return-value]


Told = Callable[[list[dict[str, Any]]], None]


def _tell(records: list[dict[str, Any]], *, as_json: bool) -> None:
    for record in records:
        click.echo(json.dumps(record) if as_json else printable(f"round {record['round']}: {record['what']}"))


def _hold(chaos: Chaos, for_s: float | None, undo: Callable[[], list[dict[str, Any]]], told: Told) -> None:
    """Wait and undo; a Ctrl-C undoes at once. What ended in the meantime needs no undoing."""
    if for_s is None:
        return
    try:
        chaos.wait(for_s)
    finally:
        if chaos.is_running():
            told(undo())


@click.group(context_settings=_HELP)
def chaos() -> None:
    """Break things in a running testbed on purpose.

    \b
    agentd up --agents 8 --rounds 20000 --detach
    agentd chaos kill 3                    crash it; agentd chaos restart 3 brings it back
    agentd chaos pause 5 --for 10s
    agentd chaos partition '0-3|4-7' --for 10s
    agentd chaos loss 2 --rate 0.1         and agentd chaos heal

    Every fault is written into faults.jsonl of the run directory, into its summary and into its regret plot.
    Agents are numbers like 3 or ranges like 0-2,7.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have


@chaos.command(context_settings=_HELP)
@_agents
@_verb
def kill(chaos: Chaos, told: Told, agents: Side) -> None:
    """Let agents crash: SIGKILL, without a goodbye.

    Processes stay down until `agentd chaos restart`; containers come back by their restart policy.
    """
    told(chaos.to_agents("kill", agents))


@chaos.command(context_settings=_HELP)
@_agents
@_verb
def restart(chaos: Chaos, told: Told, agents: Side) -> None:
    """Start agents anew, after a crash if they run."""
    told(chaos.to_agents("restart", agents))


@chaos.command(context_settings=_HELP)
@_agents
@_for
@_verb
def pause(chaos: Chaos, told: Told, agents: Side, for_s: float | None) -> None:
    """Stop agents in their tracks; their connections stay open and silent."""
    told(chaos.to_agents("pause", agents))
    _hold(chaos, for_s, lambda: chaos.to_agents("resume", agents), told)


@chaos.command(context_settings=_HELP)
@_agents
@_verb
def resume(chaos: Chaos, told: Told, agents: Side) -> None:
    """Let paused agents go on."""
    told(chaos.to_agents("resume", agents))


@chaos.command(context_settings=_HELP)
@click.argument("cut", type=Cut(), metavar="'A|B'")
@_for
@_verb
def partition(chaos: Chaos, told: Told, cut: tuple[Side, ...], for_s: float | None) -> None:
    r"""Cut every link between the sides, as in '0-3|4-7' (the quotes are for the shell).

    Agents on no side hear both, and pass on what they hear. The cut is made in the agents' own links, within a second.
    """
    told(chaos.partition(cut))
    _hold(chaos, for_s, lambda: chaos.heal(cut), told)


@chaos.command(context_settings=_HELP)
@_verb
def heal(chaos: Chaos, told: Told) -> None:
    """End every partition, delay and loss."""
    told(chaos.heal())


@chaos.command(context_settings=_HELP)
@_agents
@click.option("--ms", type=float, required=True, help="Milliseconds; 0 ends it.")
@_for
@_verb
def delay(chaos: Chaos, told: Told, agents: Side, ms: float, for_s: float | None) -> None:
    """Hold back the frames that agents send and hear."""
    told(chaos.delay(agents, ms))
    _hold(chaos, for_s, lambda: chaos.delay(agents, 0.0), told)


@chaos.command(context_settings=_HELP)
@_agents
@click.option("--rate", type=float, required=True, help="Share of the frames, in 0…1; 0 ends it.")
@_for
@_verb
def loss(chaos: Chaos, told: Told, agents: Side, rate: float, for_s: float | None) -> None:
    """Lose some of the frames that agents send and hear, at random."""
    told(chaos.loss(agents, rate))
    _hold(chaos, for_s, lambda: chaos.loss(agents, 0.0), told)


@chaos.command(context_settings=_HELP)
@_agents
@_for
@_verb
def lie(chaos: Chaos, told: Told, agents: Side, for_s: float | None) -> None:
    """Let agents lie in everything that they tell, as the testbed's --attack says."""
    told(chaos.lie(agents, lies=True))
    _hold(chaos, for_s, lambda: chaos.lie(agents, lies=False), told)


@chaos.command(context_settings=_HELP)
@_agents
@_verb
def honest(chaos: Chaos, told: Told, agents: Side) -> None:
    """End what `agentd chaos lie` began."""
    told(chaos.lie(agents, lies=False))


@chaos.command(context_settings=_HELP)
@_agents
@_for
@_verb
def disconnect(chaos: Chaos, told: Told, agents: Side, for_s: float | None) -> None:
    """Take containers off their network; their processes run on."""
    told(chaos.to_agents("disconnect", agents))
    _hold(chaos, for_s, lambda: chaos.to_agents("reconnect", agents), told)


@chaos.command(context_settings=_HELP)
@_agents
@_verb
def reconnect(chaos: Chaos, told: Told, agents: Side) -> None:
    """Put containers back on their network, under their old address."""
    told(chaos.to_agents("reconnect", agents))


@chaos.command(context_settings=_HELP)
@run_dir_option
@click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Machine-readable.")
def history(run_dir: str | None, as_json: bool) -> None:
    """List what was done to a testbed, running or not."""
    done = fault_log.read_faults(registry.choose(run_dir).run_dir)
    if as_json:
        click.echo(json.dumps(finite(done)))
    else:
        for record in done:
            click.echo(printable(f"{record.get('at', '')!s:.40}  round {record['round']}: {record['what']}"))

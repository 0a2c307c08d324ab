"""The command line: one group whose verbs are loaded on demand.

`agentd --id 3 --peers …` runs an agent: the verb `agent` is the default when the first word is a flag. Loading a verb
lazily keeps an agent's start cheap: it never imports what only plots or launches.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from agentd import __version__, plugins
from agentd.errors import AgentdError
from agentd.untrusted import printable_lines

# Before any verb imports numpy. Agents and parallel trials are processes already; on products as small as ours a second
# BLAS thread only burns another core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

VERBS = {
    "agent": ("agentd.cli.agent:agent", "Run one agent (the default: agentd --id 3 --peers …)."),
    "audit": ("agentd.cli.audit:audit", "Try to refute the privacy that an algorithm claims."),
    "bench": ("agentd.cli.bench:bench", "Measure this machine."),
    "bundle": ("agentd.cli.keys.bundle:bundle", "Make, verify and open one signed archive for each device."),
    "chaos": ("agentd.cli.testbed.chaos:chaos", "Break things in a running testbed on purpose."),
    "check": ("agentd.cli.check:check", "Play worlds of faults, and look for what must not happen."),
    "compose": ("agentd.cli.testbed.compose:compose", "Print a testbed as a docker-compose.yml."),
    "config": ("agentd.cli.configuration.config:config", "Show where settings come from, check a file of them."),
    "dashboard": ("agentd.cli.watching.dashboard:dashboard", "Show runs on a web page, live or again."),
    "demo": ("agentd.cli.testbed.demo:demo", "Alone against together: a small testbed on this machine."),
    "doctor": ("agentd.cli.testbed.doctor:doctor", "Show what this machine has for testbeds, and what it lacks."),
    "down": ("agentd.cli.testbed.down:down", "Stop a testbed and clean up after it."),
    "env": ("agentd.cli.env:env", "Serve the shared bandit."),
    "experiment": ("agentd.cli.in_memory.experiment:experiment", "Reproduce the paper's figures."),
    "health": ("agentd.cli.health:health", "Tell whether an agent or an environment is well."),
    "host": ("agentd.cli.host:host", "Run many agents in one process, as containers do."),
    "image": ("agentd.cli.testbed.image:image", "Build the container image."),
    "keygen": ("agentd.cli.keys.keygen:keygen", "Make keys for agents, the environment and the operator."),
    "ledger": ("agentd.cli.ledger:ledger", "Show what an agent has spent, from its state on disk."),
    "logs": ("agentd.cli.testbed.logs:logs", "Show what the agents of a testbed logged."),
    "manifests": ("agentd.cli.testbed.manifests:manifests", "Write a testbed down for Kubernetes."),
    "ps": ("agentd.cli.testbed.ps:ps", "List the processes of testbeds."),
    "report": ("agentd.cli.watching.report:report", "Write a page about runs, and their charts as files."),
    "roster": ("agentd.cli.keys.roster:roster", "Say who is who, signed by the operator."),
    "simulate": ("agentd.cli.in_memory.simulate:simulate", "Run a testbed in memory."),
    "soak": ("agentd.cli.testbed.soak:soak", "Run a testbed under churn and faults for long, and see what grows."),
    "state": ("agentd.cli.watching.state:state", "Show what an agent's state on disk holds."),
    "status": ("agentd.cli.testbed.status:status", "Show how a testbed is doing."),
    "sweep": ("agentd.cli.in_memory.sweep:sweep", "Simulate a grid of settings, each several times, into one table."),
    "terms": ("agentd.cli.terms:terms", "Make and show what a run is agreed on."),
    "topology": ("topology.cli:topology", "Draw and measure graphs."),
    "up": ("agentd.cli.testbed.up:up", "Start a testbed."),
    "version": ("agentd.cli.version:version", "Show versions of agentd and what it stands on."),
}

_OWN_FLAGS = {"--help", "-h", "--version"}


class LazyGroup(click.Group):
    """A group that imports a verb when it is called, and takes flags without a verb for the agent's."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The verb, imported now."""
        if cmd_name not in VERBS:
            return None
        plugins.load()  # before the verb: its flags list what there is to choose from
        module, _, name = VERBS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`agentd --id 3` means `agentd agent --id 3`."""
        if args and args[0].startswith("-") and args[0] not in _OWN_FLAGS:
            args = ["agent", *args]
        return super().parse_args(ctx, plugins.taken_from(args))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The verbs with their one-liners, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, summary) for verb, (_, summary) in sorted(VERBS.items())])


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agentd")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Private and byzantine-proof cooperative bandits, one daemon per agent.

    \b
    A first look:      agentd demo
    A testbed:         agentd up --agents 20 --edge-probability 0.3
    The same, in memory: agentd simulate --agents 20 --edge-probability 0.3
    One agent:         agentd --id 3 --peers 1=tcp://gate-1:7001 --environment tcp://hub:7000

    Exit codes: 0 done, 1 runtime failure, 2 usage, 69 environment or a needed program (Docker) unavailable,
    75 privacy budget exhausted, 78 bad configuration.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: list[str] | None = None) -> None:
    """Run the command line; every foreseen error is one line on stderr and its documented exit code."""
    try:
        code = cli.main(args=args, prog_name="agentd", standalone_mode=False, auto_envvar_prefix=None)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as fault:
        _complain(fault.format_message(), _help_hint(fault))
        sys.exit(fault.exit_code)
    except AgentdError as fault:
        _complain(str(fault))
        sys.exit(fault.exit_code)
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        sys.stderr.close()
        sys.exit(0)
    except Exception as fault:
        if (exit_code := getattr(fault, "exit_code", None)) is None:
            raise  # a bug: let it be seen
        _complain(str(fault))  # TopologyError, which knows nothing of our errors
        sys.exit(int(exit_code))
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str, hint: str = "") -> None:
    click.echo(f"error: {printable_lines(message)}{hint}", err=True)  # it may quote a file


def _help_hint(fault: click.ClickException) -> str:
    context: Any = getattr(fault, "ctx", None)
    return f" (try: {context.command_path} --help)" if context is not None else ""

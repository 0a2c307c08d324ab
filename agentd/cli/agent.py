"""agentd --id 3 --peers …: one agent."""

from __future__ import annotations

import sys
from typing import Any

import click

from agentd.cli.options import FROM_ENVIRONMENT, config_option
from agentd.core.estimate import ESTIMATORS
from agentd.core.policy import ALGORITHMS, RULES
from agentd.settings import CLOCKS, LOG_LEVELS, NOISES, ON_BUDGET, AgentSettings


class Peers(click.ParamType):  # type: ignore[type-arg]
    """`1=tcp://gate-1:7001,2=tcp://gate-2:7002`."""

    name = "ID=ADDRESS,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[int, str]:
        """Read it."""
        if isinstance(value, dict):
            return {int(peer): str(address) for peer, address in value.items()}
        peers: dict[int, str] = {}
        for item in filter(None, str(value).split(",")):
            peer, found, address = item.partition("=")
            if not found or not peer.isascii() or not peer.isdigit():
                self.fail(f"{item!r} is not of the form 1=tcp://gate-1:7001", param, ctx)
            if int(peer) in peers:
                self.fail(f"agent {peer} is named twice", param, ctx)
            peers[int(peer)] = address
        return peers


@click.command(context_settings=FROM_ENVIRONMENT)
@click.option("--id", type=int, required=True, help="This agent's number, unique in its run.")
@click.option("--peers", type=Peers(), default="", help="The neighbours: number and address of each.")
@click.option("--listen", required=True, metavar="ADDRESS", help="Where neighbours hear this agent: tcp://*:7003.")
@click.option("--environment", required=True, metavar="ADDRESS", help="Where arms are pulled: tcp://hub:7000.")
@click.option("--algorithm", type=click.Choice(list(ALGORITHMS)), default="private-ucb", show_default=True)
@click.option("--gamma", type=int, default=2, show_default=True, help="Hops that messages of this agent live.")
@click.option("--rounds", type=int, help="Pulls to make.  [default: as many as the environment allows]")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="sealed: ε per reward. Else a rate.")
@click.option("--v", type=float, default=1.1, show_default=True, help="The paper's v in (1, 1.5).")
@click.option("--sigma", type=float, default=0.5, show_default=True, help="Reward deviation byzantine-ucb assumes.")
@click.option("--estimator", type=click.Choice(list(ESTIMATORS)), default="trimmed", show_default=True)
@click.option("--rule", type=click.Choice(RULES), default="thompson", show_default=True, help="How sealed chooses.")
@click.option("--refresh", type=int, default=100, show_default=True, help="sealed: silent rounds before a repetition.")
@click.option("--noise", type=click.Choice(NOISES), default="exact", show_default=True, help="Whose noise sampler.")
@click.option("--contamination", type=float, default=1e-3, show_default=True, help="Share of lies to prepare for.")
@click.option("--clock", type=click.Choice(CLOCKS), default="lockstep", show_default=True, help="Rounds, or own pace.")
@click.option(
    "--interval", "interval_s", type=float, default=1.0, show_default=True, help="Own pace: seconds per pull."
)
@click.option(
    "--round-timeout", "round_timeout_s", type=float, default=5.0, show_default=True, help="Longest wait for a round."
)
@click.option(
    "--ready-timeout",
    "ready_timeout_s",
    type=float,
    default=30.0,
    show_default=True,
    help="Longest wait for neighbours and environment at the start.",
)
@click.option("--seed", type=int, help="Reproducible noise, and so not private; for testbeds.")
@click.option("--lies", is_flag=True, help="Lie as --attack says; for testbeds.")
@click.option("--attack", default="worst", show_default=True, help="How to lie; see agentd simulate --help.")
@click.option("--insecure", is_flag=True, help="Listen beyond this machine although links are not encrypted.")
@click.option("--state", metavar="DIR", help="Keep the ledger and all that must survive a restart here.")
@click.option(
    "--epsilon-budget", type=float, help="Release nothing that would expose a reward to more than this true ε."
)
@click.option(
    "--on-budget",
    type=click.Choice(ON_BUDGET),
    default="listen",
    show_default=True,
    help="When the budget is spent: go on learning from others, or stop with exit code 75.",
)
@click.option("--log-file", metavar="FILE", help="JSON lines.  [default: standard error]")
@click.option("--faults-file", metavar="FILE", help="Faults to inject into the links; for testbeds, see agentd chaos.")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", show_default=True)
@click.option(
    "--health-file", metavar="FILE", help="Say there how it goes, for agentd health; best in /dev/shm or /run."
)
@config_option
def agent(**flags: Any) -> None:
    """Run one agent until its rounds are done or it is told to stop (SIGTERM; a second one stops at once).

    \b
    agentd --id 3 --peers 1=tcp://gate-1:7001,2=tcp://gate-2:7002 --listen tcp://*:7003 --insecure \\
           --environment tcp://hub:7000 --algorithm private-ucb --epsilon 1 --gamma 2
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    from agentd.shell.daemon import run_agent

    settings = AgentSettings(**flags)
    if settings.insecure:
        click.echo("warning: links are neither encrypted nor authenticated (--insecure)", err=True)
    if settings.seed is not None:
        click.echo("warning: --seed makes the noise predictable: reproducible, not private", err=True)
    sys.exit(run_agent(settings))

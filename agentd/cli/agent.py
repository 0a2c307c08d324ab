"""agentd --id 3 --peers …: one agent."""

from __future__ import annotations

import sys
from typing import Any

import click
from click.core import ParameterSource

from agentd.cli.configuration.explaining import ExplainingCommand
from agentd.cli.configuration.reading import config_option
from agentd.cli.options import FROM_ENVIRONMENT, in_order, option
from agentd.core.policy.knobs import PolicyKnobs, about
from agentd.core.privacy.sealing import cost_of_rewards
from agentd.errors import ConfigurationError
from agentd.real_arms.kinds import is_real, runs_code
from agentd.settings import AgentSettings, Pace, Spending, ordered

_ON_THE_PAGE = (
    *("id", "peers", "listen", "environment", "algorithm", "gamma", "rounds", PolicyKnobs, "noise", "contamination"),
    *(Pace, "terms", "seed", "lies", "attack", "admit", "insecure", "state", Spending),
)
"""The order of the help page; what is not named comes last."""


@click.command(cls=ExplainingCommand, context_settings=FROM_ENVIRONMENT)
@in_order([option(one) for one in ordered(AgentSettings, _ON_THE_PAGE) if about(one).flag != ""])
@config_option
def agent(**flags: Any) -> None:
    """Run one agent until its rounds are done or it is told to stop (SIGTERM; a second one stops at once).

    \b
    agentd --id 3 --peers 1=tcp://gate-1:7001,2=tcp://gate-2:7002 --listen tcp://*:7003 --insecure \\
           --environment tcp://hub:7000 --epsilon 1 --gamma 2
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    from agentd.shell.daemon import run_agent

    _refuse_code_of_files(flags["environment"])
    settings = AgentSettings(**(flags | _own_clock(flags) | _from_terms(flags)))
    if settings.insecure:
        click.echo(
            "warning: links are neither encrypted nor authenticated (--insecure); connections are taken from the "
            f"addresses of --peers{' and ' + ', '.join(settings.admit) if settings.admit else ''} only",
            err=True,
        )
    if settings.seed is not None:
        click.echo("warning: --seed makes the noise predictable: reproducible, not private", err=True)
    sys.exit(run_agent(settings))


def _refuse_code_of_files(environment: str) -> None:
    """A file of settings names no code: it may be somebody else's."""
    source = click.get_current_context().get_parameter_source("environment")
    if source is ParameterSource.DEFAULT_MAP and runs_code(environment):
        raise ConfigurationError(
            "the file of --config names a command to run as environment; give it with --environment or "
            "AGENTD_ENVIRONMENT: nothing in a file of settings is ever run"
        )


def _own_clock(flags: dict[str, Any]) -> dict[str, Any]:
    """With arms of its own an agent keeps its own time, unless it is told otherwise: lockstep would tell durations."""
    unsaid = click.get_current_context().get_parameter_source("clock") is ParameterSource.DEFAULT
    return {"clock": "free"} if unsaid and is_real(flags["environment"]) else {}


def _from_terms(flags: dict[str, Any]) -> dict[str, Any]:
    """What the terms say for this agent where the operator said nothing; what was said is a limit to them."""
    if flags["terms"] is None:
        return {}
    from agentd.shell.agreement import said_for
    from agentd.terms_file import read_terms_file

    context = click.get_current_context()
    said = said_for(flags["id"], read_terms_file(flags["terms"]))
    unsaid = {name for name in said if context.get_parameter_source(name) is ParameterSource.DEFAULT}
    if "epsilon" in unsaid and flags["rewards_per_person"] > 1:  # terms tell that of a reward, the flag of a person
        said["agreed_epsilon"] = said["epsilon"]
        said["epsilon"] = cost_of_rewards(said["epsilon"], flags["rewards_per_person"])
        unsaid.add("agreed_epsilon")
    return {name: value for name, value in said.items() if name in unsaid}

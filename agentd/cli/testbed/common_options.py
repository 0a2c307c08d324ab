"""The flags that several verbs of testbeds share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from agentd.cli.options import group_options
from agentd.settings import Pace

F = TypeVar("F", bound=Callable[..., Any])

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
json_option = click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Machine-readable.")
testbed_argument = click.argument("run_dir", required=False)

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

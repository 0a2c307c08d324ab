"""agentd health: whether the agent or environment here is well."""

from __future__ import annotations

import json
import sys

import click

from agentd.errors import SettingsError
from agentd.shell.health_probe import VARIABLE, look
from agentd.untrusted import printable


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", required=False, envvar=VARIABLE)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def health(file: str | None, as_json: bool) -> None:
    """Tell whether the agent or environment that writes FILE is well: it runs, listens, and moved lately.

    \b
    agentd --id 3 … --health-file /dev/shm/agent-3.health
    agentd health /dev/shm/agent-3.health

    FILE is what `--health-file` named, or AGENTD_HEALTH_FILE, as in the container image. Exit codes: 0 well, 1 not.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    if not file:
        raise SettingsError(f"name the file that the agent was given as --health-file, or set {VARIABLE}")
    well, why, content = look(file)
    click.echo(json.dumps({"healthy": well, "why": why, **content}) if as_json else printable(why))
    sys.exit(0 if well else 1)

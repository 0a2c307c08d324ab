"""agentd env release: free the seat of an agent whose token is lost."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from agentd.cli.options import FROM_ENVIRONMENT
from agentd.core.message import MAX_AGENT_ID
from agentd.environment.releasing import release_seat


@click.command(context_settings=FROM_ENVIRONMENT)
@click.argument("agent", metavar="ID", type=click.IntRange(0, MAX_AGENT_ID))
@click.option("--run-dir", metavar="DIR", required=True, help="Of the environment, whether it is running or not.")
@click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Print one JSON object.")
def release(agent: int, run_dir: str, as_json: bool) -> None:
    """Free the seat of an agent whose token is lost, so that it can come back.

    \b
    agentd env release 3 --run-dir runs/pilot

    Whoever comes next as this agent takes the seat, in a new incarnation, and learns nothing of its past. To be run by
    whoever may read the run directory.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    freed = release_seat(Path(run_dir), agent)
    if as_json:
        click.echo(json.dumps(asdict(freed)))
        return
    how = "the running environment knows" if freed.running else "written down for when the environment runs again"
    click.echo(f"the seat of agent {agent} is free, and goes on with trial {freed.next_trial} ({how})")

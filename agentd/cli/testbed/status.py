"""agentd status: how a testbed is doing."""

from __future__ import annotations

import json

import click

from agentd.cli.testbed.common_options import HELP, json_option, testbed_argument
from agentd.runs.directory import finite
from deploy.testbed import description, registry


@click.command(context_settings=HELP)
@testbed_argument
@json_option
def status(run_dir: str | None, as_json: bool) -> None:
    """Show how a testbed is doing: the one in RUN_DIR, or the newest that runs, or the newest."""
    about = description.describe(registry.choose(run_dir))
    click.echo(json.dumps(finite(about)) if as_json else description.status_text(about))

"""agentd version."""

from __future__ import annotations

import json

import click

from agentd.runs.versions import versions


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def version(as_json: bool) -> None:
    """Show versions of agentd and what it stands on."""
    found = versions()
    click.echo(json.dumps(found) if as_json else "\n".join(f"{name:10} {number}" for name, number in found.items()))

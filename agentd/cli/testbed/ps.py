"""agentd ps: the processes of testbeds."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from agentd.cli.testbed.common_options import HELP, json_option, testbed_argument
from deploy.local.socket_directory import remove_left_over
from deploy.testbed import description, registry
from deploy.testbed.registry import Testbed


@click.command(context_settings=HELP)
@testbed_argument
@click.option("--all", "everything", is_flag=True, help="Ended testbeds too.")
@json_option
def ps(run_dir: str | None, everything: bool, as_json: bool) -> None:
    """List the processes of running testbeds, or of the one in RUN_DIR."""
    testbeds = [registry.read(Path(run_dir))] if run_dir is not None else registry.known()
    for testbed in testbeds:
        registry.tidy(testbed)
    remove_left_over(time.time())
    shown = [testbed for testbed in testbeds if everything or run_dir is not None or testbed.is_running()]
    if as_json:
        click.echo(json.dumps([_listed(testbed) for testbed in shown]))
    elif shown:
        click.echo("\n\n".join(description.processes_text(testbed) for testbed in shown))
    else:
        click.echo("no testbed is running; start one with agentd up")


def _listed(testbed: Testbed) -> dict[str, Any]:
    return {
        "run": testbed.run,
        "run_dir": str(testbed.run_dir),
        "state": description.state_of(testbed),
        "processes": description.processes(testbed),
    }

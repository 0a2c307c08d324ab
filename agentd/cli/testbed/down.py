"""agentd down: stop a testbed and clean up after it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import click

from agentd.cli.testbed.common_options import HELP, json_option, testbed_argument
from agentd.errors import SettingsError
from deploy.local.socket_directory import remove_left_over
from deploy.testbed import registry
from deploy.testbed.registry import Testbed
from deploy.testbed.stopping import bring_down


@click.command(context_settings=HELP)
@testbed_argument
@click.option("--all", "everything", is_flag=True, help="Every testbed of this user.")
@json_option
def down(run_dir: str | None, everything: bool, as_json: bool) -> None:
    """Stop a testbed and clean up after it: the one in RUN_DIR, or of this directory, or the newest that runs.

    Doing it twice does no harm.
    """
    if run_dir is not None and everything:
        raise SettingsError("name a run directory or say --all, not both")
    stopped = [bring_down(testbed) for testbed in _to_stop(run_dir, everything=everything)]
    if as_json:
        click.echo(json.dumps([asdict(one) for one in stopped]))
    for one in [] if as_json else stopped:
        click.echo(f"{one.run_dir}: {one.did}")
    if not stopped and not as_json:
        click.echo("no testbed is running")


def _to_stop(run_dir: str | None, *, everything: bool) -> list[Testbed]:
    if run_dir is not None:
        return [registry.read(Path(run_dir))]
    known = registry.known()
    for testbed in known:
        registry.tidy(testbed)
    remove_left_over(time.time())
    running = [testbed for testbed in known if testbed.is_running()]
    return running if everything else registry.nearest_first(running, Path.cwd())[:1]

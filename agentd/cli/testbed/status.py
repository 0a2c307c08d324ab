"""agentd status: how a testbed, a lone environment or a lone agent is doing."""

from __future__ import annotations

import json
import sys
import time

import click

from agentd.cli.testbed.common_options import HELP, json_option, testbed_argument
from agentd.cli.watching.places import Told, look
from agentd.errors import SettingsError
from agentd.runs.directory import finite

_CLEAR = "\x1b[H\x1b[2J"


@click.command(context_settings=HELP)
@testbed_argument
@click.option("--watch", is_flag=True, help="Look again and again, until it is over or Ctrl-C is pressed.")
@click.option("--every", type=float, default=1.0, show_default=True, help="Seconds between looks with --watch.")
@json_option
def status(run_dir: str | None, watch: bool, every: float, as_json: bool) -> None:
    """Show how a testbed is doing: the one in RUN_DIR, of this directory, or the newest (that runs).

    RUN_DIR may also be what `agentd env --run-dir` or an agent's `--state` named. Each agent has a row, who lags most
    comes first; with --json --watch there is a line for each look.
    """
    if not 0.05 <= every <= 86_400:
        raise SettingsError(f"--every must be in 0.05…86400 seconds, got {every:g}")
    told = look(run_dir)
    if not watch:
        click.echo(_shown(told, as_json))
        return
    try:
        _watch(told, run_dir, every, as_json)
    except KeyboardInterrupt:  # the usual way to end it
        click.echo()


def _watch(told: Told, run_dir: str | None, every_s: float, as_json: bool) -> None:
    run_dir = run_dir or str(told.about["run_dir"])  # the same one, also when another is started meanwhile
    while True:
        clear = _CLEAR if sys.stdout.isatty() and not as_json else ""
        click.echo(f"{clear}{_shown(told, as_json)}" + ("" if as_json or clear else "\n"))
        if told.over:
            return
        time.sleep(every_s)
        told = look(run_dir)


def _shown(told: Told, as_json: bool) -> str:
    return json.dumps(finite(told.about)) if as_json else told.text(told.about)

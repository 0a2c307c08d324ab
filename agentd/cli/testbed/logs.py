"""agentd logs: what the agents of a testbed logged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from agentd.cli.testbed.common_options import HELP, json_option, run_dir_option
from agentd.untrusted import printable
from deploy.testbed import merged_logs, registry


@click.command(context_settings=HELP)
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@run_dir_option
@click.option("--follow", "-f", is_flag=True, help="Go on showing what is logged until the testbed has ended.")
@click.option("--lines", "-n", type=click.IntRange(0), default=50, show_default=True, help="How many lines to show.")
@json_option
def logs(agents: tuple[str, ...], run_dir: str | None, follow: bool, lines: int, as_json: bool) -> None:
    """Show what the agents of a testbed logged, merged by time: of the named agents, `environment`, or of all."""
    testbed = registry.choose(run_dir)
    if run_dir is None:
        click.echo(f"of {printable(str(testbed.run_dir))}", err=True)
    files = merged_logs.log_files(testbed, agents)

    def show(line: merged_logs.Line) -> None:
        click.echo(line.as_json() if as_json else line.readable())

    for line in merged_logs.last_lines(files, lines):
        show(line)
    if follow:
        for line in merged_logs.new_lines(files, _while_running(testbed.run_dir)):
            show(line)


def _while_running(run_dir: Path) -> Iterator[bool]:
    while True:
        yield registry.read(run_dir).is_running()

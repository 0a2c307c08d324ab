"""agentd state: what an agent's state on disk holds."""

from __future__ import annotations

import json
from pathlib import Path

import click

from agentd.cli.watching.saved import saved_text, told_of
from agentd.errors import ConfigurationError
from agentd.files import replace_text, require_own
from agentd.runs.directory import finite

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_place = click.argument("place", metavar="STATE", type=click.Path(path_type=Path))


@click.group(context_settings=HELP)
def state() -> None:
    """Look into what an agent keeps on disk (--state DIR): what was released and spent, and nothing that was not.

    An agent may run meanwhile; nothing is changed.
    """


@state.command(context_settings=HELP)
@_place
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def show(place: Path, as_json: bool) -> None:
    """Show whose the state is, how far it is, and what was spent."""
    told = told_of(_own(place))
    click.echo(json.dumps(finite(told)) if as_json else saved_text(told))


@state.command(context_settings=HELP)
@_place
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Where to write it.  [default: stdout]")
def export(place: Path, out: Path | None) -> None:
    """Write the same as JSON, with every release: arm, trial, pulls, noise, and the noised value as it left."""
    text = json.dumps(finite(told_of(_own(place), releases=True)), indent=1)
    if out is None:
        click.echo(text)
        return
    try:
        replace_text(out, text + "\n")
    except OSError as fault:
        raise ConfigurationError(f"cannot write {out}: {fault.strerror}; choose another --out") from None


def _own(place: Path) -> Path:
    if place.exists():
        require_own(place)
    return place

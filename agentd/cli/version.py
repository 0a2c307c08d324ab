"""agentd version."""

from __future__ import annotations

import json
import platform
from importlib import metadata

import click

from agentd import __version__

_STANDS_ON = ("click", "msgpack", "numpy", "pyzmq", "structlog")


def versions() -> dict[str, str]:
    """The versions that decide how a run behaves, for manifests and bug reports."""
    return {
        "agentd": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in _STANDS_ON},
    }


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def version(as_json: bool) -> None:
    """Show versions of agentd and what it stands on."""
    found = versions()
    click.echo(json.dumps(found) if as_json else "\n".join(f"{name:10} {number}" for name, number in found.items()))

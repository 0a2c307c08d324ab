"""agentd keygen: keys for agents, for the environment and for the operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from agentd.cli.terms import Ids
from agentd.errors import SettingsError
from agentd.keys.key_files import Keys, new_keys, write_keys
from agentd.keys.signing import fingerprint


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--id", "--ids", "ids", type=Ids(), help="Keys for these agents, as in 3 or 0-4,7.")
@click.option("--environment", is_flag=True, help="Keys for the environment.")
@click.option("--operator", is_flag=True, help="The key that signs rosters; keep it where no agent runs.")
@click.option("--out", metavar="DIR", required=True, help="Where to put them: agent-3.key, agent-3.pub and so on.")
def keygen(ids: frozenset[int] | None, environment: bool, operator: bool, out: str) -> None:
    """Make keys: for each a file with the secrets (.key, for its owner only) and one with the public keys (.pub).

    \b
    agentd keygen --operator --out operator
    agentd keygen --ids 0-1 --environment --out keys

    Keys that are there already are never overwritten. Give each machine its own .key and no other; rosters are made
    from the .pub files, which are no secrets.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    if not ids and not environment and not operator:
        raise SettingsError("say for whom: --id, --environment or --operator")
    for keys in _wanted(ids or frozenset(), environment, operator):
        place = write_keys(Path(out), keys)
        pinned = f", fingerprint {fingerprint(keys.sign_public)}" if keys.kind == "operator" else ""
        click.echo(f"{keys.name}: {place}{pinned}")


def _wanted(ids: frozenset[int], environment: bool, operator: bool) -> Iterator[Keys]:
    for number in sorted(ids):
        yield new_keys("agent", number)
    if environment:
        yield new_keys("environment")
    if operator:
        yield new_keys("operator")

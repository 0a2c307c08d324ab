"""agentd bundle: one signed archive for each device, and how it is looked at and opened."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from agentd.errors import AgentdError, ConfigurationError, SettingsError
from agentd.untrusted import read_named
from deploy.devices.inventory import LONGEST_FILE, Device, Inventory, read_inventory

_MINE = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_FINGERPRINT = click.option(
    "--operator-fingerprint", metavar="HEX", required=True, help="Of the operator that you trust, as keygen told it."
)


@click.group(invoke_without_command=True, context_settings=_MINE)
@click.option("--inventory", metavar="FILE", help="The devices, their addresses, keys and settings: hosts.toml.")
@click.option("--roster", metavar="FILE", help="Who is who, signed by this operator; see agentd roster make.")
@click.option("--operator", metavar="FILE", help="The operator's own .key, which signs the bundles.")
@click.option("--out", metavar="DIR", help="Where to put NAME.bundle for each device, for you only.")
@click.option("--platform", help="Of the devices: x86_64 or aarch64.  [default: as here]")
@click.option("--python", "version", metavar="X.Y", help="The Python that the devices have.  [default: as here]")
@click.option("--wheelhouse", metavar="DIR", help="Take wheels from there only, never from an index.")
@click.option("--source", metavar="DIR", help="A checkout of agentd.  [default: this directory, else what runs here]")
@click.pass_context
def bundle(
    ctx: click.Context,
    /,
    *,
    inventory: str | None,
    roster: str | None,
    operator: str | None,
    out: str | None,
    platform: str | None,
    version: str | None,
    wheelhouse: str | None,
    source: str | None,
) -> None:
    """Make one archive for each device: settings, its own keys, the roster, wheels, a systemd unit, an installer.

    \b
    agentd bundle --inventory hosts.toml --roster roster.json --operator operator/operator.key --out bundles
    agentd bundle verify bundles/gate-0.bundle --operator-fingerprint HEX
    agentd bundle open bundles/gate-0.bundle --operator-fingerprint HEX --into gate-0

    A bundle holds the secrets of its device: hand each to its own device only.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    if ctx.invoked_subcommand is not None:
        return
    if inventory is None or roster is None or operator is None or out is None:
        raise SettingsError("a bundle needs --inventory, --roster, --operator and --out")
    from deploy.containers.image import find_source
    from deploy.devices.bundling import make_bundles, means, require_platform, this_python

    by = means(
        inventory=_inventory(inventory),
        place=Path(inventory).parent,
        operator=operator,
        roster_file=roster,
        platform_=None if platform is None else require_platform(platform),
        python=this_python() if version is None else _python(version),
        wheels=None if wheelhouse is None else Path(wheelhouse),
        source=find_source(source),
    )
    for device, path in make_bundles(by, Path(out), _check):
        if path is None:
            click.echo(f"{device.name}: not in the roster of version {by.roster.version}, so it gets none")
        else:
            click.echo(f"{device.name}: {path}, {path.stat().st_size / 1e6:.1f} MB")


@bundle.command()
@click.argument("file")
@_FINGERPRINT
def verify(file: str, operator_fingerprint: str) -> None:
    """Tell whether this operator has signed the bundle, and what is in it; exit code 78 if not. Nothing is unpacked."""
    from deploy.devices.archive import verified

    files = verified(file, operator_fingerprint)
    click.echo(f"good: {len(files)} files")
    for name, content in files.items():
        click.echo(f"  {name} ({len(content)} bytes)")


@bundle.command("open")
@click.argument("file")
@_FINGERPRINT
@click.option("--into", metavar="DIR", required=True, help="A directory that is not there yet.")
def open_bundle(file: str, operator_fingerprint: str, into: str) -> None:
    """Unpack a bundle that this operator has signed, and nothing of any other; then: python3 DIR/install.py."""
    from deploy.devices.archive import unpack, verified

    files = verified(file, operator_fingerprint)
    try:
        unpack(files, Path(into))
    except OSError as fault:
        raise ConfigurationError(f"cannot unpack into {into}: {fault.strerror}; name a new --into") from None
    click.echo(f"unpacked into {into}; install it with: python3 {into}/install.py")


def _inventory(file: str) -> Inventory:
    try:
        return read_inventory(read_named(file, LONGEST_FILE).decode())
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise ConfigurationError(f"cannot use the inventory {file}: {why}") from None


def _python(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    if not (major == "3" and minor.isascii() and minor.isdigit() and 11 <= int(minor) < 100):
        raise SettingsError(f"--python must be 3.11 or newer, as in 3.11, got {text!r}")
    return 3, int(minor)


def _check(device: Device, config: str) -> None:
    """Read the settings of a device as its agent will: what it would refuse is refused here."""
    from agentd.cli.agent import agent
    from agentd.cli.env import env
    from deploy.devices.install import CONFIG, ROOT

    with tempfile.TemporaryDirectory(prefix="agentd-bundle-") as scratch:
        file = Path(scratch) / "config.toml"
        file.write_text(config.replace(ROOT, ""), encoding="utf-8")
        command, words = (env, ["env"]) if device.id is None else (agent, ["agent"])
        try:
            command.make_context(words[0], ["--config", str(file)])
        except (click.ClickException, AgentdError) as fault:
            why = fault.format_message() if isinstance(fault, click.ClickException) else str(fault)
            why = why.replace(str(file), CONFIG)
            raise ConfigurationError(f"the settings of {device.name} are refused: {why}") from None

"""agentd image: build and list the container image."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from deploy.containers.docker import LABEL, require_docker
from deploy.containers.image import DEFAULT_BASE, DEFAULT_TAG, build_image, find_source


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def image() -> None:
    """Build and list the container image that compose, swarm and Kubernetes testbeds run."""


@image.command()
@click.option("--base", metavar="IMAGE", help=f"Any image with glibc and Python ≥ 3.11.  [default: {DEFAULT_BASE}]")
@click.option("--offline", is_flag=True, help="Ask no registry: use a local base, or make one from Debian packages.")
@click.option("--tag", default=DEFAULT_TAG, show_default=True, help="What to call the image.")
@click.option(
    "--extras", default="keys", show_default=True, metavar="NAMES", help="Optional parts to include, as in keys,ui."
)
@click.option("--wheelhouse", "wheels", metavar="DIR", help="Take wheels from there only, never from an index.")
@click.option("--source", metavar="DIR", help="A checkout of agentd.  [default: this directory, else what runs here]")
@click.option("--fresh", is_flag=True, help="Make the base anew and fetch the wheels anew instead of using those kept.")
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the result, as JSON.")
def build(
    *,
    base: str | None,
    offline: bool,
    tag: str,
    extras: str,
    wheels: str | None,
    source: str | None,
    fresh: bool,
    as_json: bool,
) -> None:
    """Build the image: agentd and the Python packages it needs on a slim base, without a user of its own but 10001.

    \b
    agentd image build                      base from the registry, or from Debian packages if that fails
    agentd image build --offline            base from Debian packages at once (root and debootstrap, the first time)
    agentd image build --base my/python:3.12

    It is made from the checkout in this directory if that is yours, else from the checkout or the installed package
    that this command runs from. Wheels are gathered on this machine and the image is built without a network. Exit
    codes: 0 built, 1 failed, 69 Docker or debootstrap is missing, 78 a base, directory or checkout cannot be used.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    built = build_image(
        base=base,
        offline=offline,
        tag=tag,
        extras=extras,
        wheels=Path(wheels) if wheels else None,
        source=find_source(source),
        fresh=fresh,
        quiet=as_json,
    )
    if as_json:
        click.echo(json.dumps(asdict(built)))
    else:
        total_s = sum(built.took_s.values())
        click.echo(f"{built.tag}: {built.bytes / 1e6:.0f} MB, Python {built.python}, built in {total_s:.0f} s")


@image.command("list")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def list_images(as_json: bool) -> None:
    """List images built by `agentd image build`."""
    docker = require_docker()
    found = docker.run(["image", "ls", "--filter", f"label={LABEL}", "--format", "{{json .}}"]).stdout
    images = [json.loads(line) for line in found.splitlines()]
    if as_json:
        click.echo(json.dumps([{"tag": f"{i['Repository']}:{i['Tag']}", "id": i["ID"]} for i in images]))
    for one in [] if as_json else images:
        click.echo(f"{one['Repository'] + ':' + one['Tag']:32} {one['ID']:14} {one['Size']:>8}  {one['CreatedSince']}")
    if not images and not as_json:
        click.echo("no image yet; make one with agentd image build")

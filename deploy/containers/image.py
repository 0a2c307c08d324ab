"""The container image, built with or without a registry and a package index."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from agentd import __version__
from agentd.errors import ConfigurationError, SettingsError
from deploy.containers import base_image, installed_wheel, wheelhouse
from deploy.containers.docker import LABEL, Docker, DockerFailed, last_words, require_docker, run_command

DEFAULT_BASE = "python:3.12-slim"
"""As in the Dockerfile."""
DEFAULT_TAG = f"agentd:{__version__}"
RECIPE = Path(__file__).parent / "recipe"
"""What the package brings along of the checkout that it was made from, for images where there is no checkout."""
PULL_S = 600.0
BUILD_S = 1200.0
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{{1,5}})?/)?{_COMPONENT}(?:/{_COMPONENT})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?"
)
"""What Docker takes for the name of an image that is built: perhaps a registry, a path, perhaps a version."""
_LONGEST_REFERENCE = 255
_EXTRAS = re.compile(r"(?:[A-Za-z0-9_-]+(?:,[A-Za-z0-9_-]+)*)?")


@dataclass(slots=True)
class Built:
    """What came out, and how long each step took."""

    tag: str
    base: str
    base_from: str = "local"
    """local, registry or debian."""
    id: str = ""
    bytes: int = 0
    python: str = ""
    took_s: dict[str, float] = field(default_factory=dict)


def build_image(
    *,
    source: Path | None,
    tag: str = DEFAULT_TAG,
    base: str | None = None,
    offline: bool = False,
    extras: str = "keys",
    wheels: Path | None = None,
    fresh: bool = False,
    quiet: bool = True,
) -> Built:
    """Build the image of a checkout, or of the installed package; every step is said on stderr unless quiet."""
    require_names(tag, extras)
    docker = require_docker()
    if not quiet:
        click.echo(f"from {source or 'the installed package'}", err=True)
    built = Built(tag=tag, base=base or DEFAULT_BASE)
    with _step("base", built, quiet):
        _settle_base(docker, built, named=base is not None, offline=offline, fresh=fresh, quiet=quiet)
        target = wheelhouse.target_of(docker, built.base)
    built.python = f"{target.python[0]}.{target.python[1]}"
    with tempfile.TemporaryDirectory(prefix="agentd-image-") as place:
        context = Path(place) / "context"
        house = context / "wheelhouse"
        own = house / "app"  # apart, so that a change in agentd leaves the layer of its dependencies as it was
        own.mkdir(parents=True)
        with _step("wheels", built, quiet):
            wheel = wheelhouse.build_wheel(source, own, Path(place)) if source else installed_wheel.pack(own)
            cache = wheelhouse.default_cache(target)
            wheelhouse.fill(house, wheel, target, extras=extras, cache=cache, only=wheels, fresh=fresh)
        (house / wheel.name).unlink()  # pip copies what it is asked about
        for name in ("Dockerfile", "pyproject.toml"):
            shutil.copy((source or RECIPE) / name, context)
        with _step("image", built, quiet):
            _docker_build(docker, built, context, extras=extras, revision=_revision(source) if source else "")
    _remove_superseded(docker)
    about = docker.image(tag) or {}
    built.id, built.bytes = str(about.get("Id", "")), int(about.get("Size", 0))
    return built


def require_names(tag: str, extras: str) -> None:
    """Refuse at once what Docker and pip would refuse after the wheels were gathered."""
    if not _REFERENCE.fullmatch(tag) or len(tag) > _LONGEST_REFERENCE:
        raise SettingsError(
            f"--tag {tag!r} is no name of an image: small letters, digits and - . _ /, then :VERSION, "
            f"as in {DEFAULT_TAG}"
        )
    if not _EXTRAS.fullmatch(extras):
        raise SettingsError(f"--extras {extras!r} is not a list of names like ui,opendp")


def find_source(named: str | None) -> Path | None:
    """The checkout to build from: the named one, else that of this directory or of this code, if there is one."""
    if named is None:
        return next((place for place in (Path.cwd(), Path(__file__).resolve().parents[2]) if _is_ours(place)), None)
    place = Path(named)
    if missing := _missing_in(place):
        raise ConfigurationError(
            f"{place} is not a checkout of agentd (no {', '.join(missing)}); name one with --source DIR"
        )
    return place


def _missing_in(place: Path) -> list[str]:
    return [name for name in (*wheelhouse.SOURCES, "Dockerfile") if not (place / name).exists()]


def _is_ours(place: Path) -> bool:
    """Whether it is a checkout that may be built unasked: its build runs what it says, so not one of another user."""
    return not _missing_in(place) and (place / "pyproject.toml").stat().st_uid in (os.geteuid(), 0)


def _settle_base(docker: Docker, built: Built, *, named: bool, offline: bool, fresh: bool, quiet: bool) -> None:
    """Make sure that the base image is here: local, pulled, or made from Debian packages."""
    if docker.image(built.base) is not None:
        return
    why = "" if offline else _pull(docker, built.base)
    if not offline and not why:
        built.base_from = "registry"
        return
    if named:
        raise ConfigurationError(
            f"the base image {built.base} is not here" + (f" and cannot be pulled: {why}" if why else "")
        )
    if why and not quiet:
        click.echo(f"cannot pull {built.base} ({why}); making a base from Debian packages instead", err=True)
    built.base, built.base_from = base_image.BASE_TAG, "debian"
    if fresh or docker.image(built.base) is None:
        if not quiet:
            click.echo(f"making {built.base} with debootstrap; takes about a minute, once", err=True)
        base_image.make_base(docker, built.base)


def _pull(docker: Docker, name: str) -> str:
    """Pull an image; returns why it failed, or nothing."""
    try:
        pulled = docker.run(["pull", "--quiet", name], check=False, timeout_s=PULL_S)
    except DockerFailed as fault:
        return str(fault)
    return (last_words(pulled.stderr) or "no reason given") if pulled.returncode else ""


def _docker_build(docker: Docker, built: Built, context: Path, *, extras: str, revision: str) -> None:
    arguments = {"BASE_IMAGE": built.base, "EXTRAS": extras, "VERSION": __version__, "REVISION": revision}
    command = ["build", "--network=none", "--tag", built.tag]
    command += [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    docker.run([*command, str(context)], timeout_s=BUILD_S, environment=_builder(docker))


def _remove_superseded(docker: Docker) -> None:
    """Remove images of ours that lost their tag; the newest build stages stay, as the next build's cache."""
    for role, kept in (("image", 0), ("build", 2)):
        labels = ["--filter", "dangling=true", "--filter", f"label={LABEL}={role}"]
        for name in docker.run(["image", "ls", "--quiet", *labels]).stdout.split()[kept:]:
            docker.run(["image", "rm", name], check=False)  # one that a container still uses stays


def _builder(docker: Docker) -> dict[str, str]:
    """The environment for `docker build`: BuildKit where the client has it, else the builder that is always there."""
    has_buildx = docker.run(["buildx", "version"], check=False, timeout_s=20).returncode == 0
    return {**os.environ, "DOCKER_BUILDKIT": "1" if has_buildx else "0"}


def _revision(source: Path) -> str:
    """The commit of the checkout, with a plus if something in it was changed since; empty outside git."""
    if shutil.which("git") is None or not (source / ".git").exists():
        return ""
    said = run_command(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=40", "--match="], check=False, directory=source
    )
    return said.stdout.strip() if said.returncode == 0 else ""


@contextmanager
def _step(name: str, built: Built, quiet: bool) -> Iterator[None]:
    steps: dict[str, Any] = {"base": "base image", "wheels": "wheels", "image": f"image {built.tag}"}
    number = list(steps).index(name) + 1
    started_s = time.monotonic()
    if not quiet:
        click.echo(f"[{number}/{len(steps)}] {steps[name]} …", err=True)
    yield
    built.took_s[name] = round(time.monotonic() - started_s, 1)
    if not quiet:
        click.echo(f"[{number}/{len(steps)}] {steps[name]}: {built.took_s[name]:.1f} s", err=True)

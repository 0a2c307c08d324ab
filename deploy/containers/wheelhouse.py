"""Wheels for the Python of an image, gathered on this machine so that the image builds without a network.

The host's Python may be another version than the image's, so dependencies are asked for by the image's tags and only
as wheels; agentd itself is pure Python and its wheel fits everywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from agentd.errors import DISTRIBUTION, AgentdError, ConfigurationError, ToolMissing
from deploy.containers.docker import Docker, last_words, run_command

SOURCES = ("agentd", "deploy", "topology", "pyproject.toml", "README.md", "LICENSE")
"""What a wheel of agentd is made of."""
WHEEL_NAME = DISTRIBUTION.replace("-", "_")
OLDEST_GLIBC = 17
"""Minor version: the oldest wheels on offer are built for glibc 2.17."""
PIP_S = 900.0
_EPOCH = "1000000000"
"""Time stamps inside our wheel, so that the same sources make the same bytes and Docker finds its layers again."""
_ASK = (
    "import json, platform, sys; "
    "print(json.dumps([sys.version_info[0], sys.version_info[1], platform.machine(), *platform.libc_ver()]))"
)


@dataclass(frozen=True, slots=True)
class Target:
    """The Python that the wheels are for."""

    python: tuple[int, int]
    machine: str
    """As in x86_64 or aarch64."""
    glibc_minor: int

    def pip_flags(self) -> list[str]:
        """How pip is told to fetch for it instead of for its own interpreter."""
        digits = f"{self.python[0]}{self.python[1]}"
        platforms = [
            f"manylinux_2_{minor}_{self.machine}" for minor in range(self.glibc_minor, OLDEST_GLIBC - 1, -1)
        ] + [f"manylinux2014_{self.machine}"]
        flags = [
            "--only-binary=:all:",
            "--implementation",
            "cp",
            "--python-version",
            f"{self.python[0]}.{self.python[1]}",
        ]
        flags += [word for abi in (f"cp{digits}", "abi3", "none") for word in ("--abi", abi)]
        return flags + [word for platform in platforms for word in ("--platform", platform)]

    @property
    def label(self) -> str:
        """What its wheels are kept under, as a name of a directory."""
        return f"cp{self.python[0]}{self.python[1]}-{self.machine}"


def target_of(docker: Docker, image: str) -> Target:
    """Ask the Python of an image what it is."""
    asked = docker.run(
        ["run", "--rm", "--network", "none", "--entrypoint", "python3", image, "-I", "-S", "-c", _ASK],
        check=False,
        timeout_s=120,
    )
    if asked.returncode:
        raise ConfigurationError(
            f"the base image {image} cannot run python3 ({last_words(asked.stderr)}); name one with Python with --base"
        )
    return read_target(asked.stdout, image)


def read_target(answer: str, image: str) -> Target:
    """The target out of what its Python said, refused if no wheels fit it."""
    major, minor, machine, libc, libc_version = json.loads(answer)
    if (major, minor) < (3, 11):
        raise ConfigurationError(f"the base image {image} has Python {major}.{minor}; agentd needs 3.11 or newer")
    if libc != "glibc":
        raise ConfigurationError(f"the base image {image} has no glibc, for which wheels are made; use a -slim image")
    return Target((major, minor), machine, int(libc_version.split(".")[1]))


def build_wheel(source: Path, place: Path, scratch: Path) -> Path:
    """The wheel of agentd, built from a copy of its sources: a build in place would leave and reuse stale files."""
    copy = scratch / "source"
    for name in SOURCES:
        if (source / name).is_dir():
            shutil.copytree(source / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            copy.mkdir(exist_ok=True)
            shutil.copy2(source / name, copy / name)
    command = ["wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(copy)]
    if why := _pip(command):
        again = _pip([*command, "--no-build-isolation"])  # where no index has setuptools, this interpreter may
        if again:
            raise AgentdError(f"cannot build the wheel of agentd: {why}; {again}")
    return next(place.glob(f"{WHEEL_NAME}-*.whl"))


def fill(place: Path, wheel: Path, target: Target, *, extras: str, cache: Path, only: Path | None, fresh: bool) -> None:
    """Put the dependencies of agentd and pip into `place`: from `only`, else the cache, else the package index."""
    wanted = [f"{wheel}[{extras}]" if extras else str(wheel), "pip"]
    if only is None:
        _keep(wanted, cache, target, fresh=fresh)
    kept = only if only is not None else cache
    if why := _pip(_download(wanted, place, target, "--no-index", "--find-links", str(kept))):
        raise ConfigurationError(f"{kept} lacks wheels for {target.label}: {why}")


def _keep(wanted: Sequence[str], cache: Path, target: Target, *, fresh: bool) -> None:
    """Make sure that the cache has everything; the package index is asked only if it has not."""
    cache.mkdir(parents=True, exist_ok=True)
    for ours in cache.glob(f"{WHEEL_NAME}-*.whl"):  # pip would take it for today's, with the dependencies of then
        ours.unlink(missing_ok=True)
    if not fresh and not _pip(_download(wanted, cache, target, "--no-index", "--find-links", str(cache))):
        return
    if why := _pip(_download(wanted, cache, target)):
        raise AgentdError(
            f"cannot get the wheels for {target.label}: {why}; "
            "where there is no package index, name a directory of wheels with --wheelhouse"
        )


def default_cache(target: Target) -> Path:
    """Where wheels are kept between builds."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "agentd" / "wheels" / target.label


def _download(wanted: Sequence[str], place: Path, target: Target, *flags: str) -> list[str]:
    return ["download", "--quiet", "--dest", str(place), *target.pip_flags(), *flags, *wanted]


def _pip(arguments: Sequence[str]) -> str:
    """Run pip; returns why it failed, or nothing."""
    if find_spec("pip") is None:
        raise ToolMissing(
            f"pip is needed to gather wheels and {sys.executable} has none; install it (apt install python3-pip)"
        )
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    done = run_command(command, check=False, timeout_s=PIP_S, environment={**os.environ, "SOURCE_DATE_EPOCH": _EPOCH})
    return (last_words(done.stderr) or f"pip ended with {done.returncode}") if done.returncode else ""

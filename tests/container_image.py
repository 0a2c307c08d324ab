"""The image that container tests run: built once per state of the sources, shared by all tests and test processes."""

from __future__ import annotations

import fcntl
import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker_shared
import pytest

from agentd.errors import ToolMissing
from deploy.containers.docker import Docker, require_docker
from deploy.containers.image import build_image
from deploy.containers.wheelhouse import SOURCES

ROOT = Path(__file__).parent.parent
REPOSITORY = "agentd-test"
KEPT = 5
"""Images of older states of the sources that stay; other checkouts on this machine may be testing with them."""
PATIENCE_S = 900
"""For tests that may have to build the image first, from Debian packages, on a busy machine."""


def docker_or_skip() -> Docker:
    """Docker, shared until the test ends, or a skip whose reason says what is missing."""
    try:
        docker = require_docker()
    except ToolMissing as fault:
        pytest.skip(str(fault))
    docker_shared.share()
    return docker


def image_or_skip() -> str:
    """The tag of the image of these sources, built if it is not there, or a skip whose reason says what is missing."""
    docker = docker_or_skip()
    tag = f"{REPOSITORY}:{state_of_sources()}"
    with _alone():
        if docker.image(tag) is None:
            try:
                build_image(source=ROOT, tag=tag)
            except ToolMissing as fault:
                pytest.skip(str(fault))
            _forget_old(docker)
    return tag


def state_of_sources() -> str:
    """A digest of all that the image is made of."""
    digest = hashlib.sha256()
    for path in sorted(_files()):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _files() -> Iterator[Path]:
    for name in (*SOURCES, "Dockerfile"):
        place = ROOT / name
        yield from (
            (p for p in place.rglob("*") if p.is_file() and "__pycache__" not in p.parts) if place.is_dir() else [place]
        )


@contextmanager
def _alone() -> Iterator[None]:
    """One test process at a time builds; the others wait and then find the image."""
    with (Path(tempfile.gettempdir()) / "agentd-test-image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _forget_old(docker: Docker) -> None:
    tags = docker.run(["image", "ls", REPOSITORY, "--format", "{{.Repository}}:{{.Tag}}"]).stdout.split()
    for tag in tags[KEPT:]:
        docker.run(["image", "rm", tag], check=False)

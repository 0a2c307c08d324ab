"""A swarm of this machine alone, for the tests that need one."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import docker_shared
import pytest

from deploy.containers.docker import Docker
from deploy.containers.swarm import INIT


@contextlib.contextmanager
def swarm_of_one(docker: Docker) -> Iterator[None]:
    """A swarm of this machine alone; left afterwards, if it was made here, once no other test has containers."""
    docker_shared.share()
    if docker.info()["Swarm"]["LocalNodeState"] == "active":
        yield
        return
    made = subprocess.run(INIT.split(), capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"this Docker makes no swarm: {made.stderr.strip()}")
    try:
        yield
    finally:
        with docker_shared.alone():
            docker.run(["swarm", "leave", "--force"])

"""The container image as it was built: who runs in it, on what, and what of the building machine is not in it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from container_image import docker_or_skip
from evidence import until
from image_leaks import added_certificates, certificates_in, files_of, private_hosts
from running_testbeds import agentd

from agentd import __version__
from deploy.containers.docker import Docker

pytestmark = pytest.mark.system

HARDENED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none")
PROBE = ("/opt/agentd/bin/python3", "-I", "-S", "/opt/agentd/health.py")


@pytest.fixture
def docker() -> Docker:
    return docker_or_skip()


@pytest.fixture
def about(docker: Docker, agentd_image: str) -> dict[str, Any]:
    found = docker.image(agentd_image)
    assert found is not None
    return found


@pytest.fixture
def started(docker: Docker, agentd_image: str) -> Iterator[Callable[..., str]]:
    """Start containers; all of them are gone afterwards."""
    containers: list[str] = []

    def start(*command: str, flags: tuple[str, ...] = ()) -> str:
        label = ("--label", "agentd=test")
        containers.append(
            docker.run(["run", "--detach", *HARDENED, *label, *flags, agentd_image, *command]).stdout.strip()
        )
        return containers[-1]

    yield start
    for container in containers:
        docker.run(["rm", "--force", "--volumes", container])


def test_it_runs_as_a_number_that_is_not_root(docker: Docker, agentd_image: str, about: dict[str, Any]) -> None:
    assert about["Config"]["User"] == "10001:10001"
    said = docker.run(["run", "--rm", *HARDENED, "--entrypoint", "id", agentd_image, "-u"]).stdout
    assert said == "10001\n"


def test_agentd_works_on_a_read_only_root_without_any_capability(docker: Docker, agentd_image: str) -> None:
    flags = ("--agents", "3", "--edge-probability", "1", "--rounds", "50", "--seed", "7")
    command = ["simulate", *flags, "--run-dir", "/dev/shm/run", "--json"]  # noqa: S108 - of the container
    inside = docker.json(["run", "--rm", *HARDENED, agentd_image, *command])
    assert inside["rounds"] == 50
    assert docker.json(["run", "--rm", *HARDENED, agentd_image, "version", "--json"])["agentd"] == __version__


def test_it_needs_no_shell_and_says_what_it_is(about: dict[str, Any]) -> None:
    config = about["Config"]
    assert config["Entrypoint"] == ["/opt/agentd/bin/agentd"]
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", *PROBE]
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    assert (labels["title"], labels["version"], labels["licenses"]) == ("agentd", __version__, "Apache-2.0")


def test_it_is_small(about: dict[str, Any]) -> None:
    """165 MB on Debian's own Python; the official slim image is 20 MB larger."""
    assert about["Size"] < 230e6


def test_an_environment_is_healthy_once_it_listens_and_ends_in_order(
    docker: Docker, started: Callable[..., str]
) -> None:
    container = started("env", "--arms", "0.9,0.1", flags=("--health-interval", "0.5s"))

    def status() -> str:
        return docker.run(["inspect", "--format", "{{.State.Health.Status}}", container]).stdout.strip()

    until(lambda: status() == "healthy")
    said = docker.run(["exec", container, "agentd", "health", "--json"]).stdout
    assert json.loads(said)["state"] == "running"
    docker.run(["stop", "--time", "60", container])
    assert docker.run(["inspect", "--format", "{{.State.ExitCode}}", container]).stdout == "0\n"


@pytest.mark.slow
def test_a_stopped_environment_is_found_to_be_stuck(docker: Docker, started: Callable[..., str]) -> None:
    container = started("env", "--arms", "0.9,0.1")
    until(lambda: docker.run(["exec", container, *PROBE], check=False).returncode == 0)
    pid = int(docker.run(["inspect", "--format", "{{.State.Pid}}", container]).stdout)
    try:
        os.kill(pid, signal.SIGSTOP)  # not from within, where nothing stops process 1
    except (PermissionError, ProcessLookupError):
        pytest.skip("signals to processes of containers need root on the same machine as the engine")
    probed = until(lambda: _failed(docker, container))
    assert "the environment is stuck: running, and nothing moved for" in probed


def _failed(docker: Docker, container: str) -> str:
    done = docker.run(["exec", container, *PROBE], check=False)
    return done.stdout if done.returncode == 1 else ""


def test_a_named_volume_can_hold_a_run_directory(docker: Docker, started: Callable[..., str]) -> None:
    container = started(
        "env", "--arms", "0.9,0.1", "--run-dir", "/var/lib/agentd/run", flags=("--volume", "/var/lib/agentd")
    )
    until(lambda: docker.run(["exec", container, *PROBE], check=False).returncode == 0)
    listed = docker.run(["exec", container, "ls", "/var/lib/agentd/run"]).stdout
    assert "environment.json" in listed


def test_nothing_of_the_building_machine_is_in_it(
    docker: Docker, agentd_image: str, about: dict[str, Any], tmp_path: Path
) -> None:
    hosts = {host.encode() for host in private_hosts()}
    certificates = added_certificates()
    described = json.dumps(about).encode() + docker.run(["history", "--no-trunc", agentd_image]).stdout.encode()
    assert not [host for host in hosts if host in described]
    for name, content in files_of(docker, agentd_image, tmp_path / "image.tar"):
        assert not name.endswith(("pip.conf", ".pypirc", ".netrc", ".docker/config.json")), name
        assert not [host for host in hosts if host in content], name
        assert not certificates_in(content) & certificates, name
        if "etc/apt/" in name and name.endswith((".list", ".sources")):
            assert b"@" not in content, f"{name} holds credentials"
        if name == "etc/resolv.conf":
            assert not content.strip()


def test_the_search_for_leaks_finds_what_is_planted(docker: Docker, agentd_image: str, tmp_path: Path) -> None:
    """The search above must be able to fail."""
    planted = b"-----BEGIN CERTIFICATE-----\nMIIB\nAAA=\n-----END CERTIFICATE-----\n"
    (tmp_path / "Dockerfile").write_text(f"FROM {agentd_image}\nCOPY planted.crt /etc/ssl/\n", encoding="utf-8")
    (tmp_path / "planted.crt").write_bytes(planted)
    tag = "agentd-test-planted:latest"
    docker.run(["build", "--tag", tag, str(tmp_path)], environment={**os.environ, "DOCKER_BUILDKIT": "0"})
    try:
        found = [
            name
            for name, content in files_of(docker, tag, tmp_path / "x.tar")
            if b"MIIBAAA=" in certificates_in(content)
        ]
    finally:
        docker.run(["image", "rm", tag])
    assert found == ["etc/ssl/planted.crt"]


def test_the_verb_lists_it(agentd_image: str) -> None:
    tags = {one["tag"] for one in json.loads(agentd("image", "list", "--json").stdout)}
    assert agentd_image in tags

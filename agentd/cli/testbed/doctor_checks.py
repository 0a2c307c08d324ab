"""What this machine can do for testbeds: every part looked at, told as ok or missing, with what to do about it.

Only what some command uses is looked at, and nothing is changed. Beside that it says by which means `agentd chaos`
works here.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata

from agentd import __version__
from agentd.errors import AgentdError, ToolMissing, install_with
from deploy.containers import docker as engines
from deploy.containers.base_image import BASE_TAG, INSTALL_DEBOOTSTRAP
from deploy.containers.docker import Docker
from deploy.containers.image import DEFAULT_TAG
from deploy.containers.swarm import INIT
from deploy.local.preflight import MEGABYTES_PER_AGENT, MEGABYTES_SHARED, THREADS_PER_PROCESS, Limit, Room, room_left
from deploy.local.socket_directory import home_of_sockets

REQUIRED_PACKAGES = ("click", "msgpack", "numpy", "pyzmq", "structlog")
OPTIONAL_PACKAGES = {
    "rich": ("live displays and progress bars", install_with("ui")),
    "matplotlib": ("plots of experiments", install_with("analysis")),
    "joblib": ("experiments on all cores", install_with("analysis")),
    "opendp": ("an independent noise sampler", install_with("opendp")),
    "dp-accounting": ("tight composed privacy loss", install_with("accounting")),
    "pyarrow": ("tables of sweeps as sweep.parquet", "pip install pyarrow"),
}
OLDEST_PYTHON = (3, 11)
COMFORTABLE_AGENTS = 20
"""What `agentd up` starts unless told otherwise."""
_ENDLESS_AGENTS = 1_000_000


class State(StrEnum):
    """How a part of the machine is."""

    OK = "ok"
    SCARCE = "scarce"
    """There, but less of it than a default testbed wants."""
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table."""

    part: str
    state: State
    detail: str
    remedy: str = ""
    required: bool = False

    @property
    def is_fatal(self) -> bool:
        """Whether agentd cannot do its main job because of it."""
        return self.required and self.state is State.MISSING


def examine() -> Iterator[Finding]:
    """Look at everything; takes a second or two, most of it waiting for Docker."""
    yield from look_at_python()
    yield from look_at_packages()
    yield from look_at_room(room_left())
    yield look_at_sockets(home_of_sockets())
    yield Finding("kernel", State.OK, f"{platform.system()} {platform.release()}")
    yield from look_at_docker()
    yield from look_at_chaos(root=os.geteuid() == 0)


def look_at_python() -> Iterator[Finding]:
    """The interpreter and ourselves."""
    fits = sys.version_info[:2] >= OLDEST_PYTHON
    yield Finding("agentd", State.OK, __version__)
    yield Finding(
        "python",
        State.OK if fits else State.MISSING,
        platform.python_version(),
        "" if fits else "install Python 3.11 or newer",
        required=True,
    )


def look_at_packages(version_of: Callable[[str], str] = metadata.version) -> Iterator[Finding]:
    """Required packages, and the extras."""
    for name in REQUIRED_PACKAGES:
        yield _package(name, version_of, "required", f"pip install {name}", required=True)
    for name, (purpose, remedy) in OPTIONAL_PACKAGES.items():
        yield _package(name, version_of, f"for {purpose}", remedy, required=False)


def look_at_room(room: Room) -> Iterator[Finding]:
    """How many agents the limits allow, each by itself."""
    files = min(room.files_hard // 4, _ENDLESS_AGENTS)
    raised = "the soft limit is raised as needed"
    yield _room("open files", files, f"hard limit {room.files_hard}, {raised}", "ulimit -Hn 65536 as root")
    for limit in _tightest(room.threads):
        yield _room("threads", limit.left // THREADS_PER_PROCESS, limit.name, limit.remedy)
    for limit in _tightest(room.megabytes):
        fits = (limit.left - MEGABYTES_SHARED) // MEGABYTES_PER_AGENT
        yield _room("memory", fits, f"{limit.left} MB left by {limit.name}", limit.remedy)


def look_at_sockets(home: str | None) -> Finding:
    """Where local testbeds have their sockets."""
    if home is not None:
        return Finding("sockets", State.OK, f"of local testbeds, in directories of {home} that only you can enter")
    remedy = "set XDG_RUNTIME_DIR to a directory of yours with a short name"
    return Finding("sockets", State.MISSING, "no safe place for them; agentd up --transport tcp works", remedy)


def look_at_docker() -> Iterator[Finding]:
    """Client, engine, compose, swarm, and our image."""
    client = engines.find_client()
    if client is None:
        yield Finding("docker client", State.MISSING, "for testbeds in containers", engines.INSTALL)
        return
    yield Finding("docker client", State.OK, client)
    try:
        docker = engines.require_docker()
    except AgentdError as fault:
        yield Finding("docker engine", State.MISSING, str(fault), "systemctl start docker")
        return
    yield Finding("docker engine", State.OK, f"{docker.engine_version} (client {docker.client_version})")
    yield from _composes()
    yield swarm_finding(docker)
    yield from _images(docker)


def swarm_finding(docker: Docker) -> Finding:
    """Whether this engine is part of a swarm."""
    state = str((docker.info().get("Swarm") or {}).get("LocalNodeState", "unknown"))
    if state == "active":
        return Finding("swarm", State.OK, "active")
    return Finding("swarm", State.MISSING, f"{state}; for agentd up --runtime swarm", INIT)


def look_at_chaos(*, root: bool) -> Iterator[Finding]:
    """By which means `agentd chaos` does what it does here."""
    links = "partition, delay, loss: in the agents' own links, local and in containers"
    yield Finding("chaos on links", State.OK, links)
    yield Finding("chaos on processes", State.OK, "kill, restart, pause: by signal")
    if engines.find_client() is None:
        return
    docker = "pause, disconnect: by docker; kill: by the process number"
    if root:
        yield Finding("chaos on containers", State.OK, docker)
    else:
        remedy = "sudo agentd chaos kill, or agentd chaos restart"
        yield Finding("chaos on containers", State.SCARCE, f"{docker}, which only root may", remedy)


def _sbin(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _package(name: str, version_of: Callable[[str], str], purpose: str, remedy: str, *, required: bool) -> Finding:
    try:
        return Finding(name, State.OK, version_of(name), required=required)
    except metadata.PackageNotFoundError:
        return Finding(name, State.MISSING, purpose, remedy, required=required)


def _tightest(limits: tuple[Limit, ...]) -> list[Limit]:
    return sorted(limits, key=lambda limit: limit.left)[:1]


def _room(part: str, agents: int, detail: str, remedy: str) -> Finding:
    agents = max(0, agents)
    enough = agents >= COMFORTABLE_AGENTS
    many = "room for any number of agents" if agents >= _ENDLESS_AGENTS // 4 else f"room for about {agents:,} agents"
    return Finding(part, State.OK if enough else State.SCARCE, f"{many}: {detail}", "" if enough else remedy)


def _composes() -> Iterator[Finding]:
    found = engines.find_composes()
    for compose in found:
        yield Finding(f"compose v{compose.major}", State.OK, f"{' '.join(compose.command)} {compose.version}")
    if not found:
        yield Finding("compose", State.MISSING, "for agentd up --runtime compose", engines.INSTALL_COMPOSE)


def _images(docker: Docker) -> Iterator[Finding]:
    about = docker.image(DEFAULT_TAG)
    if about is not None:
        yield Finding("image", State.OK, f"{DEFAULT_TAG}, {about['Size'] / 1e6:.0f} MB")
        return
    yield Finding("image", State.MISSING, DEFAULT_TAG, "agentd image build")
    if docker.image(BASE_TAG) is None and _sbin("debootstrap") is None:
        yield Finding("debootstrap", State.MISSING, "for building without a registry", INSTALL_DEBOOTSTRAP)


def refuse_if_fatal(findings: list[Finding]) -> None:
    """Raise what is required and missing."""
    if fatal := [finding for finding in findings if finding.is_fatal]:
        raise ToolMissing("missing: " + "; ".join(f"{one.part} ({one.remedy})" for one in fatal))

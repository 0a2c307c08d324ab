"""The containers of a testbed as Docker knows them: found by their labels, never by their names, and removed.

Only what carries the testbed's own label is ever touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from agentd.errors import ConfigurationError
from deploy.containers.compose_document import LABEL_AGENTS, LABEL_ID, LABEL_PROJECT, LABEL_ROLE
from deploy.containers.docker import Docker, DockerFailed
from deploy.plan.names import agent_name, host_name

UID_FOR_ROOT = 10_001
"""Whom containers run as where root starts them: inside, nobody is root."""
QUERY_S = 60.0
REMOVE_S = 300.0
MOST_IDS = 1 << 16
_ROUTES = Path("/proc/net/route")
_ID = re.compile(r"[A-Za-z0-9]{1,64}")


@dataclass(frozen=True, slots=True)
class ContainerMark:
    """One container; its id is never used again."""

    id: str
    pid: int
    """Of its first process, as this machine counts; 0: it has ended, or runs elsewhere."""

    @classmethod
    def from_json(cls, data: Any) -> ContainerMark:
        """Read a mark; raises ValueError for anything else."""
        match data:
            case {"container": str(container), "pid": int(pid)} if _ID.fullmatch(container) and 0 <= pid < 1 << 31:
                return cls(container, pid)
        raise ValueError(f"not the mark of a container: {data!r:.100}")

    def to_json(self) -> dict[str, Any]:
        return {"container": self.id, "pid": self.pid}

    def more(self) -> dict[str, str]:
        return {"container": self.id}


@dataclass(frozen=True, slots=True)
class Inspected:
    """What matters of `docker inspect`."""

    names: tuple[str, ...]
    """Of the agents in it, or of the environment."""
    service: str
    """What the document calls it."""
    mark: ContainerMark
    running: bool
    restarting: bool
    exit_code: int
    out_of_memory: bool


def name_of(labels: dict[str, str]) -> str | None:
    """The name in its testbed of what carries these labels."""
    role = labels.get(LABEL_ROLE)
    return f"agent-{labels.get(LABEL_ID)}" if role == "agent" else role


def names_of(labels: dict[str, str]) -> list[str]:
    """The names of all that share the container with these labels, as a supervisor knows them."""
    first, dash, last = labels.get(LABEL_AGENTS, "").partition("-")
    if dash and first.isdecimal() and last.isdecimal() and int(last) < MOST_IDS:
        return [agent_name(agent) for agent in range(int(first), int(last) + 1)]
    name = name_of(labels)
    return [] if name is None else [name]


def service_of(labels: dict[str, str]) -> str | None:
    """The name of a container in its document."""
    return host_name(int(labels[LABEL_ID])) if LABEL_AGENTS in labels else name_of(labels)


def inspect(docker: Docker, ids: Sequence[str]) -> list[Inspected]:
    """What Docker knows of these containers; those that are gone are left out."""
    if not ids:
        return []
    said = docker.run(["inspect", "--type", "container", *ids], check=False, timeout_s=QUERY_S)
    try:
        return [_inspected(one) for one in json.loads(said.stdout)]
    except (ValueError, KeyError, TypeError):
        raise DockerFailed(f"docker inspect said nothing that can be read: {said.stderr.strip()[-200:]}") from None


def ids_of(docker: Docker, project: str, *, ended_too: bool = True) -> list[str]:
    """The containers of a testbed."""
    every = ["--all"] if ended_too else []
    label = f"label={LABEL_PROJECT}={project}"
    return docker.run(["ps", *every, "--quiet", "--no-trunc", "--filter", label], timeout_s=QUERY_S).stdout.split()


def networks_of(docker: Docker, project: str) -> list[str]:
    """The networks of a testbed."""
    label = f"label={LABEL_PROJECT}={project}"
    return docker.run(["network", "ls", "--quiet", "--filter", label], timeout_s=QUERY_S).stdout.split()


def running(docker: Docker, project: str) -> dict[str, ContainerMark]:
    """The containers of a testbed that run, by their names in it."""
    found = inspect(docker, ids_of(docker, project, ended_too=False))
    return {name: one.mark for one in found if one.running for name in one.names}


def stop(docker: Docker, project: str, role: str, grace_s: int) -> list[str]:
    """Let containers of a role end in order, and kill those that do not; returns which there were."""
    labels = ["--filter", f"label={LABEL_PROJECT}={project}", "--filter", f"label={LABEL_ROLE}={role}"]
    ids = docker.run(["ps", "--quiet", *labels], timeout_s=QUERY_S).stdout.split()
    if ids:
        docker.run(["stop", "--time", str(grace_s), *ids], check=False, timeout_s=grace_s + REMOVE_S)
    return ids


def remove(docker: Docker, project: str) -> None:
    """Remove every container and network of a testbed; doing it twice does no harm."""
    if ids := ids_of(docker, project):
        docker.run(["rm", "--force", "--volumes", *ids], check=False, timeout_s=REMOVE_S)
    for network in networks_of(docker, project):
        docker.run(["network", "rm", network], check=False, timeout_s=QUERY_S)
    if left := ids_of(docker, project):
        raise DockerFailed(f"{len(left)} containers of {project} cannot be removed; see docker ps --all")


def taken_subnets(docker: Docker) -> list[IPv4Network]:
    """What Docker's networks and this machine's routes use already."""
    networks = docker.run(["network", "ls", "--quiet"], timeout_s=QUERY_S).stdout.split()
    found = docker.run(["network", "inspect", *networks], check=False, timeout_s=QUERY_S).stdout
    subnets = [config.get("Subnet", "") for one in json.loads(found) for config in one["IPAM"]["Config"] or []]
    return [*_readable(subnets), *_routes()]


def new_project(run_dir: Path) -> str:
    """A label for what belongs to the testbed in this directory."""
    return f"agentd-{secrets.token_hex(4)}-{_digest(run_dir)}"


def is_project_of(project: str, run_dir: Path) -> bool:
    """Whether the label was made for this directory: a testbed.json may name that of somebody else's containers."""
    return re.fullmatch(rf"agentd-[0-9a-f]{{8}}-{_digest(run_dir)}", project) is not None


def require_project_of(project: str, run_dir: Path) -> None:
    """Refuse to touch containers that are not this directory's."""
    if not is_project_of(project, run_dir):
        raise ConfigurationError(
            f"the containers {project!r:.60} were not started for {run_dir}; nothing is done to them"
        )


def user_inside() -> str:
    """UID:GID of our containers: the caller's, who is to own the run directory, and never root's."""
    uid, gid = os.getuid(), os.getgid()
    return f"{uid}:{gid or uid}" if uid else f"{UID_FOR_ROOT}:{UID_FOR_ROOT}"


def require_image(docker: Docker, image: str) -> None:
    """Refuse an image that is not here: there may be no registry to get it from."""
    if docker.image(image) is None:
        raise ConfigurationError(
            f"there is no image {image} here; make it with agentd image build, or name one: --image"
        )


def _digest(run_dir: Path) -> str:
    return hashlib.sha256(os.fsencode(run_dir)).hexdigest()[:16]


def _inspected(data: dict[str, Any]) -> Inspected:
    state, labels = data["State"], data["Config"]["Labels"] or {}
    return Inspected(
        names=tuple(names_of(labels)) or (data["Id"][:12],),
        service=service_of(labels) or data["Id"][:12],
        mark=ContainerMark(str(data["Id"]), int(state["Pid"])),
        running=bool(state["Running"]) and not state["Restarting"],
        restarting=bool(state["Restarting"]),
        exit_code=int(state["ExitCode"]),
        out_of_memory=bool(state["OOMKilled"]),
    )


def _routes() -> list[IPv4Network]:
    """Where this machine's packets go, but for the default route."""
    try:
        lines = [line.split() for line in _ROUTES.read_text(encoding="ascii").splitlines()[1:]]
    except OSError:
        return []
    pairs = [(_from_hex(line[1]), _from_hex(line[7])) for line in lines if len(line) > 7]
    return _readable([f"{place}/{mask}" for place, mask in pairs if mask != "0.0.0.0"])  # noqa: S104


def _from_hex(text: str) -> str:
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(text)))


def _readable(subnets: Sequence[str]) -> list[IPv4Network]:
    found = []
    for subnet in subnets:
        with contextlib.suppress(ValueError):  # IPv6, or nothing
            found.append(IPv4Network(subnet, strict=False))
    return found

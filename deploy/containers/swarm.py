"""The runtime `swarm`: services of a stack, on the node of a Docker swarm that holds the run directory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from agentd.errors import ToolMissing
from agentd.files import replace_text
from agentd.runs.scenario import Scenario
from deploy.containers import containers
from deploy.containers.compose_document import AGENT_PORT, RESTARTS, ContainerOptions
from deploy.containers.container_runtime import ContainerRuntime, environment_for_containers
from deploy.containers.containers import Inspected
from deploy.containers.docker import Docker, DockerFailed
from deploy.containers.stack_document import all_but_the_host, only, stack_document
from deploy.plan.names import host_name
from deploy.plan.plan import Plan
from deploy.plan.yaml_text import to_yaml

INIT = "docker swarm init --advertise-addr 127.0.0.1 --listen-addr 127.0.0.1:2377"
FILE = "docker-stack.yml"
_STARTED = "docker-stack-started.yml"
_PATIENCE_S = 90.0
_PATIENCE_PER_SERVICE_S = 5.0
_GONE_S = 90.0
_LOOK_EVERY_S = 0.25


class StackLauncher:
    """Deploys a stack, a batch of services more each time: a swarm removes nothing that a document leaves out."""

    batch = 20
    environment: Mapping[str, str] = {}

    def __init__(self, docker: Docker, project: str, run_dir: Path, document: dict[str, Any]) -> None:
        self._docker = docker
        self._project = project
        self._run_dir = run_dir
        self._document = document

    def start(self, names: Sequence[str]) -> list[str]:
        """`stack deploy` of these services; their image is here and need not be asked for elsewhere."""
        file = self._run_dir / _STARTED
        replace_text(file, to_yaml(only(self._document, names)))
        how = ["--resolve-image", "never", "--compose-file", str(file)]
        return [self._docker.client, "stack", "deploy", *how, self._project]

    def start_again(self, name: str, container: str) -> list[str]:  # noqa: ARG002
        """A new container for the service."""
        return [self._docker.client, "service", "update", "--force", "--detach", f"{self._project}_{name}"]

    def returns(self, ended: Inspected | None, code: int, crashes: int) -> bool:  # noqa: ARG002
        """A swarm replaces whatever failed, a few times."""
        return bool(code) and crashes <= RESTARTS

    def patience_s(self, names: int) -> float:
        """Generous: it only has to be shorter than for ever."""
        return _PATIENCE_S + _PATIENCE_PER_SERVICE_S * names

    def remove(self) -> None:
        """The stack, until nothing is left of it."""
        remove_stack(self._docker, self._project)


def remove_stack(docker: Docker, project: str) -> None:
    """Remove a stack and wait until it is gone; doing it twice does no harm."""
    docker.run(["stack", "rm", project], check=False, timeout_s=containers.REMOVE_S)
    deadline = time.monotonic() + _GONE_S
    while containers.ids_of(docker, project) or containers.networks_of(docker, project):
        if time.monotonic() > deadline:
            raise DockerFailed(f"the stack {project} does not go away; see docker stack ps {project}")
        with contextlib.suppress(DockerFailed):  # a swarm does not remove what it did not end itself
            _remove_ended(docker, project)
        time.sleep(_LOOK_EVERY_S)


def require_swarm(docker: Docker) -> str:
    """The id of this node, which must be a manager of a swarm; making one is for the operator to decide."""
    swarm = docker.info().get("Swarm") or {}
    if swarm.get("LocalNodeState") != "active":
        raise ToolMissing(
            f"this Docker is in no swarm; make it one of a single node: {INIT} "
            "(and end that with docker swarm leave --force, which cuts what docker-compose 1.29 runs off its networks)"
        )
    if not swarm.get("ControlAvailable"):
        raise ToolMissing("this Docker is a worker of a swarm; run this on one of its managers")
    return str(swarm["NodeID"])


def _remove_ended(docker: Docker, project: str) -> None:
    running = set(containers.ids_of(docker, project, ended_too=False))
    if ended := [one for one in containers.ids_of(docker, project) if one not in running]:
        docker.run(["rm", *ended], check=False, timeout_s=containers.QUERY_S)


class SwarmRuntime(ContainerRuntime[str]):
    """A stack of a swarm; what it needs is the id of this node."""

    name = "swarm"
    file = FILE

    def host_addresses(self, hosts: int, subnet: IPv4Network) -> tuple[str, ...]:  # noqa: ARG002
        """By the names of their services: their addresses are the swarm's to give."""
        return tuple(f"tcp://{host_name(host)}:{AGENT_PORT}" for host in range(hosts))

    def host_admit(self, subnet: IPv4Network) -> tuple[str, ...]:
        """Everybody in the network but the Docker host."""
        return all_but_the_host(subnet)

    def require_tool(self, docker: Docker) -> str:
        """The id of this node."""
        return require_swarm(docker)

    def document(self, tool: str, plan: Plan, scenario: Scenario, options: ContainerOptions) -> dict[str, Any]:
        """Everything placed on this node."""
        environment = environment_for_containers(scenario, plan)
        return stack_document(plan, environment, scenario.settings.seed, options, node=tool)

    def launcher(
        self,
        docker: Docker,
        tool: str,  # noqa: ARG002 - it is in the document
        project: str,
        run_dir: Path,
        document: dict[str, Any],
    ) -> StackLauncher:
        """`docker stack deploy`, of a part of the document at a time."""
        return StackLauncher(docker, project, run_dir, document)

    def remove(self, docker: Docker, project: str) -> None:
        """The stack, until nothing is left of it."""
        remove_stack(docker, project)


SWARM = SwarmRuntime()

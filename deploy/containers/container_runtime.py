"""What the runtimes in containers have in common: image, user, subnet and document, and finding them in Docker."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Generic, TypeVar

from agentd.errors import ConfigurationError, SettingsError
from agentd.runs.directory import RunDirectory
from agentd.runs.scenario import Scenario
from agentd.settings import Pace
from deploy.containers import containers, lent_directories, policy_files
from deploy.containers.compose_document import (
    AGENT_PORT,
    LABEL_PROJECT,
    RUN_DIR,
    SECRETS_DIR,
    ContainerOptions,
    ContainerPlaces,
    address_of,
    subnet_for,
)
from deploy.containers.container_control import ContainerControl
from deploy.containers.container_processes import ContainerProcesses, Launcher
from deploy.containers.containers import ContainerMark
from deploy.containers.docker import Docker, find_docker, require_docker
from deploy.containers.image import DEFAULT_TAG
from deploy.local import preflight, socket_directory
from deploy.local.throwaway_keys import InContainers, keyed_in_containers
from deploy.plan.environment import EnvironmentPlan, plan_environment
from deploy.plan.host_file import host_files
from deploy.plan.hosts import per_process_of
from deploy.plan.names import ENVIRONMENT, host_name
from deploy.plan.plan import Keep, Plan, lay_out, note_name
from deploy.plan.yaml_text import with_common_part
from deploy.testbed.launch import fresh_run, new_directory, write_plan
from deploy.testbed.lifecycle import ENVIRONMENT_GRACE_S, grace_for
from deploy.testbed.outcome import write_results
from deploy.testbed.registry import Testbed
from deploy.testbed.runtime import Prepared, Wanted

Tool = TypeVar("Tool")

DEFAULT_IMAGE = DEFAULT_TAG
IN_CONTAINERS = InContainers(SECRETS_DIR, lambda agent: f"{RUN_DIR}/{note_name(agent)}")
READY_EXTRA_S, READY_PER_AGENT_S = 30.0, 1.0
"""How much longer containers wait for each other, and per agent: the first one runs long before the last."""
MEGABYTES_PER_CONTAINER = 45
MEGABYTES_PER_HOSTED = 2
"""For each agent of a container of many."""


def plan_for_containers(scenario: Scenario, pace: Pace, keep: Keep | None = None, *, run: bytes | None = None) -> Plan:
    """The plan of a fresh run, or of the one that is named, with more patience at the start."""
    extra_s = READY_EXTRA_S + READY_PER_AGENT_S * scenario.graph.nodes
    patient = replace(pace, ready_timeout_s=pace.ready_timeout_s + extra_s) if pace.ready_timeout_s else pace
    return lay_out(scenario, ContainerPlaces(), run=fresh_run() if run is None else run, pace=patient, keep=keep)


def environment_for_containers(scenario: Scenario, plan: Plan) -> EnvironmentPlan:
    """What the environment is told, in a container of its own."""
    return plan_environment(scenario, plan, RUN_DIR)


def read_subnet(text: str | None) -> IPv4Network | None:
    """The subnet that an operator named."""
    try:
        return IPv4Network(text) if text is not None else None
    except ValueError as fault:
        raise SettingsError(f"--subnet: {fault}; write it like 10.213.0.0/24") from None


class ContainerRuntime(ABC, Generic[Tool]):
    """Containers of Docker; what starts them, and from which document, is for each kind to say."""

    name: str
    file: str
    """What its document is called in the run directory."""
    grace_per_agent_s = 0.5  # taking a container down costs the machine more than what ran in it
    revivals = 0  # Docker starts whatever crashed again by itself, a few times
    clears_up = ("removed", "container", "containers")

    @abstractmethod
    def require_tool(self, docker: Docker) -> Tool:
        """What it needs besides Docker, or the one line that says what is missing."""

    @abstractmethod
    def document(self, tool: Tool, plan: Plan, scenario: Scenario, options: ContainerOptions) -> dict[str, Any]:
        """What is to run, as plain values."""

    @abstractmethod
    def launcher(self, docker: Docker, tool: Tool, project: str, run_dir: Path, document: dict[str, Any]) -> Launcher:
        """Whoever starts the services of the document."""

    @abstractmethod
    def remove(self, docker: Docker, project: str) -> None:
        """Remove all that is left of a testbed."""

    def host_addresses(self, hosts: int, subnet: IPv4Network) -> tuple[str, ...]:
        """Where containers of many agents find each other: each has an address of its own."""
        return tuple(f"tcp://{address_of(host_name(host), subnet)}:{AGENT_PORT}" for host in range(hosts))

    def host_admit(self, subnet: IPv4Network) -> tuple[str, ...]:  # noqa: ARG002
        """Which networks may connect to them, beside each other's addresses."""
        return ()

    def prepare(self, scenario: Scenario, wanted: Wanted) -> Prepared:
        """Check Docker, image and machine, choose a subnet, and write the document down."""
        wanted.refuse(self.name, "base_port")
        per_process = _per_process(wanted, scenario.settings.agents)
        if wanted.transport == "ipc":
            raise SettingsError(
                f"--transport ipc is for processes of one machine; containers of --runtime {self.name} speak tcp, so "
                "leave it out"
            )
        asked, image = read_subnet(wanted.subnet), wanted.image or DEFAULT_IMAGE
        docker = require_docker()
        tool = self.require_tool(docker)
        plan = plan_for_containers(scenario, wanted.pace, wanted.keep)
        containers.require_image(docker, image)
        boxes = -(-len(plan.agents) // per_process)
        more = MEGABYTES_PER_HOSTED * len(plan.agents) if per_process > 1 else 0
        preflight.check_memory(MEGABYTES_PER_CONTAINER * (boxes + 1) + more, len(plan.agents))
        subnet = _free_subnet(docker, asked, boxes)
        if per_process > 1:
            plan = plan.hosted_at(per_process, self.host_addresses(boxes, subnet))
        directory = new_directory(scenario, wanted.run_dir)
        place, project = directory.path, containers.new_project(directory.path)
        options = ContainerOptions(
            image=image,
            user=containers.user_inside(),
            run_dir=str(place),
            subnet=subnet,
            labels={LABEL_PROJECT: project},
            policies=policy_files.named_files(),
        )
        means = (docker, tool, project)
        if not wanted.keys:
            return self._prepared(scenario, plan, directory, options, means=means)
        keys, plan = keyed_in_containers(plan, IN_CONTAINERS, options.user)
        try:
            options = replace(options, keys=keys.path)
            return self._prepared(scenario, plan, directory, options, means=means, release=keys.release)
        except BaseException:
            keys.release()
            raise

    def _prepared(
        self,
        scenario: Scenario,
        plan: Plan,
        directory: RunDirectory,
        options: ContainerOptions,
        *,
        means: tuple[Docker, Tool, str],
        release: Callable[[], None] = lambda: None,
    ) -> Prepared:
        docker, tool, project = means
        place = directory.path
        document = self.document(tool, plan, scenario, options)
        write_plan(directory, scenario, plan, self.name)
        lent_directories.make_directories(place, plan, options.user)
        for told in host_files(plan, f"tcp://0.0.0.0:{AGENT_PORT}", self.host_admit(options.subnet)):
            lent_directories.make_host_file(place, told.number, told.text())
        policy_files.copy_files(place, options.policies)
        directory.write_text(self.file, with_common_part(document, "services", "x-agentd"))
        launcher = self.launcher(docker, tool, project, place, document)

        def processes() -> ContainerProcesses:
            lent_directories.lend(place, options.user)
            return ContainerProcesses(docker, launcher, project, place, plan.per_process)

        return Prepared(scenario, plan, directory, self, processes, project, release)

    def take_up(self, testbed: Testbed, scenario: Scenario, plan: Plan, directory: RunDirectory) -> Prepared:  # noqa: ARG002
        """Not for containers: they outlive their supervisor, and Docker starts those again that crash."""
        raise ConfigurationError(
            f"only runs of --runtime local are taken up, and {directory.path} is one of {self.name}: its containers "
            f"may still run (agentd ps); agentd down {directory.path} ends them and keeps their results"
        )

    def require(self) -> None:
        """Docker, which alone knows what runs."""
        require_docker()

    def read_mark(self, data: Any) -> ContainerMark:
        """The mark of a container."""
        return ContainerMark.from_json(data)

    def running(self, testbed: Testbed) -> Mapping[str, ContainerMark]:
        """As Docker says; none, where it does not answer."""
        docker = find_docker() if containers.is_project_of(testbed.project, testbed.run_dir) else None
        return containers.running(docker, testbed.project) if docker is not None else {}

    def has_left_over(self, testbed: Testbed) -> bool:
        """Whether containers or networks are left."""
        docker = find_docker() if containers.is_project_of(testbed.project, testbed.run_dir) else None
        return docker is not None and bool(
            containers.ids_of(docker, testbed.project) or containers.networks_of(docker, testbed.project)
        )

    def end_left_over(self, testbed: Testbed) -> Sequence[str]:
        """The agents first, so that the environment hears their last words and writes down what came of the run."""
        containers.require_project_of(testbed.project, testbed.run_dir)
        docker = require_docker()
        ended = list(self.running(testbed))
        containers.stop(docker, testbed.project, "agent", int(grace_for(testbed.agents, self.grace_per_agent_s)))
        containers.stop(docker, testbed.project, ENVIRONMENT, int(ENVIRONMENT_GRACE_S))
        self.remove(docker, testbed.project)
        lent_directories.take_back(testbed.run_dir)
        write_results(testbed.run_dir)
        self.tidy(testbed)
        return ended

    def tidy(self, testbed: Testbed) -> None:
        """The directory of its keys; Docker knows of all else."""
        socket_directory.remove(testbed.sockets)

    def control(self, testbed: Testbed) -> ContainerControl:
        """Docker's own verbs."""
        return ContainerControl(testbed)


def _per_process(wanted: Wanted, agents: int) -> int:
    """How many agents share a container."""
    asked = wanted.hosting.per_process
    if asked == "1":
        return 1
    if wanted.keys:
        raise SettingsError(
            f"--per-process {asked}: a key is for one agent's links, and agents that share a container have none; "
            "leave out --keys, or --per-process"
        )
    files = preflight.room_left().files_hard
    return per_process_of(asked, agents, cores=len(os.sched_getaffinity(0)), files=files, state=wanted.keep.state)


def _free_subnet(docker: Docker, wanted: IPv4Network | None, agents: int) -> IPv4Network:
    """The one that was named, if it is free; else one of many, from a random place on, so that two do not meet."""
    taken = containers.taken_subnets(docker)
    if wanted is None:
        return subnet_for(agents, taken, secrets.randbelow(1 << 14))
    if clash := next((other for other in taken if wanted.overlaps(other)), None):
        raise ConfigurationError(
            f"--subnet {wanted} overlaps with {clash}, which is in use; name another or leave it out"
        )
    return wanted

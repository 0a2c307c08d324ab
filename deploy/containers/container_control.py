"""What can be done to agents in containers: docker's own verbs, and a kill that docker must not know of.

`docker kill` counts as an operator's stop, after which no restart policy acts. A crash is a process that dies: its
number on this machine is in `docker inspect`, and root may kill it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from ipaddress import IPv4Network

from agentd.errors import AgentdError, ConfigurationError
from deploy.containers import containers
from deploy.containers.compose_document import address_of
from deploy.containers.containers import QUERY_S, ContainerMark, Inspected
from deploy.containers.docker import Docker, require_docker
from deploy.plan.names import agent_name
from deploy.testbed import control
from deploy.testbed.registry import Testbed


class ContainerControl:
    """Docker's own verbs for pausing and for taking the network away; the supervisor restarts."""

    writes_down: Collection[str] = ("restart",)

    def __init__(self, testbed: Testbed) -> None:
        containers.require_project_of(testbed.project, testbed.run_dir)
        self._testbed = testbed
        self._docker: Docker = require_docker()

    def kill(self, agent: int) -> None:
        """SIGKILL from outside, so that the container's restart policy acts."""
        pid = self._container(agent).pid
        if pid <= 1:
            raise AgentdError(f"the process of agent {agent} is not on this machine, or has ended")
        try:
            process = os.pidfd_open(pid)
            try:
                if self._container(agent).pid != pid:  # asked again: from here on the number is nobody else's
                    raise ProcessLookupError
                signal.pidfd_send_signal(process, signal.SIGKILL)
            finally:
                os.close(process)
        except ProcessLookupError:
            raise AgentdError(f"agent {agent} has just ended by itself") from None
        except PermissionError:
            raise ConfigurationError(
                f"only root may kill the process of agent {agent} in its container; run it with sudo, "
                f"or use agentd chaos restart {agent}"
            ) from None

    def restart(self, agent: int) -> None:
        """Through the supervisor, which must know what it misses."""
        control.restart_agent(self._testbed.run_dir, agent)

    def pause(self, agent: int) -> None:
        """Freeze every process of the container."""
        self._run("pause", self._container(agent).id)

    def resume(self, agent: int) -> None:
        self._run("unpause", self._container(agent).id)

    def disconnect(self, agent: int) -> None:
        """Take its container off the network."""
        network, _ = self._network()
        self._run("network", "disconnect", network, self._container(agent).id)

    def reconnect(self, agent: int) -> None:
        """Put it back, under the address and the name where its neighbours look for it."""
        network, subnet = self._network()
        found = self._found(agent)
        name = found.service
        place = ["--ip", address_of(name, subnet), "--alias", name]
        self._run("network", "connect", *place, network, found.mark.id)

    def _container(self, agent: int) -> ContainerMark:
        """The container of an agent, as docker has it now: one that was started again has another process."""
        return self._found(agent).mark

    def _found(self, agent: int) -> Inspected:
        every = containers.inspect(
            self._docker, containers.ids_of(self._docker, self._testbed.project, ended_too=False)
        )
        found = next((one for one in every if one.running and agent_name(agent) in one.names), None)
        if found is None:
            raise AgentdError(f"the container of agent {agent} is not running")
        return found

    def _network(self) -> tuple[str, IPv4Network]:
        found = containers.networks_of(self._docker, self._testbed.project)
        if len(found) != 1:
            raise ConfigurationError(
                f"containers can be disconnected where one network is theirs alone, as with --runtime compose; "
                f"this testbed has {len(found)}"
            )
        config = self._docker.json(["network", "inspect", found[0]], timeout_s=QUERY_S)[0]["IPAM"]["Config"]
        return found[0], IPv4Network(config[0]["Subnet"])

    def _run(self, *arguments: str) -> None:
        self._docker.run(arguments, timeout_s=QUERY_S)

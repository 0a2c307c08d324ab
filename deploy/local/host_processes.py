"""The processes of a testbed whose agents share them: forks of the same warm interpreter, each with many agents.

A supervisor sees agents, as ever: each has a name and ends by itself, or together with all others of its process.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from signal import Signals
from socket import socket

from agentd.settings import AgentSettings
from agentd.shell.host.host import HostPlace
from deploy.local.children import failures, host_target
from deploy.local.local_processes import Child, LocalProcesses
from deploy.plan.environment import EnvironmentPlan
from deploy.plan.hosts import members
from deploy.plan.names import ENVIRONMENT, agent_name, agent_of, host_log, host_name
from deploy.plan.plan import Plan
from deploy.testbed.processes import ending_text


class HostProcesses(LocalProcesses):
    """Starts, signals and reaps processes of many agents."""

    def __init__(self, run_dir: Path, listeners: Mapping[str, socket], plan: Plan) -> None:
        super().__init__(run_dir, listeners)
        self._plan = plan
        self._hosts: dict[int, Child] = {}
        self._pipes: dict[int, Connection] = {}
        self._done: set[int] = set()
        """Agents that have nothing more to do."""
        self._deferred: set[int] | None = None
        """Hosts to be started again once all is told of one that has just ended; None: there is none."""

    def start_agents(self, agents: Sequence[AgentSettings], interrupted: Callable[[], bool]) -> None:
        """All agents, one process after the other."""
        for host in range(len(self._plan.hosts)):
            if interrupted():
                return
            self._start_host(host, [agents[number] for number in self._members(host)])

    def start_again(self, name: str, settings: AgentSettings | EnvironmentPlan) -> None:
        """An agent in the process that is there, or with all others whose process ended with it."""
        if isinstance(settings, EnvironmentPlan):
            self.start_environment(settings)
            return
        host = self._host_of(name)
        if self._deferred is not None:
            self._deferred.add(host)
        elif self._hosts[host].is_up and self._ask(host, settings.id):
            self._began(host, settings.id)
        else:
            self._start_host(host, [self._plan.agents[number] for number in self._members(host)])

    def signal(self, names: Sequence[str], number: Signals) -> None:
        """Send a signal to the processes of these agents, once to each."""
        for host in sorted({self._host_of(name) for name in names if name != ENVIRONMENT}):
            if host in self._hosts:
                self._send(self._hosts[host], number)
        if ENVIRONMENT in names:
            super().signal((ENVIRONMENT,), number)

    def close(self) -> None:
        """Leave nobody behind."""
        for child in (*self._hosts.values(), self.children.get(ENVIRONMENT)):
            if child is not None and self._send(child, signal.SIGKILL):
                self._reap(child)
        for pipe in self._pipes.values():
            pipe.close()

    def _host_of(self, name: str) -> int:
        return agent_of(name) // self._plan.per_process

    def _members(self, host: int) -> list[int]:
        """The agents of a host that have something to do."""
        every = members(host, self._plan.per_process, len(self._plan.agents))
        return [number for number in every if number not in self._done]

    def _start_host(self, host: int, agents: Sequence[AgentSettings]) -> None:
        place = HostPlace(
            number=host,
            per_process=self._plan.per_process,
            addresses=self._plan.hosts,
            log_file=str(self._run_dir / host_log(host)),
        )
        ours, theirs = self._context.Pipe(duplex=True)
        child = self._fork(host_name(host), self._plan.hosts[host], host_target, tuple(agents), place, theirs)
        theirs.close()
        self._hosts[host], self._pipes[host] = child, ours
        self._selector.register(ours, selectors.EVENT_READ, partial(self._heard, host, ours))
        self._selector.register(child.process.sentinel, selectors.EVENT_READ, partial(self._host_ended, host, child))
        for settings in agents:
            self._began(host, settings.id)

    def _began(self, host: int, agent: int) -> None:
        child = self._hosts[host]
        self.children[agent_name(agent)] = Child(agent_name(agent), child.process, child.mark)
        self._observer.started(agent_name(agent))

    def _ask(self, host: int, agent: int) -> bool:
        """Let a process start one of its agents anew; whether it could be told."""
        with contextlib.suppress(OSError):
            self._pipes[host].send(agent)
            return True
        return False

    def _heard(self, host: int, pipe: Connection) -> None:
        """An agent ended, and its process goes on."""
        try:
            while pipe.poll():
                agent, code, why = pipe.recv()
                self._agent_ended(agent_name(agent), code, why)
        except (EOFError, OSError):  # the process ended; its sentinel tells more
            self._hang_up(host, pipe)

    def _hang_up(self, host: int, pipe: Connection) -> None:
        if self._pipes.get(host) is pipe:
            del self._pipes[host]
            self._selector.unregister(pipe)
            pipe.close()

    def _agent_ended(self, name: str, code: int, why: str) -> None:
        child = self.children.get(name)
        if child is None or not child.is_up:
            return
        child.exit_code = code
        if not code:
            self._done.add(agent_of(name))
        self._observer.ended(name, code, why)

    def _host_ended(self, host: int, child: Child) -> None:
        self._selector.unregister(child.process.sentinel)
        if (pipe := self._pipes.get(host)) is not None:
            self._heard(host, pipe)  # the last words
            self._hang_up(host, pipe)
        code = self._reap(child)
        why = failures(self._run_dir).get(child.name, ending_text(code)) if code > 0 else ending_text(code)
        self._deferred = set()
        left = [name for name, each in self.children.items() if each.process is child.process and each.is_up]
        for name in left:
            self._agent_ended(name, code or 1, why)
        again, self._deferred = self._deferred, None
        for each in again:
            self._start_host(each, [self._plan.agents[number] for number in self._members(each)])

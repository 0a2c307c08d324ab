"""agentd host FILE: many agents in one process, as a container of `agentd up --per-process` runs them."""

from __future__ import annotations

import os
import resource
import sys
from collections import Counter

import click

from agentd.errors import ConfigurationError
from agentd.settings import AgentSettings

MOST_STARTS = 4
"""How often an agent that fails is started, all in all; the others of its process go on meanwhile."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file")
@click.option("--log-file", metavar="FILE", help="Where the process logs what concerns no agent; default: stderr.")
@click.option("--health-file", metavar="FILE", envvar="AGENTD_HEALTH_FILE", help="Where it says that it is well.")
def host(file: str, log_file: str | None, health_file: str | None) -> None:
    """Run the agents of FILE in one process, until all are done or it is told to stop (SIGTERM).

    `agentd up --runtime compose|swarm --per-process N` writes such files, and `agentd manifests kubernetes` prints
    them; each container runs one. Exit codes: 0 all agents are done, else that of the last one that failed.
    """
    from agentd.shell.host.host import HostPlace, run_host
    from agentd.untrusted import read_named
    from deploy.plan.host_file import LONGEST_FILE, read_host_file

    try:
        text = read_named(file, LONGEST_FILE)
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise ConfigurationError(f"cannot read {file}: {why}; agentd up writes such files") from None
    told = read_host_file(text)
    place = HostPlace(
        number=told.number,
        per_process=told.per_process,
        addresses=told.addresses,
        listen=told.listen,
        admit=told.admit,
        log_file=log_file,
        health_file=health_file,
    )
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    again = _Again(told.agents)
    code = run_host(told.agents, place, again.ended, (again.descriptor, again.next))
    sys.exit(code or again.code)


class _Again:
    """Has agents that fail started again, some times; there is no supervisor in a container."""

    def __init__(self, agents: tuple[AgentSettings, ...]) -> None:
        self._by_id = {settings.id: settings for settings in agents}
        self._starts: Counter[int] = Counter()
        self._failed: dict[int, int] = {}
        self.descriptor, self._writing = os.pipe()

    @property
    def code(self) -> int:
        """Of an agent that did not come to its end; 0: all did."""
        return next(reversed(self._failed.values()), 0)

    def ended(self, agent: int, code: int, why: str) -> None:
        """An agent ended; one that failed is asked for again."""
        self._failed.pop(agent, None)
        if not code:
            return
        click.echo(f"error: agent {agent}: {why}", err=True)
        self._failed[agent] = code
        self._starts[agent] += 1
        if self._starts[agent] < MOST_STARTS:
            os.write(self._writing, agent.to_bytes(4, "big"))

    def next(self) -> AgentSettings | None:
        """The next one to be started."""
        return self._by_id.get(int.from_bytes(os.read(self.descriptor, 4), "big"))

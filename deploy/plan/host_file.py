"""What one process of many agents is told, as a file: its agents, and where the other processes are. Pure.

A container finds it in its file system: the settings of a hundred agents do not fit on a command line. There is no
secret in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from agentd.errors import ConfigurationError, SettingsError
from agentd.settings import AgentSettings
from agentd.untrusted import decode_json
from deploy.plan.hosts import members
from deploy.plan.plan import Plan
from deploy.plan.written_plan import settings_from_json

FORMAT = 1
LONGEST_FILE = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFile:
    """One process, before it runs."""

    number: int
    per_process: int
    listen: str
    """Where it listens, if others find it under another address."""
    addresses: tuple[str, ...]
    """Where each process is found."""
    admit: tuple[str, ...] = ()
    """Networks whose addresses may connect, beside those of the other processes."""
    agents: tuple[AgentSettings, ...]

    def text(self) -> str:
        """As the file has it."""
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "agents"}
        return json.dumps({"format": FORMAT, **plain, "agents": [agent.to_json() for agent in self.agents]}) + "\n"


def host_files(plan: Plan, listen: str, admit: tuple[str, ...] = ()) -> list[HostFile]:
    """The files of all processes of a plan."""
    return [
        HostFile(
            number=host,
            per_process=plan.per_process,
            listen=listen,
            addresses=plan.hosts,
            admit=admit,
            agents=tuple(plan.agents[own] for own in members(host, plan.per_process, len(plan.agents))),
        )
        for host in range(len(plan.hosts))
    ]


def read_host_file(text: bytes) -> HostFile:
    """The process that a file describes; ConfigurationError where it is none."""
    try:
        data = decode_json(text)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"it is no host file of format {FORMAT}")
        return _read(data)
    except (ValueError, KeyError, TypeError, AttributeError, SettingsError) as fault:
        raise ConfigurationError(f"the host file cannot be used: {fault}; agentd up writes one") from None


def _read(data: Mapping[str, Any]) -> HostFile:
    agents = tuple(settings_from_json(AgentSettings, each) for each in data["agents"])
    addresses = tuple(str(each) for each in data["addresses"])
    number, per_process = data["number"], data["per_process"]
    if type(number) is not int or type(per_process) is not int or not 0 <= number < len(addresses) or per_process < 1:
        raise ValueError(f"there is no process {number!r} of {len(addresses)} with {per_process!r} agents each")
    if not agents or [agent.id // per_process for agent in agents] != [number] * len(agents):
        raise ValueError(f"its agents are not those of process {number}")
    return HostFile(
        number=number,
        per_process=per_process,
        listen=str(data["listen"]),
        addresses=addresses,
        admit=tuple(str(each) for each in data["admit"]),
        agents=agents,
    )

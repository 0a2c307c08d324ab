"""What the processes of a testbed are called, and the files that they share. Pure."""

from __future__ import annotations

STDERR = "logs/stderr.log"
"""Where processes of this machine print to; each has it open for as long as it runs."""
SUPERVISOR_LOG = "logs/supervisor.log"
"""Which the supervisor has open for as long as it runs."""
ENVIRONMENT_LOG = "logs/environment.jsonl"
ENVIRONMENT = "environment"
"""The name of the environment's process; agents are named by `agent_name`."""

_AGENT = "agent-"


def agent_name(agent: int) -> str:
    """The name of an agent's process."""
    return f"{_AGENT}{agent}"


def host_name(host: int) -> str:
    """The name of a process of many agents; supervisors know its agents by theirs."""
    return f"host-{host}"


def host_log(host: int) -> str:
    """What such a process logs of itself, inside the run directory."""
    return f"logs/{host_name(host)}.jsonl"


def is_name(name: str, agents: int) -> bool:
    """Whether a process of a testbed with so many agents has this name."""
    number = name.removeprefix(_AGENT)
    return name == ENVIRONMENT or (number.isdecimal() and int(number[:6]) < agents and name == agent_name(int(number)))


def agent_of(name: str) -> int:
    """Whose process that is."""
    return int(name.removeprefix(_AGENT))

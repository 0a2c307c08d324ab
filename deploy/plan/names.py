"""What the processes of a testbed are called, and the files that they share. Pure."""

from __future__ import annotations

STDERR = "logs/stderr.log"
ENVIRONMENT_LOG = "logs/environment.jsonl"
ENVIRONMENT = "environment"
"""The name of the environment's process; agents are named by `agent_name`."""

_AGENT = "agent-"


def agent_name(agent: int) -> str:
    """The name of an agent's process."""
    return f"{_AGENT}{agent}"


def agent_of(name: str) -> int:
    """Whose process that is."""
    return int(name.removeprefix(_AGENT))

"""How many agents share a process, and which of them. Pure: what the machine has is told."""

from __future__ import annotations

from agentd.errors import SettingsError

AUTO = "auto"
FILES_PER_HOSTED = 1
"""Descriptors of an agent among many: its log. Its lines to others have none."""
FILES_WITH_STATE = 3
"""The same where it keeps its state."""
FILES_PER_HOST = 3
"""Of a process for each of the others: a subscriber, its connection, and the other's connection to us."""
FILES_OF_ITS_OWN = 64
MOST_HOSTS = 1_000
"""ZeroMQ gives a process 1,023 sockets unless it is asked for more; each other host takes one."""


def per_process_of(wanted: str, agents: int, *, cores: int, files: int, state: bool) -> int:
    """How many agents share a process: as was asked for, or (auto) so many that there is one process for each core.

    `files` is what a process may have open at most; more processes are taken where fewer would need more than that.
    """
    each = FILES_WITH_STATE if state else FILES_PER_HOSTED
    if wanted == AUTO:
        hosts = min(max(1, cores), agents)
        while hosts < agents and files_of(-(-agents // hosts), hosts, each) > files:
            hosts += 1
        return -(-agents // hosts)
    per_process = min(int(wanted), agents)
    hosts = -(-agents // per_process)
    if per_process > 1 and (need := files_of(per_process, hosts, each)) > files:
        raise SettingsError(
            f"--per-process {per_process} needs {need:,} open files in a process, but the hard limit is {files:,}; use "
            f"--per-process auto, fewer agents in a process, or raise the limit: ulimit -Hn {need} as root"
        )
    if per_process > 1 and hosts > MOST_HOSTS:
        raise SettingsError(
            f"--per-process {per_process} makes {hosts:,} processes that all hear each other, and more than "
            f"{MOST_HOSTS:,} are too many: put more agents into each, or use --per-process auto"
        )
    return per_process


def files_of(per_process: int, hosts: int, each: int) -> int:
    """Descriptors of a process that holds so many agents, among so many others."""
    return per_process * each + FILES_PER_HOST * hosts + FILES_OF_ITS_OWN


def members(host: int, per_process: int, agents: int) -> range:
    """The agents of a process."""
    return range(host * per_process, min((host + 1) * per_process, agents))

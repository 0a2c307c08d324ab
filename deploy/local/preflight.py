"""Whether this machine can carry a testbed: checked before anything starts, every shortage named with its remedy.

What a testbed needs is estimated from its plan; what the machine has left is read from the kernel. The comparison
between the two is pure.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentd.errors import ConfigurationError
from agentd.quantities import counted
from deploy.local import cgroups
from deploy.plan.hosts import FILES_PER_HOSTED, FILES_WITH_STATE, files_of
from deploy.plan.plan import Plan

FILES_PER_LINK = 3
"""An agent's descriptors per neighbour: a subscriber, its connection, and the neighbour's connection to us.

The same over ipc and TCP."""
FILES_PER_PROCESS = 40
FILES_PER_CHILD = 4
"""The supervisor's: two pipes and a reserved port per process, and room to restart one."""
THREADS_PER_PROCESS = 4
"""The loop, ZeroMQ's reaper and I/O thread and, over TCP, the one that admits neighbours."""
MEGABYTES_PER_AGENT = 16
MEGABYTES_PER_HOSTED = 1.5
"""Of an agent among many; with γ = 3 and ten neighbours each hears of about a thousand others."""
MEGABYTES_SHARED = 100
_EXTRA_PROCESSES = 4  # the environment, the supervisor, the fork server and its resource tracker
_CAP_SYS_RESOURCE = 1 << 24


@dataclass(frozen=True, slots=True)
class Needs:
    """What a testbed takes."""

    agents: int
    files: int
    """Open files of the process that has most of them."""
    files_of: str
    threads: int
    megabytes: int


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: what is left below it, and how to raise it."""

    name: str
    left: int
    remedy: str


@dataclass(frozen=True, slots=True)
class Room:
    """What the machine has left."""

    files_soft: int
    files_hard: int
    threads: tuple[Limit, ...]
    megabytes: tuple[Limit, ...]


def needs_of(plan: Plan) -> Needs:
    """Estimate what a plan takes."""
    agents = len(plan.agents)
    if plan.hosts:
        return _needs_of_hosts(plan)
    files = {
        f"an agent with {plan.largest_degree} neighbours": FILES_PER_LINK * plan.largest_degree + FILES_PER_PROCESS,
        "the environment": agents + FILES_PER_PROCESS,
        "the supervisor": FILES_PER_CHILD * (agents + 1) + FILES_PER_PROCESS,
    }
    most = max(files, key=lambda who: files[who])
    return Needs(
        agents=agents,
        files=files[most],
        files_of=most,
        threads=THREADS_PER_PROCESS * (agents + _EXTRA_PROCESSES),
        megabytes=MEGABYTES_PER_AGENT * agents + MEGABYTES_SHARED,
    )


def _needs_of_hosts(plan: Plan) -> Needs:
    """The same where agents share processes: their lines to each other take memory, and no descriptors."""
    agents, hosts = len(plan.agents), len(plan.hosts)
    each = FILES_PER_HOSTED if plan.agents[0].state is None else FILES_WITH_STATE
    files = {
        f"a process of {plan.per_process} agents": files_of(plan.per_process, hosts, each),
        "the supervisor": FILES_PER_CHILD * (hosts + 1) + FILES_PER_PROCESS,
    }
    most = max(files, key=lambda who: files[who])
    return Needs(
        agents=agents,
        files=files[most],
        files_of=most,
        threads=THREADS_PER_PROCESS * (hosts + _EXTRA_PROCESSES),
        megabytes=round(MEGABYTES_PER_HOSTED * agents) + MEGABYTES_PER_AGENT * hosts + MEGABYTES_SHARED,
    )


def shortages(needs: Needs, room: Room) -> Iterator[str]:
    """Everything that is missing, how much of it, and what raises it."""
    if needs.files > room.files_hard:
        yield (
            f"{needs.files_of} needs {needs.files} open files, but the hard limit is {room.files_hard} "
            f"(raise it: ulimit -Hn {needs.files} as root, or LimitNOFILE={needs.files} in a systemd unit)"
        )
    for limit in room.threads:
        if needs.threads > limit.left:
            yield f"{needs.threads} threads are needed, but {limit.name} leaves {max(0, limit.left)} ({limit.remedy})"
    for limit in room.megabytes:
        if needs.megabytes > limit.left:
            fits = max(0, (limit.left - MEGABYTES_SHARED) // MEGABYTES_PER_AGENT)
            yield (
                f"about {needs.megabytes} MB of memory are needed, but {limit.name} leaves {max(0, limit.left)} MB "
                f"({limit.remedy}, or use --agents {fits})"
            )


def check(plan: Plan) -> None:
    """Refuse a plan this machine cannot carry; raise the soft limit on open files where that is all it takes."""
    needs, room = needs_of(plan), room_left()
    if missing := list(shortages(needs, room)):
        raise ConfigurationError(f"this machine cannot carry {counted(needs.agents, 'agent')}: " + "; ".join(missing))
    if needs.files > room.files_soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_unlimited(room.files_hard), _unlimited(room.files_hard)))


def check_memory(megabytes: int, agents: int) -> None:
    """Refuse containers for which this machine has no memory left; limits on this process do not bind them."""
    available = _available_megabytes()
    if available is not None and megabytes > available:
        raise ConfigurationError(
            f"this machine cannot carry {counted(agents, 'agent')} in containers: about {megabytes} MB of memory "
            f"are needed, but {available} MB are left; use fewer --agents"
        )


def room_left() -> Room:
    """What the kernel says is left below every limit that binds this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Room(
        files_soft=_number(soft), files_hard=_number(hard), threads=tuple(_thread_limits()), megabytes=tuple(_memory())
    )


_ENDLESS = 1 << 62
"""Stands for "no limit"; more than any need."""


def _number(limit: int) -> int:
    return _ENDLESS if limit == resource.RLIM_INFINITY else limit


def _unlimited(number: int) -> int:
    return resource.RLIM_INFINITY if number == _ENDLESS else number


def _thread_limits() -> Iterator[Limit]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY and not _is_exempt():
        yield Limit(
            f"ulimit -u ({soft})", soft - _threads_of_user(os.getuid()), "raise it: ulimit -u, or nproc in limits.conf"
        )
    total = _threads_in_all()
    for name in ("threads-max", "pid_max"):
        if (most := _read_number(Path("/proc/sys/kernel") / name)) is not None:
            yield Limit(f"kernel.{name} ({most})", most - total, f"raise it: sysctl kernel.{name}=… as root")
    for place, left in cgroups.pids_left():
        yield Limit(f"the cgroup limit {place}", left, "raise it: TasksMax= in systemd, --pids-limit in docker")


def _memory() -> Iterator[Limit]:
    available = _available_megabytes()
    if available is not None:
        yield Limit("this machine", available, "stop something else")
    for place, left in cgroups.bytes_left():
        yield Limit(f"the cgroup limit {place}", left >> 20, "raise it: MemoryMax= in systemd, --memory in docker")


def _available_megabytes() -> int | None:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) >> 10
    return None


def _threads_in_all() -> int:
    fields = _read("/proc/loadavg").split()
    return int(fields[3].partition("/")[2]) if len(fields) > 3 else 0


def _threads_of_user(uid: int) -> int:
    """Threads the kernel counts against a user."""
    return sum(_threads_of(entry, uid) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _threads_of(process: Path, uid: int) -> int:
    lines = dict(line.split(":", 1) for line in _read(process / "status").splitlines() if ":" in line)
    if lines.get("Uid", "").split()[:1] != [str(uid)]:
        return 0
    return int(lines.get("Threads", "0"))


def _is_exempt() -> bool:
    """Whether the kernel lets this process pass its limit on processes, as it lets root."""
    for line in _read("/proc/self/status").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) & _CAP_SYS_RESOURCE)
    return False


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux enough, or the process has just ended
        return ""


def _read_number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None

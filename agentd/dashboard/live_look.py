"""A run under way, looked at again and again: its status, the pulls since the last look, and who is not well.

A look costs the same however long the run has lasted: the journal is read from where it was left, and files that have
not changed are not read again.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentd.dashboard.afflictions import DEAD, DISTRUSTED, DISTURBED, DONE, LATE, LIAR, PAUSED, Afflictions, cut_edges
from agentd.dashboard.favoured_arms import NOBODY, GrowingPulls
from agentd.dashboard.surroundings import Edge, Surroundings
from agentd.dashboard.tamed import tamed
from agentd.runs import fault_log
from agentd.runs.status import APART, AgentStatus, Status, read_status
from agentd.runs.status import FILE as STATUS
from agentd.shell.link_faults import LinkFaults, read_faults

LINK_FAULTS = "chaos/links.json"
_BEHIND = 5
"""Rounds behind the furthest from which on an agent is late, where it is more than a share of what was made, too."""
_MOST_FAULTS = 200
_OVER_AFTER = 10
"""Looks without news after which a run that is done is over, though its environment serves on."""


class LiveLook:
    """Everything that is told of one run, as it is now."""

    def __init__(
        self, run_dir: Path, surroundings: Surroundings, edges: Sequence[Edge], arms: int, liars: frozenset[int]
    ) -> None:
        self._run_dir = run_dir
        self._surroundings = surroundings
        self._edges = edges
        self._liars = liars
        self._arms = arms
        self._status: Status | None = None
        self._quiet = 0
        """Looks since the status was another."""
        self._pulls: GrowingPulls | None = None
        self._seen: dict[str, tuple[int, ...]] = {}
        self._links = LinkFaults()
        self._cut: list[int] = []
        self._suffering = Afflictions.none()
        self._faults: list[dict[str, Any]] = []

    def take(self) -> dict[str, Any]:
        """The state now; may block."""
        if self._has_changed(STATUS) or self._has_changed(f"{APART}/{STATUS}"):
            self._status, self._quiet = read_status(self._run_dir) or self._status, 0
        self._quiet += 1
        if self._has_changed(fault_log.FILE):
            self._read_log()
        if self._has_changed(LINK_FAULTS):
            self._read_links()
        running = self._surroundings.is_running()
        status = self._status
        if status is None:
            return {"running": running, "over": not running, "agents": {}, "faults": self._faults}
        down = self._surroundings.down() if running else frozenset()
        over = not running or (status.done and self._quiet > _OVER_AFTER)
        return {
            **_figures(status, down, running=running),
            "over": over,
            "faults": self._faults,
            **self._parts(status, down, running),
        }

    def _parts(self, status: Status, down: frozenset[int], running: bool) -> dict[str, Any]:
        arms = self._favoured(status)
        silent, furthest = set(status.silent()) if running else set(), max((a.round for a in status.agents), default=0)
        agents = {
            str(agent.id): {
                "arm": arms[agent.id] if agent.id < len(arms) else NOBODY,
                "trial": agent.trial,
                "round": agent.round,
                "messages": agent.messages,
                "bytes": agent.bytes,
                "dropped": agent.dropped,
                "epsilon": _or_none(agent.epsilon),
                "regret": _or_none(agent.regret),
                "marks": self._marks(agent, down, silent, furthest, running=running),
            }
            for agent in status.agents
        }
        return {"agents": agents, "cut": self._cut if running else []}

    def _favoured(self, status: Status) -> list[int]:
        if self._pulls is None:
            seats = max((agent.id for agent in status.agents), default=-1) + 1
            self._pulls = GrowingPulls(self._run_dir, seats, self._arms or status.arms or 1)
        self._pulls.look()
        arms: list[int] = self._pulls.favoured().tolist()
        return arms

    def counts_of(self, agent: int) -> list[int]:
        """How often an agent pulled each arm."""
        known = self._pulls.counts if self._pulls is not None else None
        counts: list[int] = [] if known is None or agent >= len(known) else known[agent].tolist()
        return counts

    def _marks(
        self, agent: AgentStatus, down: frozenset[int], silent: set[int], furthest: int, *, running: bool
    ) -> list[str]:
        suffers = self._suffering.marks.get(agent.id, set())
        behind = furthest - agent.round
        disturbed = agent.id in self._links.delay_ms or agent.id in self._links.loss or DISTURBED in suffers
        dead = agent.id in down
        paused = running and PAUSED in suffers and not dead
        found = {
            DEAD: dead,
            PAUSED: paused,
            LATE: running
            and not agent.done
            and not (dead or paused)
            and (agent.id in silent or _is_late(agent, behind, furthest)),
            LIAR: agent.id in self._liars or agent.id in self._links.liars,
            DISTRUSTED: agent.is_distrusted,
            DISTURBED: running and disturbed,
            DONE: agent.done,
        }
        return [mark for mark, so in found.items() if so]

    def _read_log(self) -> None:
        faults = fault_log.read_faults(self._run_dir)
        self._suffering = Afflictions.none()
        for fault in faults:
            self._suffering.befall(fault)
        self._faults = [
            {"round": fault["round"], "what": tamed(fault["what"]), "at": tamed(str(fault.get("at", "")))}
            for fault in faults[-_MOST_FAULTS:]
        ]

    def _read_links(self) -> None:
        with contextlib.suppress(ValueError):
            self._links = read_faults(self._run_dir / LINK_FAULTS)
            cuts = self._links.to_json()["cuts"]
            self._cut = cut_edges(cuts, self._edges)

    def _has_changed(self, name: str) -> bool:
        about: tuple[int, ...] = ()
        with contextlib.suppress(OSError):
            found = os.lstat(self._run_dir / name)
            about = (found.st_ino, found.st_mtime_ns, found.st_size)
        changed = self._seen.get(name, ()) != about
        self._seen[name] = about
        return changed


def _is_late(agent: AgentStatus, behind: int, furthest: int) -> bool:
    return "slow" in agent.blamed or behind > max(_BEHIND, furthest // 50)


def _figures(status: Status, down: frozenset[int], *, running: bool) -> dict[str, Any]:
    spent = [agent.epsilon for agent in status.agents if agent.epsilon is not None]
    return {
        "running": running,
        "round": max(0, status.round(but=down)),
        "rounds": status.rounds,
        "regret": _or_none(status.group_regret),
        "messages": status.messages,
        "bytes": sum(agent.bytes for agent in status.agents),
        "dropped": status.dropped,
        "pulls": status.pulls,
        "pulls_per_s": status.pulls_per_s if running else 0.0,
        "epsilon": _or_none(max(spent, default=None)),
    }


def _or_none(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 6)

"""How a testbed is doing, as the environment writes it down about once a second in RUN/status.json."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "status.json"


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """One agent as the environment sees it."""

    id: int
    trial: int
    messages: int
    dropped: int
    done: bool


@dataclass(frozen=True, slots=True)
class Status:
    """The testbed as the environment sees it."""

    rounds: int | None
    group_regret: float
    pulls: int
    pulls_per_s: float
    agents: tuple[AgentStatus, ...]

    @property
    def messages(self) -> int:
        """Messages sent so far."""
        return sum(agent.messages for agent in self.agents)

    @property
    def dropped(self) -> int:
        """Messages and frames dropped so far, for whatever reason."""
        return sum(agent.dropped for agent in self.agents)

    def seen(self) -> set[int]:
        """Agents that have made a pull, or are done."""
        return {agent.id for agent in self.agents if agent.trial > 0 or agent.done}

    def round(self, but: Iterable[int] = ()) -> int:
        """The last round that every agent has closed, but for those that are down."""
        left_out = set(but)
        return min((agent.trial for agent in self.agents if agent.id not in left_out), default=0)


def read_status(run_dir: Path) -> Status | None:
    """What the environment last wrote; None where it wrote nothing that can be read."""
    try:
        data = json.loads((run_dir / FILE).read_text(encoding="utf-8"))
        return Status(
            rounds=None if data["rounds"] is None else int(data["rounds"]),
            group_regret=float(data["group_regret"]),
            pulls=int(data["pulls"]),
            pulls_per_s=float(data["pulls_per_s"]),
            agents=tuple(_agent(agent) for agent in data["agents"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _agent(data: Any) -> AgentStatus:
    return AgentStatus(
        id=int(data["id"]),
        trial=int(data["trial"]),
        messages=int(data["messages"]),
        dropped=int(data["dropped"]),
        done=bool(data["done"]),
    )

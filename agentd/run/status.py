"""How a run is doing, as the environment writes it down about once a second in RUN/status.json: what is in it.

Whoever writes and whoever reads means these fields; what a reader does not know it passes over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

FILE = "status.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """One agent as the environment sees it."""

    id: int
    trial: int
    regret: float = 0.0
    messages: int = 0
    bytes: int = 0
    dropped: int = 0
    epsilon: float | None = None
    """None where it has no bound, or was not told."""
    done: bool = False
    last_seen_s_ago: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The run as the environment sees it."""

    run: str = ""
    address: str = ""
    arms: int = 0
    rounds: int | None
    agents: tuple[AgentStatus, ...]
    group_regret: float
    pulls: int
    pulls_per_s: float
    refused: dict[str, int] = field(default_factory=dict)
    """Requests that were refused, by reason."""
    malformed: dict[str, int] = field(default_factory=dict)
    """Requests that could not be read, by reason."""
    unanswerable: int = 0
    done: bool = False

    @property
    def messages(self) -> int:
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

    def to_json(self) -> dict[str, Any]:
        """The content of status.json, apart from when it was written."""
        return _values(self) | {"agents": [_values(agent) for agent in self.agents]}


def read_status(run_dir: Path) -> Status | None:
    """What the environment last wrote; None where it wrote nothing that can be read."""
    try:
        return _read(Status, json.loads((run_dir / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


_Part = TypeVar("_Part", Status, AgentStatus)
_READERS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "dict[str, int]": dict,
    "int | None": lambda value: None if value is None else int(value),
    "float | None": lambda value: None if value is None else float(value),
    "tuple[AgentStatus, ...]": lambda agents: tuple(_read(AgentStatus, agent) for agent in agents),
}


def _values(part: Status | AgentStatus) -> dict[str, Any]:
    """The fields by name; not by `asdict`, which copies what hundreds of agents say once a second."""
    return {name: getattr(part, name) for name in part.__slots__}


def _read(kind: type[_Part], data: Any) -> _Part:
    """Every field that is there; one without a default must be."""
    wanted = (f for f in fields(kind) if f.name in data or (f.default is MISSING and f.default_factory is MISSING))
    return kind(**{f.name: _READERS[str(f.type)](data[f.name]) for f in wanted})

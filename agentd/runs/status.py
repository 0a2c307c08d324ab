"""How a run is doing, as the environment writes it down about once a second in RUN/status.json: what is in it.

Whoever writes and whoever reads means these fields; what a reader does not know it passes over.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from agentd.runs.blamed import Blamed
from agentd.untrusted import printable, read_json_in

FILE = "status.json"
APART = "environment"
"""Where an environment in a container writes everything that it writes: the run directory itself is out of its reach.
When it has ended, what it wrote is taken from there (`deploy.containers.lent_directories`)."""
SILENT_S, SILENT_TIMES = 10.0, 3.0
"""How long an agent may say nothing, also compared with the half of all that was heard last."""
LAGS_ROUNDS = 10
"""So many rounds behind the furthest: more than neighbours in step ever are."""
_DISTRUSTED_FOR = ("flood", "wrong", "ahead")
_LARGEST = 2**63
_LONGEST_TEXT = 1_000


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
    """That one of its rewards is exposed to, over all its lives; None where it has no bound, or was not told."""
    done: bool = False
    last_seen_s_ago: float | None = None
    round: int = 0
    """That it is in, up to the last of the run; larger than its trial by the rounds that it missed."""
    blamed: Blamed = field(default_factory=dict)
    """What its neighbours hold against it, and who says so: "slow": [1, 2]. They may lie."""
    doubted: tuple[int, ...] = ()
    """Neighbours whose algorithm trusts it less than by half, as they say; some of them, where they are many."""

    @property
    def is_distrusted(self) -> bool:
        """Whether somebody says that it lies, floods, sends wrong frames or claims to be ahead; who is slow is not."""
        return bool(self.doubted) or any(why in _DISTRUSTED_FOR for why in self.blamed)


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
    left_open: tuple[str, ...] = ()
    """What the terms of the run do not say, so that agents cannot refuse it."""
    done: bool = False

    @property
    def messages(self) -> int:
        return sum(agent.messages for agent in self.agents)

    @property
    def dropped(self) -> int:
        """Messages and frames dropped so far, for whatever reason."""
        return sum(agent.dropped for agent in self.agents)

    def silent(self) -> dict[int, float]:
        """Who is not done and was not heard for long, compared with the others, and for how many seconds."""
        working = {agent.id: agent.last_seen_s_ago for agent in self.agents if not agent.done}
        ago_s = sorted(seconds for seconds in working.values() if seconds is not None)
        usual_s = ago_s[(len(ago_s) - 1) // 2] if ago_s else 0.0
        long_s = max(SILENT_S, SILENT_TIMES * usual_s)
        return {number: seconds for number, seconds in working.items() if seconds is not None and seconds > long_s}

    def late(self, but: Iterable[int] = ()) -> dict[int, int]:
        """Who is not done and far behind the furthest, and by how many rounds, the last first; but for who is down."""
        furthest, left_out = max((agent.round for agent in self.agents), default=0), set(but)
        behind = {each.id: furthest - each.round for each in self.agents if not each.done and each.id not in left_out}
        far = ((number, rounds) for number, rounds in behind.items() if rounds >= LAGS_ROUNDS)
        return dict(sorted(far, key=lambda pair: -pair[1]))

    def seen(self) -> set[int]:
        """Agents that have made a pull, or are done."""
        return {agent.id for agent in self.agents if agent.trial > 0 or agent.done}

    def awake(self) -> set[int]:
        """Agents that have asked for something since the environment started, for the first time or again."""
        return {agent.id for agent in self.agents if agent.last_seen_s_ago is not None}

    def round(self, but: Iterable[int] = ()) -> int:
        """The last round that every agent has closed, but for those that are down; some may have fewer trials."""
        left_out = set(but)
        return min((max(agent.trial, agent.round) for agent in self.agents if agent.id not in left_out), default=0)

    def blamed(self) -> dict[int, Blamed]:
        """Those that somebody blames for something."""
        return {agent.id: agent.blamed for agent in self.agents if agent.blamed}

    def to_json(self) -> dict[str, Any]:
        """The content of status.json, apart from when it was written."""
        return _values(self) | {"agents": [_values(agent) for agent in self.agents]}


def read_status(run_dir: Path) -> Status | None:
    """What the environment last wrote; None where it wrote nothing that can be read."""
    for name in (FILE, f"{APART}/{FILE}"):
        with contextlib.suppress(FileNotFoundError):
            try:
                return _read(Status, read_json_in(run_dir, name))
            except FileNotFoundError:
                raise
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                return None
    return None


def _whole(value: Any) -> int:
    if type(value) is not int or not -_LARGEST <= value < _LARGEST:
        raise ValueError("not a whole number of 64 bits")
    return value


def _number(value: Any) -> float:
    """A number; null is one that nobody knows."""
    if value is None:
        return math.nan
    if type(value) is not float:
        return float(_whole(value))
    return value


def _text(value: Any) -> str:
    if type(value) is not str or len(value) > _LONGEST_TEXT:
        raise ValueError("not a short text")
    return printable(value)


_Part = TypeVar("_Part", Status, AgentStatus)
_READERS: dict[str, Callable[[Any], Any]] = {
    "int": _whole,
    "float": _number,
    "bool": bool,
    "str": _text,
    "dict[str, int]": lambda counts: {_text(why): _whole(count) for why, count in counts.items()},
    "Blamed": lambda blamed: {_text(why): [_whole(each) for each in who] for why, who in blamed.items()},
    "tuple[str, ...]": lambda texts: tuple(map(_text, texts)),
    "tuple[int, ...]": lambda numbers: tuple(map(_whole, numbers)),
    "int | None": lambda value: None if value is None else _whole(value),
    "float | None": lambda value: None if value is None else _number(value),
    "tuple[AgentStatus, ...]": lambda agents: tuple(_read(AgentStatus, agent) for agent in agents),
}


def _values(part: Status | AgentStatus) -> dict[str, Any]:
    """The fields by name; not by `asdict`, which copies what hundreds of agents say once a second."""
    values = {name: getattr(part, name) for name in part.__slots__}
    regret = "group_regret" if isinstance(part, Status) else "regret"
    if math.isnan(values[regret]):  # JSON has none
        values[regret] = None
    return values


def _read(kind: type[_Part], data: Any) -> _Part:
    """Every field that is there; one without a default must be."""
    wanted = (f for f in fields(kind) if f.name in data or (f.default is MISSING and f.default_factory is MISSING))
    return kind(**{f.name: _READERS[str(f.type)](data[f.name]) for f in wanted})

"""One look at a run: what all of its agents together had said, dropped and spent by then, and who was distrusted.

There is nothing in it of rewards and arms; what an agent spent it has reported, of values that it has released.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentd.core.message import MAX_TRIAL
from agentd.runs.fault_log import current_round
from agentd.runs.status import Status
from agentd.untrusted import printable

MOST_AGENTS = 1_000
"""Of a larger run it is not kept how much each agent has sent."""
MOST_REASONS = 16
"""Reasons for dropping that are kept apart; agents may report any."""
OTHER_REASONS = "other reasons"
_REASON_CHARS = 60
_LARGEST = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class LookBack:
    """What was known of a run at one time."""

    written: float | None = None
    """When, in seconds since 1970; None in a run that was simulated."""
    round: int
    """That half of the agents had reached, as in the log of faults."""
    messages: int = 0
    bytes: int | None = None
    """None where nobody counted."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """By reason."""
    epsilon: float | None = None
    """Spent on a reward by the agent that has spent most."""
    epsilon_median: float | None = None
    """By the agent in the middle."""
    sent: tuple[int, ...] = ()
    """Messages of each agent from 0 on; empty where ids have gaps or are too many."""
    distrusted: tuple[int, ...] = ()
    """Agents that somebody distrusts just then; of many, the first."""

    def to_json(self) -> dict[str, Any]:
        """A line of the file."""
        return {name: getattr(self, name) for name in self.__slots__}


def look_back(status: Status, dropped: Mapping[str, int], written: float) -> LookBack:
    """A look at a run under way."""
    spent = [agent.epsilon for agent in status.agents if agent.epsilon is not None]
    few_agents = len(status.agents) <= MOST_AGENTS
    numbered = few_agents and all(agent.id == place for place, agent in enumerate(status.agents))
    return LookBack(
        written=round(written, 2),
        round=current_round(status),
        messages=status.messages,
        bytes=sum(agent.bytes for agent in status.agents),
        dropped=few(dropped),
        epsilon=max(spent, default=None),
        epsilon_median=statistics.median_high(spent) if spent else None,
        sent=tuple(agent.messages for agent in status.agents) if numbered else (),
        distrusted=tuple(agent.id for agent in status.agents if agent.is_distrusted)[:MOST_AGENTS],
    )


def few(dropped: Mapping[str, int]) -> dict[str, int]:
    """The most frequent reasons, the rest added up."""
    kept = dict(Counter(dropped).most_common(MOST_REASONS))
    rest = sum(dropped.values()) - sum(kept.values())
    if rest:
        kept[OTHER_REASONS] = kept.get(OTHER_REASONS, 0) + rest
    return kept


def from_json(data: Any) -> LookBack:
    """The look that `to_json` described, whoever wrote it; ValueError where it is none."""
    try:
        dropped, sent, distrusted = data.get("dropped", {}), data.get("sent", ()), data.get("distrusted", ())
        if len(dropped) > MOST_REASONS + 1 or max(len(sent), len(distrusted)) > MOST_AGENTS:
            raise ValueError("it tells too much")
        return LookBack(
            written=_number(data.get("written")),
            round=_count(data["round"], MAX_TRIAL),
            messages=_count(data.get("messages", 0)),
            bytes=None if data.get("bytes") is None else _count(data["bytes"]),
            dropped={printable(str(why)[:_REASON_CHARS]): _count(times) for why, times in dropped.items()},
            epsilon=_number(data.get("epsilon")),
            epsilon_median=_number(data.get("epsilon_median")),
            sent=tuple(_count(each) for each in sent),
            distrusted=tuple(_count(each) for each in distrusted),
        )
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"it is no look at a run: {fault}") from None


def _count(value: Any, most: int = _LARGEST - 1) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("not a number of things")
    return value


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0.0 <= value < _LARGEST or math.isnan(value):
        raise ValueError("not a number from 0 on")
    return float(value)

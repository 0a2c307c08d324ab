"""From the samples of a soak to figures, and from those to a verdict.

An agent that was started again is another process with memory of its own, so a slope is fitted through each life
apart: the lives share the slope, not the level. The first part of a life is left out, in which Python and its
libraries still take what they need once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.errors import AgentdError
from deploy.soak.samples import Process, Sample

WARM_UP_S = 120.0
WARM_UP_SHARE = 0.25
"""Of the whole soak, if that is less."""
MOST_RSS_MB_PER_H = 1.0
RESOLUTION_MB = 0.4
"""Growth below this shows nothing: pages come and go. So a short soak has a wider limit, which the report prints."""
MOST_MORE_DESCRIPTORS = 2.0
STUCK_S = 30.0
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure beside what it may be."""

    what: str
    value: float
    limit: float | None
    """None where it is only told."""
    unit: str = ""
    note: str = ""

    @property
    def held(self) -> bool:
        return self.limit is None or self.value <= self.limit

    def to_json(self) -> dict[str, Any]:
        told = {"what": self.what, "value": round(self.value, 4), "limit": self.limit, "unit": self.unit}
        return told | {"held": self.held, "note": self.note}


def judge(samples: Sequence[Sample], agents: int, lasted_s: float, stuck_s: float = STUCK_S) -> list[Finding]:
    """What the samples say."""
    if len(samples) < 8:
        raise AgentdError(f"{len(samples)} samples are too few to judge; let it last longer")
    warm_s = min(WARM_UP_S, lasted_s * WARM_UP_SHARE)
    most = max(MOST_RSS_MB_PER_H, RESOLUTION_MB * _HOUR_S / max(lasted_s - warm_s, 1.0))
    slopes = [slope(samples, agent, _rss, warm_s) for agent in range(agents)]
    known = [each for each in slopes if each is not None] or [0.0]
    worst = int(np.argmax([each if each is not None else -np.inf for each in slopes]))
    more = [_more_descriptors(samples, agent, warm_s) for agent in range(agents)]
    stuck = longest_without_progress(samples, agents)
    longest = max(stuck, default=0.0)
    return [
        Finding("memory of an agent grows", float(np.mean(known)), most, "MB/h", "mean over agents"),
        Finding("memory of the one that grows most", max(known), None, "MB/h", f"agent {worst}"),
        Finding("descriptors of an agent grow", float(np.median(more)), MOST_MORE_DESCRIPTORS, "", "median"),
        Finding("descriptors of the one that grows most", max(more), None, "", f"agent {int(np.argmax(more))}"),
        Finding("longest time without a pull", longest, stuck_s, "s", f"agent {int(np.argmax(stuck))}"),
    ]


def slope(samples: Sequence[Sample], agent: int, of: Callable[[Process], float], warm_s: float) -> float | None:
    """How much an agent's figure grows in an hour, over all its lives; None where none lasted long enough."""
    top = bottom = 0.0
    for at_s, values in lives(samples, agent, of):
        late = at_s >= at_s[0] + warm_s
        if np.count_nonzero(late) < 3:
            continue
        x, y = at_s[late] - at_s[late].mean(), values[late] - values[late].mean()
        top, bottom = top + float(x @ y), bottom + float(x @ x)
    return top / bottom * _HOUR_S if bottom else None


def lives(
    samples: Sequence[Sample], agent: int, of: Callable[[Process], float]
) -> Iterable[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """When an agent was looked at and what was seen, for each of its processes."""
    seen: dict[int, list[tuple[float, float]]] = {}
    for sample in samples:
        process = sample.agent(agent)
        if process is not None:
            seen.setdefault(process.pid, []).append((sample.at_s, of(process)))
    for points in seen.values():
        table = np.array(points)
        yield table[:, 0], table[:, 1]


def longest_without_progress(samples: Sequence[Sample], agents: int) -> list[float]:
    """For each agent the longest time in which it made no pull, while nothing held it."""
    longest, since, before = [0.0] * agents, [samples[0].at_s] * agents, list(samples[0].trials)
    for sample in samples:
        for agent in range(agents):
            if sample.trials[agent] > before[agent] or agent in sample.held:
                before[agent], since[agent] = sample.trials[agent], sample.at_s
            longest[agent] = max(longest[agent], sample.at_s - since[agent])
    return longest


def _more_descriptors(samples: Sequence[Sample], agent: int, warm_s: float) -> float:
    """How many more an agent has in the last quarter than in the first one after its start, by their medians."""
    seen = [(s.at_s, process.descriptors) for s in samples if s.at_s >= warm_s and (process := s.agent(agent))]
    if len(seen) < 8:
        return 0.0
    quarter = len(seen) // 4
    first, last = ([number for _, number in part] for part in (seen[:quarter], seen[-quarter:]))
    return float(np.median(last) - np.median(first))


def _rss(process: Process) -> float:
    return process.rss_mb

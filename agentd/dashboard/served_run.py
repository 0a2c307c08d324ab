"""One run that is served: what was read of it, and when that has to be read again. Everything in here may block."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from agentd.charts.of_run import charts_of
from agentd.charts.run_facts import RunFacts, read_facts
from agentd.dashboard.agent_close_up import close_up
from agentd.dashboard.live_look import LiveLook
from agentd.dashboard.retelling import story_of
from agentd.dashboard.surroundings import PlacedGraph, Surroundings
from agentd.dashboard.tamed import read_object, tamed
from agentd.errors import ConfigurationError
from agentd.runs import fault_log

_AT_LEAST_S = 2.0
_TIMES_ITS_COST = 20.0
"""What takes long to compute is computed less often, so that looking on never takes more than a share of a core."""

Made = TypeVar("Made")


class Kept(Generic[Made]):
    """A value that is made again when it is asked for and old; old is measured by what it takes to make it."""

    def __init__(self, make: Callable[[], Made], changing: Callable[[], bool]) -> None:
        self._make = make
        self._changing = changing
        self._lock = threading.Lock()
        self._value: Made | None = None
        self._good_until_s = 0.0
        self._final = False

    def get(self) -> Made:
        """The value; what a run that is over tells is kept for good."""
        with self._lock:
            if self._value is None or (not self._final and time.monotonic() >= self._good_until_s):
                changing, began_s = self._changing(), time.monotonic()
                self._value = self._make()
                took_s = time.monotonic() - began_s
                self._good_until_s = time.monotonic() + max(_AT_LEAST_S, _TIMES_ITS_COST * took_s)
                self._final = not changing
            return self._value


class ServedRun:
    """A run directory and what surrounds it."""

    def __init__(self, number: int, path: Path, surroundings: Surroundings) -> None:
        self.number = number
        self.path = path
        self.name = tamed(path.name or str(path))
        self.surroundings = surroundings
        self._graph: Kept[PlacedGraph] = Kept(self._read_graph, lambda: False)
        self._facts: Kept[RunFacts] = Kept(lambda: read_facts(path), self.is_changing)
        self._charts: Kept[list[dict[str, Any]]] = Kept(self._make_charts, self.is_changing)
        self._story: Kept[list[dict[str, Any]]] = Kept(self._tell, self.is_changing)
        self._live: LiveLook | None = None
        self._looking = threading.Lock()

    def is_changing(self) -> bool:
        return self.surroundings.is_running()

    def about(self) -> dict[str, Any]:
        """What the page says of the run as a whole."""
        manifest, summary = read_object(self.path, "manifest.json"), read_object(self.path, "summary.json")
        settings, arms = _object(manifest.get("settings")), _object(manifest.get("arms"))
        graph = self.graph()
        return {
            "number": self.number,
            "name": self.name,
            "live": self.is_changing(),
            "agents": len(graph.places),
            "edges": len(graph.edges),
            "liars": sorted(self._liars(manifest)),
            "arms": self._arm_count(manifest),
            "means": tamed(arms.get("means")) if isinstance(arms.get("means"), list) else None,
            **{name: tamed(manifest.get(name)) for name in ("created", "runtime", "seed", "privacy_note", "gamma")},
            "algorithm": tamed(settings.get("algorithm") or summary.get("algorithm")),
            "settings": tamed(settings),
            "summary": tamed({name: value for name, value in summary.items() if name not in ("faults", "events")}),
            "faults": tamed([_fault(each) for each in fault_log.read_faults(self.path)[-200:]]),
        }

    def graph(self) -> PlacedGraph:
        return self._graph.get()

    def facts(self) -> RunFacts:
        return self._facts.get()

    def charts(self) -> list[dict[str, Any]]:
        return self._charts.get()

    def story(self) -> list[dict[str, Any]]:
        return self._story.get()

    def look(self) -> dict[str, Any]:
        """The run as it is now."""
        with self._looking:
            return self._looker().take()

    def close_up(self, agent: int) -> dict[str, Any]:
        """One of its agents; KeyError where there is none."""
        graph = self.graph()
        if not 0 <= agent < len(graph.places):
            raise KeyError(agent)
        with self._looking:
            pulls = self._looker().counts_of(agent)
        return close_up(self.path, agent, graph.neighbours(agent), pulls or self._pulls_in_table(agent))

    def _pulls_in_table(self, agent: int) -> list[int]:
        try:
            facts = self.facts()
        except ConfigurationError:
            return []
        if agent >= len(facts.arm):
            return []
        arms = self._arm_count({"arms": {"means": list(facts.means)}}) or 1
        row = facts.arm[agent]
        counts: list[int] = np.bincount(row[row < arms], minlength=arms).tolist()
        return counts

    def _looker(self) -> LiveLook:
        if self._live is None:
            manifest = read_object(self.path, "manifest.json")
            arms = self._arm_count(manifest)
            self._live = LiveLook(self.path, self.surroundings, self.graph().edges, arms, self._liars(manifest))
        return self._live

    def _tell(self) -> list[dict[str, Any]]:
        liars = self._liars(read_object(self.path, "manifest.json"))
        return story_of(self.facts(), fault_log.read_faults(self.path), self.graph().edges, liars)

    def _make_charts(self) -> list[dict[str, Any]]:
        return [chart.as_json() for chart in charts_of(self.facts())]

    def _read_graph(self) -> PlacedGraph:
        graph = self.surroundings.graph()
        return graph if graph is not None else PlacedGraph((), ())

    def _liars(self, manifest: dict[str, Any]) -> frozenset[int]:
        told = manifest.get("liars")
        return frozenset(each for each in told if type(each) is int) if isinstance(told, list) else frozenset()

    def _arm_count(self, manifest: dict[str, Any]) -> int:
        arms = _object(manifest.get("arms"))
        means, count = arms.get("means"), arms.get("count")
        if isinstance(means, list):
            return len(means)
        return count if type(count) is int and 0 < count < 65_535 else 0


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _fault(record: dict[str, Any]) -> dict[str, Any]:
    return {"round": record["round"], "what": record["what"], "at": str(record.get("at", ""))}

"""What stands behind a page: the testbed of a run directory, if there is one, and the graph of any."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentd.cli.watching.places import OPERATOR
from agentd.dashboard.surroundings import Action, PlacedGraph
from agentd.errors import AgentdError, ConfigurationError
from agentd.runs.status import APART, read_status
from agentd.untrusted import read_in, require_few
from deploy.chaos.chaos import Chaos
from deploy.testbed import description, registry

_LONGEST_GRAPH = 64 << 20
_MOST_VALUES = 8_000_000


class RunDirectorySurroundings:
    """Any run directory, also one that was copied from elsewhere; where it is of a testbed, that testbed."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir

    def graph(self) -> PlacedGraph | None:
        from topology.node_link import parse
        from topology.placement import arrange
        from topology.validation import TopologyError

        try:
            content = read_in(self._run_dir, "topology.json", _LONGEST_GRAPH)
            require_few(content, _MOST_VALUES)
            graph = parse(content)
        except (OSError, ValueError, TopologyError):
            return self._without_edges()
        places = tuple((float(x), float(y)) for x, y in arrange(graph))
        return PlacedGraph(places, graph.edges)

    def is_running(self) -> bool:
        testbed = self._testbed()
        if testbed is not None:
            return testbed.is_running()
        return any(os.path.lexists(self._run_dir / name) for name in (OPERATOR, f"{APART}/{OPERATOR}"))

    def down(self) -> frozenset[int]:
        testbed = self._testbed()
        return frozenset(description.who_is_down(testbed, read_status(self._run_dir))) if testbed else frozenset()

    def act(self, action: Action) -> list[dict[str, Any]]:
        testbed = self._testbed()
        if testbed is None:
            raise ConfigurationError(f"no testbed is running in {self._run_dir}; see agentd ps")
        chaos = Chaos(testbed)
        others = frozenset(range(testbed.agents)) - action.agents
        if action.verb == "partition" and not others:
            raise ConfigurationError("a partition needs somebody on the other side: choose fewer agents")
        ways: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "partition": lambda: chaos.partition((action.agents, others)),
            "heal": chaos.heal,
            "delay": lambda: chaos.delay(action.agents, action.amount),
            "loss": lambda: chaos.loss(action.agents, action.amount),
            "lie": lambda: chaos.lie(action.agents, lies=True),
            "honest": lambda: chaos.lie(action.agents, lies=False),
        }
        return ways.get(action.verb, lambda: chaos.to_agents(action.verb, action.agents))()

    def _testbed(self) -> registry.Testbed | None:
        """The testbed; of a directory that is another user's, or was not made by one, there is none."""
        with contextlib.suppress(AgentdError, OSError, ValueError):
            return registry.read(self._run_dir)
        return None

    def _without_edges(self) -> PlacedGraph | None:
        """Agents on a circle, where nobody wrote down who hears whom: the run of a lone environment."""
        from topology.placement import circle

        status = read_status(self._run_dir)
        if status is None or not status.agents:
            return None
        seats = min(max(agent.id for agent in status.agents) + 1, len(status.agents) + 1_000)
        return PlacedGraph(tuple((float(x), float(y)) for x, y in circle(seats)), ())

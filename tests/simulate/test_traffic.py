"""Messages in closed form against the messages that agents send."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import complete, line, network, ring, sparse, spec

from agentd.runs.spec import Network
from agentd.simulation.network import InMemoryNetwork
from agentd.simulation.traffic import count_messages, messages_per_frame

GRAPHS = {
    "line": line(5),
    "ring": ring(6),
    "complete": complete(4),
    "sparse": sparse(9, 0.2, 3),
    "alone": network(1, []),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
@pytest.mark.parametrize("gamma", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("algorithm", ["ucb1", "coop-ucb"])
def test_the_closed_form_is_what_agents_send(graph: Network, gamma: int, algorithm: str) -> None:
    run = spec(graph, algorithm, rounds=6, gamma=gamma)
    net = InMemoryNetwork(run)
    frames = np.zeros((graph.agents, 6), dtype=np.int64)
    publish = net._publish

    def counting(sender: int, frame: list[object]) -> None:
        frames[sender, net.round - 1] = sum(len(batch) for batch in frame)  # type: ignore[arg-type, misc]
        publish(sender, frame)  # type: ignore[arg-type]

    net._publish = counting  # type: ignore[assignment, method-assign]
    outcome = net.run()
    assert messages_per_frame(run).tolist() == frames.tolist()
    assert count_messages(run) == outcome.messages


def test_a_run_shorter_than_a_lifetime_is_counted_too() -> None:
    run = spec(line(5), rounds=2, gamma=4)
    assert messages_per_frame(run).tolist() == [[1, 2], [1, 3], [1, 3], [1, 3], [1, 2]]
    assert count_messages(run) == 3 + 3 * 2 * 4 + 3

"""No honest frame is over quota, whatever the network does to frames; and there is room left."""

from __future__ import annotations

import pytest
from small_runs import complete, line, ring, sparse, spec

from agentd.core.gossip import WINDOW
from agentd.core.message import by_kind
from agentd.core.trust.quota import Allowance, Quota
from agentd.runs.agreed_terms import terms_of
from agentd.runs.spec import Network, RunSpec
from agentd.simulation.memory_transport import InFlight
from agentd.simulation.network import InMemoryNetwork, make_agent
from agentd.simulation.network_faults import NO_FAULTS, Crash, Faults, Partition

ROUNDS = 100
ROUGH = Faults(
    loss=0.2,
    duplication=0.1,
    max_delay=6,
    reorder=True,
    partitions=(Partition(frozenset(range(4)), 40, 70),),
    crashes=(Crash(1, 30, 60), Crash(2, 50, 80, keeps_state=False)),
)
ROUGHER = Faults(loss=0.2, duplication=0.5, max_delay=30, reorder=True)
GRAPHS = {"ring": (ring(12), 11), "random": (sparse(12, 0.3, 5), 11), "complete": (complete(9), 3)}


class Metered:
    """Holds what arrives in a run against a quota, as each receiver does."""

    def __init__(self, run: RunSpec, faults: Faults, rule: Quota) -> None:
        self.network = InMemoryNetwork(run, faults)
        self.frames = self.refused = 0
        self._rule = rule
        self._allowances: dict[tuple[int, int], Allowance] = {}
        self._arrivals = self.network._transport.arrivals
        self.network._transport.arrivals = self._metered  # type: ignore[method-assign]
        self.network.run()

    def _metered(self, round_: int) -> list[InFlight]:
        flights = self._arrivals(round_)
        for flight in flights:
            frame = flight.frame
            pair = flight.receiver, frame.sender
            allowance = self._allowances.setdefault(pair, Allowance(self._rule))
            allowance.reached(max(round_, frame.round))
            self.frames += 1
            self.refused += not allowance.allows(flight.size, frame.messages)
        return flights


def part_of(rule: Quota, part: int) -> Quota:
    """Less than is allowed, in the long run and at once."""
    return Quota(rule.messages // part, rule.bytes // part, rule.most_messages // part, rule.most_bytes // part)


@pytest.mark.parametrize(
    ("faults", "part"), [(NO_FAULTS, 3), (ROUGH, 3), (ROUGHER, 1)], ids=["calm", "rough", "rougher"]
)
@pytest.mark.parametrize("algorithm", ["byzantine-ucb", "sealed"])
@pytest.mark.parametrize(("graph", "gamma"), GRAPHS.values(), ids=GRAPHS)
def test_a_third_of_the_quota_is_enough_for_honest_neighbours(
    graph: Network, gamma: int, algorithm: str, faults: Faults, part: int
) -> None:
    """And all of it where frames are late by up to thirty rounds, and half of them come twice."""
    run = spec(graph, algorithm, rounds=ROUNDS, gamma=gamma)
    metered = Metered(run, faults, part_of(Quota.under(terms_of(run)), part))
    assert metered.frames > ROUNDS * graph.agents
    assert metered.refused == 0


def test_the_meter_can_refuse() -> None:
    run = spec(complete(8), "byzantine-ucb", rounds=40, gamma=3)
    assert Metered(run, ROUGH, Quota(2, 10_000, 20, 100_000)).refused > 0


def test_who_was_stopped_for_long_passes_on_what_a_bucket_holds() -> None:
    """The middle of a line hears 400 rounds of one side at once, and tells the other."""
    run = spec(line(3), "byzantine-ucb", rounds=400, gamma=2)
    side, middle = make_agent(run, 0), make_agent(run, 1)
    waiting = []
    for _ in range(400):
        side.choose()
        turn = side.advance(1)
        turn.committed()
        waiting += turn.outbox()
    middle.receive(by_kind(waiting))
    middle.choose()
    turn = middle.advance(1)
    turn.committed()
    told = sum(len(batch) for batch in turn.outbox())
    assert told > WINDOW // 2
    assert Allowance(Quota.under(terms_of(run))).allows(100 * told, told)

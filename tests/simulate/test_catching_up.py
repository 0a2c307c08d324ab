"""After a crash and after a cut longer than gossip remembers trials: who misses something has it soon."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import sparse, spec

from agentd.core.gossip import WINDOW
from agentd.core.policy.sealed import Sealed
from agentd.simulation.network import InMemoryNetwork
from agentd.simulation.network_faults import NO_FAULTS, Crash, Faults, Partition

AGENTS, GAMMA, REFRESH = 12, 4, 100
CUT = Partition(frozenset(range(AGENTS // 2)), 10, 10 + WINDOW + 72)


def running(faults: Faults, seed: int, rounds: int) -> InMemoryNetwork:
    run = spec(sparse(AGENTS, 0.15, seed), "sealed", rounds=rounds, gamma=GAMMA, seed=seed, means=(0.8, 0.6, 0.3))
    return InMemoryNetwork(run, faults)


def policy_of(network: InMemoryNetwork, own: int) -> Sealed:
    policy = network.agents[own].policy
    assert isinstance(policy, Sealed)
    return policy


def released(network: InMemoryNetwork) -> list[list[int]]:
    """The pulls of what each has released, arm by arm."""
    return [[record.pulls for record in policy_of(network, own)._own] for own in range(AGENTS)]


def missing(network: InMemoryNetwork, told: list[list[int]]) -> int:
    """How many records that were told by then somebody within γ hops does not hold."""
    number, distances = 0, network.spec.network.distances
    for own, agent in enumerate(network.agents):
        for origin in np.flatnonzero((distances[own] >= 1) & (distances[own] <= GAMMA)).tolist():
            row = int(agent._origins._row_of[origin])
            held = policy_of(network, own)._pool.held
            pulls = held[row, :, 0].tolist() if 0 <= row < len(held) else [0] * len(told[origin])
            number += sum(has < said for has, said in zip(pulls, told[origin], strict=True))
    return number


def play(network: InMemoryNetwork, until: int) -> None:
    while network.round < until:
        network.step()


@pytest.mark.parametrize("seed", [3, 4])
def test_what_was_released_during_a_cut_is_everywhere_soon_after(seed: int) -> None:
    network = running(Faults(partitions=(CUT,)), seed, CUT.heals + GAMMA + 2 * REFRESH)
    play(network, CUT.heals - 1)
    told = released(network)
    assert missing(network, told) > AGENTS
    play(network, network.spec.rounds)
    assert missing(network, told) == 0


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_whoever_comes_back_with_its_state_soon_knows_what_it_knew(share: float) -> None:
    """A hello of γ hops there, a record in a round, and γ hops back; also where all were gone."""
    crashes = tuple(Crash(own, 150, 160) for own in range(round(share * AGENTS)))
    network = running(Faults(crashes=crashes), 7, 160 + 2 * GAMMA + 4)
    play(network, 159)
    told = released(network)
    play(network, network.spec.rounds)
    assert missing(network, told) == 0


def test_where_nobody_was_away_nobody_is_told_again() -> None:
    network = running(NO_FAULTS, 3, 250)
    for own in range(AGENTS):
        policy_of(network, own)._tell_all_again = lambda: pytest.fail("told again")  # type: ignore[method-assign]
    assert network.run().messages


def test_an_agent_that_is_restored_draws_no_noise_twice_and_spends_nothing_again() -> None:
    crashes = (Crash(0, 100, 103), Crash(0, 150, 151))
    network = running(Faults(crashes=crashes), 7, 200)
    play(network, 102)
    before = policy_of(network, 0)
    play(network, 103)
    after = policy_of(network, 0)
    assert after is not before
    assert after.ledger.releases() == len(network._released[0]) >= before.ledger.releases() > 0
    assert before._pool.origins == AGENTS - 1 > after._pool.origins
    play(network, 200)
    drawn = [charged.value for charged in network._released[0]]
    assert len(set(drawn)) == len(drawn)

"""Core agents in memory: what faults do to them, and that the books are kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_runs import Overheard, complete, line, network, spec

from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.series import scale_steps
from agentd.runs.spec import DELTA, NOT_PULLED, Network, Outcome, RunSpec, draw_liars
from agentd.simulation.network import InMemoryNetwork, make_agent, run_agents
from agentd.simulation.network_faults import NO_FAULTS, Crash, Faults, Partition


def crashing(run: RunSpec, *crashes: Crash) -> tuple[InMemoryNetwork, Outcome]:
    net = InMemoryNetwork(run, Faults(crashes=crashes))
    return net, net.run()


def spent(releases: int, v: float = 1.1) -> tuple[float, float]:
    """What so many releases of one arm, one at every pull, cost."""
    ledger = Ledger()
    for pulls in range(1, releases + 1):
        ledger.record(Release(0, pulls, pulls, scale_steps(pulls, v)))
    return ledger.epsilon_one_reward(), ledger.epsilon_one_reward(DELTA)


def test_every_pull_is_noted_with_what_it_paid() -> None:
    run = spec(line(3), rounds=40)
    outcome = run_agents(run)
    assert outcome.arm.shape == outcome.reward.shape == (3, 40)
    assert (outcome.arm.dtype, outcome.reward.dtype) == (np.dtype(np.uint16), np.dtype(np.int32))
    assert set(np.unique(outcome.arm)) == {0, 1}
    assert outcome.events == []
    assert outcome.dropped == {}


def test_the_same_spec_and_faults_give_the_same_run_and_another_seed_another() -> None:
    def arms(seed: int) -> list[list[int]]:
        faults = Faults(loss=0.3, duplication=0.3, max_delay=2, reorder=True)
        found: list[list[int]] = run_agents(spec(complete(4), rounds=60, seed=seed), faults).arm.tolist()
        return found

    assert arms(1) == arms(1)
    assert arms(1) != arms(2)


def test_rewards_do_not_depend_on_what_happens_to_the_frames() -> None:
    """Uniforms are keyed by agent and trial: the same arm at the same trial pays the same."""
    calm = run_agents(spec(complete(4), rounds=300))
    rough = run_agents(spec(complete(4), rounds=300), Faults(loss=0.6))
    same = calm.arm == rough.arm
    assert 0 < np.count_nonzero(same) < same.size
    assert np.array_equal(calm.reward[same], rough.reward[same])


@pytest.mark.parametrize("algorithm", ["coop-ucb", "private-ucb", "byzantine-ucb"])
def test_when_every_frame_is_lost_agents_are_alone(algorithm: str) -> None:
    lost = run_agents(spec(complete(4), algorithm, rounds=80), Faults(loss=1.0))
    alone = run_agents(spec(complete(4), algorithm, rounds=80, gamma=0))
    assert np.array_equal(lost.arm, alone.arm)
    assert alone.messages == 0
    assert lost.messages == 4 * 3 * 80


def test_an_agent_that_is_down_neither_pulls_nor_hears() -> None:
    net, outcome = crashing(spec(line(2), rounds=10, gamma=1), Crash(1, at=3, back=6))
    assert outcome.events == [(3, "agent 1 down"), (6, "agent 1 back with state")]
    assert net.agents[1].trial == 7
    assert (outcome.arm[1] == NOT_PULLED).tolist() == [False] * 7 + [True] * 3
    assert (outcome.reward[1] == -1).tolist() == [False] * 7 + [True] * 3
    assert (outcome.arm[0] != NOT_PULLED).all()
    assert net.agents[1].heard == 7
    assert net.agents[0].heard == 7


def test_an_agent_may_stay_down_for_good() -> None:
    net, outcome = crashing(spec(line(2), rounds=10), Crash(1, at=4))
    assert outcome.events == [(4, "agent 1 down")]
    assert net.agents[1].trial == 3


def test_an_agent_that_kept_its_state_goes_on_where_it_was() -> None:
    calm = run_agents(spec(network(1, []), rounds=40))
    _, outcome = crashing(spec(network(1, []), rounds=40), Crash(0, at=11, back=21))
    assert np.array_equal(outcome.arm[0, :30], calm.arm[0, :30])


def test_an_agent_that_lost_its_state_returns_as_someone_new_and_is_counted_once() -> None:
    net, outcome = crashing(spec(line(2), rounds=12, gamma=1), Crash(1, at=5, back=7, keeps_state=False))
    assert outcome.events[-1] == (7, "agent 1 back without state")
    returned = net.agents[1]
    assert (returned.incarnation, returned.trial) == (4, 10)  # named after the trials it lost
    pool = net.agents[0].policy._pool  # type: ignore[attr-defined]
    assert sum(pool.counts) == 6  # the pulls of the second life only; the first four are void
    assert outcome.arm[1, 4:6].tolist() == [0, 1]  # it begins with every arm again


def test_each_loss_of_state_makes_another_incarnation_with_noise_of_its_own() -> None:
    run = spec(network(1, []), "private-ucb", rounds=20, means=(0.5,))
    net, _ = crashing(run, Crash(0, 5, 6, keeps_state=False), Crash(0, 11, 12, keeps_state=False))
    assert net.agents[0].incarnation == 9
    lives = [make_agent(run, 0, incarnation=incarnation) for incarnation in (0, 4, 9)]
    noised = []
    for agent in lives:
        agent.choose()
        agent.advance(0).committed()
        noised.append(agent.turn.outbox()[0].body[0, 2])
    assert len(set(noised)) == 3


def test_what_a_lost_life_spent_and_dropped_stays_in_the_books() -> None:
    """One arm, ε = 1: a release at every pull. 14 pulls in the first life, 3 in the second."""
    run = spec(line(2), "private-ucb", rounds=18, means=(0.5,), gamma=1)
    net, outcome = crashing(run, Crash(1, at=15, back=16, keeps_state=False))
    assert net.agents[1].policy.ledger is not None
    assert net.agents[1].policy.ledger.releases() == 3
    assert outcome.releases == 18 + 14 + 3
    assert outcome.epsilon is not None
    assert outcome.epsilon_at_delta is not None
    assert outcome.epsilon.tolist() == [spent(18)[0], spent(14)[0]]
    assert outcome.epsilon_at_delta.tolist() == [spent(18)[1]] * 2  # of the schedule, whatever was pulled
    assert outcome.epsilon_over_lives is not None
    assert outcome.epsilon_over_lives.tolist() == [spent(18)[0], pytest.approx(spent(14)[0] + spent(3)[0])]


def test_fallbacks_and_estimates_of_a_lost_life_stay_in_the_books() -> None:
    run = spec(line(2), "byzantine-ucb", rounds=18, gamma=1)
    _, outcome = crashing(run, Crash(1, at=15, back=16, keeps_state=False))
    # Every trial after the first two of a life estimates both arms; so few samples always fall back.
    assert outcome.estimates == outcome.fallbacks == 2 * (16 + 12 + 1)


def test_who_adds_no_noise_among_noised_agents_is_exposed() -> None:
    outcome = run_agents(spec(line(3), "private-ucb", rounds=6, means=(0.5,), overrides={1: "coop-ucb"}))
    assert outcome.epsilon is not None
    assert outcome.epsilon.tolist() == [spent(6)[0], math.inf, spent(6)[0]]
    assert outcome.releases == 12


@pytest.mark.parametrize("algorithm", ["ucb1", "coop-ucb", "byzantine-ucb"])
def test_where_nothing_is_noised_there_is_no_epsilon(algorithm: str) -> None:
    outcome = run_agents(spec(line(3), algorithm, rounds=6))
    assert outcome.epsilon is None
    assert outcome.epsilon_at_delta is None
    assert outcome.releases == 0


def test_drops_of_agents_are_added_up() -> None:
    """A relay that corrupts releases makes its neighbours see releases that change their value."""
    run = spec(line(4), "private-ucb", rounds=40, gamma=3, liars=[1], attack="relay-uniform", contamination=0.5)
    net = InMemoryNetwork(run)
    outcome = net.run()
    assert outcome.dropped["history"] > 0
    assert outcome.dropped == sum((agent.dropped for agent in net.agents[1:]), net.agents[0].dropped)


def test_a_partition_is_noted_and_heals() -> None:
    net = InMemoryNetwork(spec(line(4), rounds=8, gamma=1), Faults(partitions=(Partition(frozenset({0, 1}), 3, 6),)))
    overheard = [Overheard(agent) for agent in net.agents]
    outcome = net.run()
    assert outcome.events == [(3, "partition"), (6, "healed")]
    assert sorted(overheard[1].counted) == [(0, t) for t in range(1, 9)] + [(2, t) for t in (1, 2, 6, 7, 8)]
    assert sorted(overheard[3].counted) == [(2, t) for t in range(1, 9)]


def test_a_frame_under_way_to_an_agent_that_goes_down_is_lost() -> None:
    faults = Faults(max_delay=4, crashes=(Crash(1, at=4, back=9),))
    net = InMemoryNetwork(spec(line(2), rounds=60, gamma=1, seed=11), faults)
    overheard = Overheard(net.agents[1])
    net.run()
    heard = {trial for _, trial in overheard.counted}
    assert set(range(9, 56)) <= heard
    assert not {4} & heard


def test_a_delayed_frame_arrives_rounds_later() -> None:
    net = InMemoryNetwork(spec(line(2), rounds=40, gamma=1), Faults(max_delay=3))
    overheard = Overheard(net.agents[1])
    net.run()
    delays = set()
    for origin, said in (key for key in overheard.counted if key[1] <= 30):
        delays.add(min(t for t, known in overheard.known_at.items() if (origin, said) in known) - said - 1)
    assert delays == {0, 1, 2, 3}


def test_reordering_changes_nothing_for_agents_that_take_a_round_at_once() -> None:
    calm = run_agents(spec(complete(5), rounds=50))
    shuffled = run_agents(spec(complete(5), rounds=50), Faults(reorder=True))
    assert np.array_equal(calm.arm, shuffled.arm)


def test_a_network_may_be_stepped_and_finished_by_hand() -> None:
    run = spec(line(3), rounds=5)
    net = InMemoryNetwork(run, NO_FAULTS)
    for _ in range(5):
        net.step()
    assert np.array_equal(net.finish().arm, run_agents(run).arm)


@pytest.mark.parametrize(("attack", "where"), [("worst", "source"), ("relay-worst", "relay")])
def test_liars_lie_where_their_attack_says(attack: str, where: str) -> None:
    """0 – 1 – 2, everybody always wins, agent 1 lies always: what do 0 and 2 hear?"""
    run = spec(line(3), rounds=4, means=(1.0,), liars=[1], attack=attack, contamination=1.0)
    net = InMemoryNetwork(run)
    net.run()
    sums = [net.agents[node].policy._pool.sums[0] for node in (0, 2)]  # type: ignore[attr-defined]
    relayed_pulls = 3  # of the far end, one round later than the neighbour's four
    honest = {"source": relayed_pulls, "relay": 4}[where]
    assert sums == [honest << 20] * 2


def test_who_lies_is_drawn_from_the_seed() -> None:
    assert draw_liars(3, 10, 4) == draw_liars(3, 10, 4)
    assert len(draw_liars(3, 10, 4)) == 4
    assert draw_liars(3, 10, 4) < draw_liars(3, 10, 5)
    assert draw_liars(3, 10, 0) == frozenset()
    assert {draw_liars(seed, 10, 1) for seed in range(60)} == {frozenset({agent}) for agent in range(10)}


def test_a_network_of_nobody_has_no_diameter() -> None:
    assert Network(()).diameter == 0

"""Gossip against a dictionary that does the same, and against the balls of networkx on any connected graph."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import GraphShape, Overheard, connected_graphs, hops, network, sample, samples, spec

from agentd.core.gossip import Gossip
from agentd.core.message import Batch, Message
from agentd.core.origins import Origins
from agentd.simulation.network import InMemoryNetwork
from agentd.simulation.network_faults import Faults

# A loaded machine is no fault of the code: no deadline per example.
unhurried = settings(deadline=None, max_examples=100)
few = settings(deadline=None, max_examples=40)

Key = tuple[int, int]


@dataclass
class Model:
    """Gossip in the obvious way: one message at a time, in dictionaries.

    A trial is beyond telling once a newer one was heard that is a multiple of the window ahead of it.
    """

    own: int
    window: int
    max_origins: int
    max_queued: int
    incarnation: dict[int, int] = field(default_factory=dict)
    newest: dict[Key, int] = field(default_factory=dict)
    life: dict[Key, int] = field(default_factory=dict)
    queue: list[tuple[int, int, int]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def hear(self, batch: list[Message]) -> list[Message]:
        """What counts, in the order of the batch."""
        batch = self._returning([m for m in batch if self._admitted(m, batch)])
        cells = [(m.origin, m.trial % self.window) for m in batch]
        for cell, m in zip(cells, batch, strict=True):
            self.newest[cell] = max(self.newest.get(cell, 0), m.trial)
        batch = self._keep("stale", batch, [m.trial == self.newest[cell] for cell, m in zip(cells, batch, strict=True)])
        best: dict[Key, int] = {}
        for place, m in enumerate(batch):
            if m.life > max(self.life.get((m.origin, m.trial), 0), batch[best[k]].life if (k := m[:2]) in best else 0):
                best[m[:2]] = place
        self.counts["duplicate"] += len(batch) - len(best)
        fresh = []
        for place in sorted(best.values()):
            m = batch[place]
            if m[:2] not in self.life:
                fresh.append(m)
            self.life[m[:2]] = m.life
            if m.life > 1:
                self._enqueue(m)
        return fresh

    def _admitted(self, m: Message, batch: list[Message]) -> bool:
        if m.origin == self.own:
            self.counts["own"] += 1
            return False
        if m.origin not in self.incarnation:
            strangers = sorted({o.origin for o in batch} - {self.own} - set(self.incarnation))
            for origin in strangers[: self.max_origins - len(self.incarnation)]:
                self.incarnation[origin] = -1
        self.counts["origins"] += m.origin not in self.incarnation
        return m.origin in self.incarnation

    def _returning(self, batch: list[Message]) -> list[Message]:
        for m in batch:
            if m.incarnation > self.incarnation[m.origin]:
                self.incarnation[m.origin] = m.incarnation
                self.newest = {cell: trial for cell, trial in self.newest.items() if cell[0] != m.origin}
                self.life = {key: life for key, life in self.life.items() if key[0] != m.origin}
        return self._keep("incarnation", batch, [m.incarnation == self.incarnation[m.origin] for m in batch])

    def _keep(self, reason: str, batch: list[Message], fine: list[bool]) -> list[Message]:
        self.counts[reason] += fine.count(False)
        return [m for m, keep in zip(batch, fine, strict=True) if keep]

    def _enqueue(self, m: Message) -> None:
        if len(self.queue) < self.max_queued:
            self.queue.append((m.origin, m.trial, m.life - 1))
        else:
            self.counts["overflow"] += 1


copies = st.builds(
    sample,
    origin=st.integers(0, 6),
    trial=st.integers(1, 14),
    life=st.integers(1, 4),
    incarnation=st.sampled_from([0, 0, 0, 0, 1, 2]),
    reward=st.integers(0, 9),
    lifetime=st.just(4),
)


@given(
    st.lists(st.lists(copies, max_size=12), max_size=8),
    st.sampled_from([3, 8, 128]),
    st.sampled_from([2, 4, 9]),
    st.sampled_from([0, 3, 99]),
    st.booleans(),
)
@settings(deadline=None, max_examples=200)
def test_it_does_what_a_dictionary_would_do(
    calls: list[list[Message]], window: int, max_origins: int, max_queued: int, fast_path: bool
) -> None:
    real = Gossip(Origins(0, max_origins), window=window, max_queued=max_queued, fast_path=fast_path)
    model = Model(0, window, max_origins, max_queued)
    for number, call in enumerate(calls):
        if call:
            assert real.hear(samples(*call)).fresh.messages() == model.hear(call)
        if number % 3 == 2:
            relays = [(m.origin, m.trial, m.life) for batch in real.take_relays() for m in batch.messages()]
            assert relays == model.queue
            model.queue = []
    assert real.dropped + real.redundant == +model.counts


def neighbours_of(shape: GraphShape) -> dict[int, list[int]]:
    found = defaultdict(list)
    for one, other in shape[1]:
        found[one].append(other)
        found[other].append(one)
    return found


class Flood:
    """Bare gossip on a graph whose links hold frames back, repeat them and let them overtake each other."""

    def __init__(self, shape: GraphShape, gamma: int, chance: random.Random) -> None:
        self.neighbours = neighbours_of(shape)
        self.gossips = [Gossip(Origins(node), fast_path=node % 2 == 0) for node in range(shape[0])]  # no difference
        self.gamma = gamma
        self.chance = chance
        self.in_flight: list[tuple[int, Batch]] = []
        self.repeats = 40
        self.counted: list[Counter[Key]] = [Counter() for _ in self.gossips]
        self.best_life: list[dict[Key, int]] = [{} for _ in self.gossips]

    def tell(self, origin: int, trial: int) -> None:
        if self.gamma:
            self._publish(origin, samples(sample(origin, trial, self.gamma)))

    def run(self) -> None:
        """Until nothing moves any more."""
        while self.in_flight or any(self._flush(node) for node in range(len(self.gossips))):
            if self.in_flight:
                self._deliver()

    def _deliver(self) -> None:
        receiver, batch = self.in_flight.pop(self.chance.randrange(len(self.in_flight)))
        if self.repeats and self.chance.random() < 0.2:
            self.repeats -= 1
            self.in_flight.append((receiver, batch))
        for m in batch.messages():
            best = self.best_life[receiver]
            best[m.origin, m.trial] = max(best.get((m.origin, m.trial), 0), m.life)
        fresh = self.gossips[receiver].hear(batch).fresh
        self.counted[receiver].update((m.origin, m.trial) for m in fresh.messages())
        if self.chance.random() < 0.5:
            self._flush(receiver)

    def _flush(self, node: int) -> bool:
        relays = self.gossips[node].take_relays()
        for batch in relays:
            self._publish(node, batch)
        return bool(relays)

    def _publish(self, sender: int, batch: Batch) -> None:
        self.in_flight += [(receiver, batch) for receiver in self.neighbours[sender]]


@given(connected_graphs(), st.integers(0, 15), st.integers(0, 1 << 32), st.data())
@unhurried
def test_a_message_reaches_exactly_its_ball_whatever_the_delays(
    shape: GraphShape, gamma: int, seed: int, data: st.DataObject
) -> None:
    origins = data.draw(st.lists(st.integers(0, shape[0] - 1), min_size=1, max_size=3))
    flood = Flood(shape, gamma, random.Random(seed))
    for trial, origin in enumerate(origins, start=1):
        flood.tell(origin, trial)
    flood.run()
    far = hops(shape)
    for node in range(shape[0]):
        inside = {(o, t): far[o][node] for t, o in enumerate(origins, start=1) if 1 <= far[o][node] <= gamma}
        assert flood.counted[node] == Counter(inside.keys()), node
        for key, distance in inside.items():
            assert flood.best_life[node][key] == gamma - distance + 1
        assert not flood.gossips[node].dropped


TELLING = ["coop-ucb", "private-ucb", "byzantine-ucb"]


@given(connected_graphs(), st.integers(0, 15), st.sampled_from(TELLING))
@few
def test_in_lockstep_a_decision_knows_the_ball_each_distance_with_its_own_delay(
    shape: GraphShape, gamma: int, algorithm: str
) -> None:
    """At trial t: everything that origins at distance d ≤ γ told at trials up to t−d, and nothing else."""
    net = InMemoryNetwork(spec(network(*shape), algorithm, rounds=7, gamma=gamma))
    overheard = [Overheard(agent) for agent in net.agents]
    net.run()
    far = hops(shape)
    for node, notes in enumerate(overheard):
        ball = [(origin, d) for origin, d in far[node].items() if 1 <= d <= gamma]
        for trial in range(1, 8):
            assert notes.known_at[trial] == {(o, said) for o, d in ball for said in range(1, trial - d + 1)}
        assert max(notes.counted.values(), default=0) <= 1
        assert net.agents[node].heard == len(notes.counted)


@given(
    connected_graphs(8),
    st.integers(1, 4),
    st.sampled_from(TELLING),
    st.builds(Faults, duplication=st.sampled_from([0.0, 0.3, 1.0]), max_delay=st.integers(0, 3), reorder=st.booleans()),
    st.integers(0, 1 << 32),
)
@few
def test_delays_copies_and_overtaking_only_delay(
    shape: GraphShape, gamma: int, algorithm: str, faults: Faults, seed: int
) -> None:
    rounds = 6 + gamma * (1 + faults.max_delay)
    net = InMemoryNetwork(spec(network(*shape), algorithm, rounds=rounds, gamma=gamma, seed=seed), faults)
    overheard = [Overheard(agent) for agent in net.agents]
    net.run()
    far = hops(shape)
    for node, notes in enumerate(overheard):
        assert max(notes.counted.values(), default=0) <= 1
        told = {(o, t) for o, d in far[node].items() if 1 <= d <= gamma for t in range(1, rounds + 1)}
        settled = {(o, t) for o, t in told if t <= rounds - gamma * (1 + faults.max_delay)}
        assert settled <= set(notes.counted) <= told
        for trial, known in notes.known_at.items():
            assert all(said <= trial - far[node][origin] for origin, said in known)
        assert not net.agents[node].dropped


def test_the_first_copy_over_a_longer_path_does_not_cut_off_who_is_behind() -> None:
    """0–1–4 is shorter than 0–2–3–4; with γ = 3 agent 5 behind 4 is reached over the shorter path only."""
    relay, behind = Gossip(Origins(4)), Gossip(Origins(5))
    relay.hear(samples(sample(0, 1, 1, lifetime=3)))
    assert relay.take_relays() == []
    relay.hear(samples(sample(0, 1, 2, lifetime=3)))
    assert [len(behind.hear(batch).fresh) for batch in relay.take_relays()] == [1]

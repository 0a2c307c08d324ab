"""What sealed agents hold at the end, however late, often and out of order the records come."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import GraphShape, connected_graphs, drawn, hops

from agentd.core.agent import Agent
from agentd.core.bodies import SEALED
from agentd.core.grid import UNIT
from agentd.core.message import Batch, Message, News, batch_of, join
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.records import NOTHING, Record, counted_sum
from agentd.core.policy.sealed import Sealed
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.sealing import OpenBatch, Weighting
from agentd.core.terms import Terms

ARMS, EPSILON = 3, 1.0
Said = tuple[int, int, Record]
"""A trial of an origin, the arm it told of and the record."""


class Step(NamedTuple):
    """What an origin does next: it closes a batch of an arm, or repeats its record, after some other trials."""

    arm: int
    pulls: int
    """0: it repeats what it said of the arm."""
    trials_before: int


steps = st.builds(Step, st.integers(0, ARMS - 1), st.integers(0, 9), st.sampled_from([0, 1, 3, 115, 128, 256, 1000]))
histories = st.lists(st.lists(steps, min_size=1, max_size=8), min_size=1, max_size=3)
windows = st.sampled_from([1, 4, 128])


def told(history: list[Step], seed: int) -> list[Said]:
    """What an honest origin says in the course of these."""
    weighting, noise = Weighting.of(EPSILON), SeededLaplace(seed, 0)
    records, trial, said = [NOTHING] * ARMS, 0, []
    for arm, pulls, trials_before in history:
        trial += trials_before + max(pulls, 1)
        if pulls:
            batch = OpenBatch()
            for _ in range(pulls):
                batch.add(UNIT)
            sealed = batch.seal(Ledger(disjoint=True), drawn(Release(arm, trial, pulls, weighting.scale), noise))
            records[arm] = records[arm].after(sealed, weighting)
        if records[arm].pulls:
            said.append((trial, arm, records[arm]))
    return said


class Listener:
    """A sealed agent of which it is noted what counts."""

    def __init__(self, own: int, gamma: int, window: int, *, fast_path: bool = True) -> None:
        policy = make_policy("sealed", PolicySettings(arms=ARMS, epsilon=EPSILON), own)
        assert isinstance(policy, Sealed)
        self.pool = policy._pool
        terms = Terms(ARMS, gamma).assuming(EPSILON, 1.1)
        self.agent = Agent(own, policy, terms=terms, window=window, fast_path=fast_path)
        self.counted: Counter[tuple[int, int]] = Counter()
        plain = policy.learn

        def noted(news: News) -> None:
            self.counted.update(zip(news.batch.origin.tolist(), news.batch.trial.tolist(), strict=True))
            plain(news)

        policy.learn = noted  # type: ignore[method-assign]

    def held_of(self, origin: int) -> list[tuple[int, ...]]:
        """The records held of an origin, arm by arm."""
        row = int(self.agent._origins._row_of[origin])
        known = 0 <= row < len(self.pool.held)
        return [tuple(record) for record in self.pool.held[row].tolist()] if known else [tuple(NOTHING)] * ARMS

    def check_sums(self) -> None:
        """The sums are those of what is held, and nothing was counted twice or refused."""
        held = self.pool.held.tolist()
        for arm in range(ARMS):
            assert self.pool.samples[arm] == sum(records[arm][2] for records in held)
            assert self.pool.sums[arm] == sum(counted_sum(*records[arm][2:]) for records in held)
        assert max(self.counted.values(), default=1) == 1
        assert self.agent.heard == len(self.counted)
        assert not self.agent.dropped


def message(origin: int, said: Said, life: int, gamma: int) -> Message:
    trial, arm, record = said
    return Message(origin, trial, life, (arm, *record), gamma)


class Flood:
    """Agents on a graph whose links hold frames back as long as they like, repeat them and turn them round."""

    def __init__(self, shape: GraphShape, gamma: int, window: int, chance: random.Random) -> None:
        self.neighbours: dict[int, list[int]] = defaultdict(list)
        for one, other in shape[1]:
            self.neighbours[one].append(other)
            self.neighbours[other].append(one)
        self.listeners = [Listener(own, gamma, window, fast_path=own % 2 == 0) for own in range(shape[0])]
        self.chance = chance
        self.in_flight: list[tuple[int, Batch]] = []
        self.repeats = 40

    def publish(self, sender: int, batch: Batch) -> None:
        self.in_flight += [(receiver, batch) for receiver in self.neighbours[sender]]

    def run(self) -> None:
        while self.in_flight:
            receiver, *batches = self._next()
            self.listeners[receiver].agent.receive([join(batches)])
            for batch in self.listeners[receiver].agent._gossip.take_relays():
                self.publish(receiver, batch)

    def _next(self) -> list[Any]:
        """One frame, or all that are on the way to somebody."""
        place = self.chance.randrange(len(self.in_flight))
        receiver, batch = self.in_flight[place]
        if self.repeats and self.chance.random() < 0.2:
            self.repeats -= 1
        else:
            del self.in_flight[place]
        if self.chance.random() < 0.7:
            return [receiver, batch]
        others = [b for r, b in self.in_flight if r == receiver]
        self.in_flight = [(r, b) for r, b in self.in_flight if r != receiver]
        return [receiver, batch, *others]


@given(connected_graphs(7), st.integers(1, 5), histories, windows, st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=150)
def test_in_the_end_the_ball_and_nobody_else_holds_what_each_origin_released(
    shape: GraphShape, gamma: int, told_by: list[list[Step]], window: int, seed: int
) -> None:
    flood = Flood(shape, gamma, window, random.Random(seed))
    last: dict[int, list[tuple[int, ...]]] = {}
    for origin, history in enumerate(told_by[: shape[0]]):
        last[origin] = [tuple(NOTHING)] * ARMS
        for said in told(history, origin):
            last[origin][said[1]] = tuple(said[2])
            flood.publish(origin, batch_of(SEALED, [message(origin, said, gamma, gamma)]))
    flood.run()
    far = hops(shape)
    for own, listener in enumerate(flood.listeners):
        for origin, records in last.items():
            inside = 1 <= far[origin][own] <= gamma
            assert listener.held_of(origin) == (records if inside else [tuple(NOTHING)] * ARMS)
        listener.check_sums()


@given(
    st.lists(steps, min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4), st.booleans()), min_size=1, max_size=40),
    windows,
    st.booleans(),
)
@settings(deadline=None, max_examples=300)
def test_of_the_copies_that_come_the_one_that_says_most_is_held_and_travels_with_the_most_life(
    history: list[Step], copies: list[tuple[int, int, bool]], window: int, fast_path: bool
) -> None:
    """Any copies of what was said, some of it never, some often, one by one or several at once."""
    said, gamma = told(history, 3), 5
    if not said:
        return
    listener = Listener(0, gamma, window, fast_path=fast_path)
    arrived, relayed, together = [], [], []
    for which, life, alone in copies:
        together.append(message(7, said[which % len(said)], life, gamma))
        if alone:
            listener.agent.receive([batch_of(SEALED, together)])
            relayed += [m for batch in listener.agent._gossip.take_relays() for m in batch.messages()]
            arrived += together
            together = []
    for arm in range(ARMS):
        of_arm = [m for m in arrived if m.body[0] == arm]
        most = max((m.body for m in of_arm), default=(arm, *NOTHING))
        assert listener.held_of(7)[arm] == most[1:]
        life = max((m.life for m in of_arm if m.body == most), default=1)
        assert max((m.life for m in relayed if m.body == most), default=0) == life - 1
    listener.check_sums()

"""Agents among strangers: order, repetition and hostility change nothing that honest neighbours said."""

from __future__ import annotations

import random
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_runs import Overheard, sample

from agentd.core.agent import Agent
from agentd.core.bodies import KINDS, SAMPLE, TOTALS, Kind
from agentd.core.chance import Purpose, stream
from agentd.core.estimate import half_of
from agentd.core.gossip import MAX_QUEUED, WINDOW
from agentd.core.grid import UNIT
from agentd.core.message import HEAD_WIDTH, MAX_AGENT_ID, MAX_TRIAL, Batch, Message, batch_of
from agentd.core.origins import MAX_ORIGINS
from agentd.core.policy import ALGORITHMS, PolicySettings, make_policy
from agentd.core.policy.byzantine_ucb import ByzantineUcb
from agentd.core.policy.private_ucb import extrapolated
from agentd.core.policy.sealed import Sealed
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.terms import Terms

unhurried = settings(deadline=None, max_examples=60)
many = settings(deadline=None, max_examples=100)

ARMS = 2
HONEST = (1, 2, 3)
TELLING = [name for name, algorithm in ALGORITHMS.items() if algorithm.tells]
SPEAKS = {algorithm.tells: name for name, algorithm in ALGORITHMS.items() if algorithm.tells}


def agent_running(algorithm: str, own: int = 0, lifetime: int = 3, *, fast_path: bool = True) -> Agent:
    policy = make_policy(algorithm, PolicySettings(arms=ARMS, epsilon=0.7), own)
    # An open run, so that terms refuse as little as they can.
    noise = SeededLaplace(9, own)
    return Agent(own, policy, terms=Terms(ARMS, None), noise=noise, lifetime=lifetime, fast_path=fast_path)


@cache
def told_by(origin: int, algorithm: str, trials: int) -> list[Batch]:
    """What an honest agent says at each of its first trials."""
    agent, chance = agent_running(algorithm, origin), stream(5, Purpose.REWARD, origin)
    told = []
    for _ in range(trials):
        agent.choose()
        agent.advance(int(chance.integers(0, UNIT + 1))).committed()
        told += agent.turn.outbox()
    return told


def statistics(agent: Agent) -> Any:
    """What the decisions of an agent follow from, apart from its own pulls."""
    policy: Any = agent.policy
    if isinstance(policy, ByzantineUcb):
        return policy._samples
    if isinstance(policy, Sealed):
        return policy._pool.samples, policy._pool.sums
    return (policy._pool.counts, policy._pool.sums) if hasattr(policy, "_pool") else ()


def delivered(frames: list[Batch], chance: random.Random) -> list[list[Batch]]:
    """The frames in any order, some repeated, in calls of any size."""
    frames = frames + [frame for frame in frames if chance.random() < 0.3]
    chance.shuffle(frames)
    calls = []
    while frames:
        size = chance.randrange(1, 8)
        calls.append(frames[:size])
        frames = frames[size:]
    return calls


def newest_totals(algorithm: str, frames: list[Batch]) -> tuple[list[int], list[int]]:
    """Pulls and sums of the newest frame of each origin, added up."""
    newest: dict[int, Batch] = {}
    for frame in frames:
        origin = int(frame.origin[0])
        newest[origin] = max(newest.get(origin, frame), frame, key=lambda batch: int(batch.trial[0]))
    counts, sums = np.zeros(ARMS, dtype=np.int64), np.zeros(ARMS, dtype=np.int64)
    for frame in newest.values():
        body = frame.body
        if algorithm == "coop-ucb":
            counts, sums = counts + body[0, 0::2], sums + body[0, 1::2]
        else:
            counts = counts + body[0, 0::3]
            sums = sums + extrapolated(body[:, 0::3], body[:, 1::3], body[:, 2::3])[0]
    return counts.tolist(), sums.tolist()


@given(st.sampled_from(["coop-ucb", "private-ucb"]), st.integers(1, 60), st.integers(0, 1 << 32), st.floats(0, 0.9))
@unhurried
def test_cumulative_policies_hold_the_newest_of_what_arrived(
    algorithm: str, trials: int, seed: int, loss: float
) -> None:
    chance = random.Random(seed)
    frames = [f for origin in HONEST for f in told_by(origin, algorithm, trials) if chance.random() >= loss]
    agent = agent_running(algorithm)
    for call in delivered(frames, chance):
        agent.receive(call, latest_trial=trials)
    assert statistics(agent) == newest_totals(algorithm, frames)
    assert not agent.dropped


@given(st.sampled_from(TELLING), st.integers(1, 60), st.integers(0, 1 << 32), st.integers(0, 1 << 32))
@unhurried
def test_the_order_of_arrival_changes_no_statistic_and_no_decision(
    algorithm: str, trials: int, one: int, other: int
) -> None:
    frames = [frame for origin in HONEST for frame in told_by(origin, algorithm, trials)]
    agents = []
    for seed in (one, other):
        agent = agent_running(algorithm)
        for call in delivered(frames, random.Random(seed)):
            agent.receive(call, latest_trial=trials)
        agents.append(agent)
    assert statistics(agents[0]) == statistics(agents[1])
    for agent in agents:
        for _ in range(3):  # past the round robin
            agent.choose()
            agent.advance(UNIT // 3).committed()
    assert agents[0].choose()[:4] == agents[1].choose()[:4]


@given(st.lists(st.tuples(st.sampled_from(HONEST), st.integers(1, 20)), max_size=60), st.integers(0, 1 << 32))
@unhurried
def test_a_sample_counts_once_per_origin_and_trial(keys: list[tuple[int, int]], seed: int) -> None:
    chance = random.Random(seed)
    agent = agent_running("byzantine-ucb")
    frames = [batch_of(SAMPLE, [sample(o, t, chance.randrange(1, 4), reward=o * t, lifetime=3)]) for o, t in keys]
    for call in delivered(frames, chance):
        agent.receive(call)
    policy = agent.policy
    assert isinstance(policy, ByzantineUcb)
    assert sum(halves.size for halves in policy._samples) == agent.heard == len(set(keys))
    assert sum(halves.total for halves in policy._samples) == sum(o * t for o, t in set(keys))


EXTREMES = [
    *(-(1 << 63), (1 << 63) - 1, -1, 0, 1, 2, 3, 7, 50, 1 << 62, -(1 << 62)),
    *(UNIT, UNIT + 1, MAX_TRIAL, MAX_TRIAL + 1, MAX_AGENT_ID, MAX_AGENT_ID + 1, (1 << 53) - 1, 1 << 53),
]


def hostile_batch(kind: Kind, width: int, rows: int, signature: int, seed: int) -> Batch:
    """Numbers from all over the 64 bits, the extremes most of all; drawn here because hypothesis takes its time."""
    chance = np.random.Generator(np.random.Philox(seed))
    shape = (rows, HEAD_WIDTH + width)
    anything = chance.integers(-(1 << 63), (1 << 63) - 1, size=shape, endpoint=True)
    small = chance.integers(0, 60, size=shape)
    table = np.choose(chance.integers(0, 3, size=shape), [anything, small, chance.choice(EXTREMES, size=shape)])
    return Batch(kind, table[:, :HEAD_WIDTH], table[:, HEAD_WIDTH:], np.zeros((rows, signature), dtype=np.uint8))


@st.composite
def hostile_batches(draw: st.DrawFn) -> Batch:
    """Anything that fits the types: any kind, any width, any signature, any numbers."""
    kind = draw(st.sampled_from(list(KINDS.values())))
    width = draw(st.sampled_from([kind.width(ARMS)] * 6 + [0, 1, 9]))
    return hostile_batch(
        kind, width, draw(st.integers(0, 6)), draw(st.sampled_from([0, 0, 64, 3])), draw(st.integers(0, 1 << 64))
    )


@st.composite
def plausible_batches(draw: st.DrawFn) -> Batch:
    """Heads that pass, each key always with the same life, so that a row is counted, dropped or redundant.

    About half of the bodies are ones that somebody honest said, at another trial or not.
    """
    kind, rows, seed = (
        draw(st.sampled_from(list(KINDS.values()))),
        draw(st.integers(0, 6)),
        draw(st.integers(0, 1 << 64)),
    )
    batch = hostile_batch(kind, kind.width(ARMS), rows, 0, seed)
    chance = np.random.Generator(np.random.Philox(seed))
    honest = np.concatenate([frame.body for frame in told_by(9, SPEAKS[kind], 60)])
    said = honest[chance.integers(0, len(honest), size=rows)]
    batch.body[:] = np.where(chance.random((rows, 1)) < 0.5, batch.body, said)
    batch.head[:, :3] = chance.integers([0, 0, 1], [10, 2, 61], size=(rows, 3))
    batch.head[:, 3:] = 3
    return batch


@given(st.sampled_from(list(ALGORITHMS)), st.lists(st.lists(hostile_batches(), max_size=3), max_size=6), st.booleans())
@many
def test_nothing_that_is_sent_raises_in_the_receiver(algorithm: str, calls: list[list[Batch]], fast_path: bool) -> None:
    agent = agent_running(algorithm, fast_path=fast_path)
    for call in calls:
        agent.receive(call)
        agent.choose()
        agent.advance(UNIT).committed()
        agent.turn.outbox()
    assert 0 <= agent.choose().arm < ARMS


@given(
    st.sampled_from(list(ALGORITHMS)), st.lists(st.lists(plausible_batches(), max_size=3), max_size=6), st.booleans()
)
@many
def test_every_row_is_counted_dropped_or_redundant(algorithm: str, calls: list[list[Batch]], fast_path: bool) -> None:
    agent = agent_running(algorithm, fast_path=fast_path)
    for call in calls:
        agent.receive(call, latest_trial=50)
    told = sum(len(batch) for call in calls for batch in call)
    assert agent.heard + agent.dropped.total() + agent.redundant.total() == told


def spoil(batch: Batch, way: int, latest_trial: int) -> Batch:
    """The same rows, each with one thing that no honest message has."""
    column, value = [(0, -1), (1, -1), (2, 0), (2, latest_trial + 1), (3, 1 << 16), (4, 0)][way]
    batch.head[:, column] = value
    return batch


@given(
    st.sampled_from(TELLING),
    st.lists(st.tuples(hostile_batches() | plausible_batches(), st.integers(0, 5)), max_size=12),
    st.integers(0, 1 << 32),
)
@many
def test_impossible_messages_change_nothing_even_under_honest_names(
    algorithm: str, hostile: list[tuple[Batch, int]], seed: int
) -> None:
    chance = random.Random(seed)
    victim, control = agent_running(algorithm), agent_running(algorithm, fast_path=False)
    forged = [spoil(batch, way, latest_trial=30) for batch, way in hostile]
    for trial in range(30):
        told = [told_by(origin, algorithm, 30)[trial : trial + 1] for origin in HONEST] if trial < 3 else []
        honest = [frame for frames in told for frame in frames]
        victim.receive([*honest, *(batch for batch in forged if chance.random() < 0.3)], latest_trial=30)
        control.receive(honest, latest_trial=30)
    assert statistics(victim) == statistics(control)
    assert victim.heard == control.heard
    assert victim.redundant == control.redundant
    assert set(victim.dropped) <= {"head", "incarnation", "future", "shape"}
    assert [b.messages() for b in victim.turn.outbox()] == [b.messages() for b in control.turn.outbox()]


@given(
    st.sampled_from(TELLING), st.lists(hostile_batches() | plausible_batches(), max_size=12), st.integers(0, 1 << 32)
)
@example("coop-ucb", [batch_of(TOTALS, [Message(0, 30, 1, (15, 15 * UNIT, 15, 0))])], 1)
@many
def test_hostile_origins_count_for_themselves_only(algorithm: str, hostile: list[Batch], seed: int) -> None:
    """Whatever strangers say under names of their own: without them, what is left is what the honest ones said."""
    chance = random.Random(seed)
    victim, control = agent_running(algorithm), agent_running(algorithm, fast_path=False)
    overheard = Overheard(victim)
    for batch in hostile:
        batch.head[:, 0] = 100 + np.abs(batch.head[:, 0] % 50)
    honest = [frame for origin in HONEST for frame in told_by(origin, algorithm, 30)]
    for call in delivered(honest, chance):
        control.receive(call, latest_trial=30)
        victim.receive([*call, *(batch for batch in hostile if chance.random() < 0.3)], latest_trial=30)
    strange = [batch.rows(batch.origin >= 100) for batch in overheard.learned]
    assert victim.heard == control.heard + sum(len(batch) for batch in strange)
    if algorithm == "byzantine-ucb":
        for origin, trial, _, (arm, reward), *_ in chain(*(b.messages() for b in strange if b.kind is SAMPLE)):
            statistics(control)[arm].add(half_of(origin, trial), reward)
    else:
        strangers = np.concatenate([batch.origin for batch in strange])
        rows = np.unique(victim._origins.rows(strangers))
        victim.policy.forget(rows, victim._checks.forget(rows))
    assert statistics(victim) == statistics(control)


def test_memory_stays_bounded_under_a_flood_of_names_and_trials() -> None:
    agent = agent_running("byzantine-ucb")
    names = np.arange(MAX_AGENT_ID + 1)
    for trial in (1, 2, 200):
        head = np.stack([names, 0 * names, 0 * names + trial, 0 * names + 9, 0 * names + 9], axis=1)
        empty = np.empty((len(names), 0), dtype=np.uint8)
        agent.receive([Batch(SAMPLE, head, np.zeros((len(names), 2), dtype=np.int64), empty)] * 2)
    assert len(agent._origins) == MAX_ORIGINS
    assert agent._gossip._ring.shape == (WINDOW, MAX_ORIGINS + 2)
    assert agent.dropped == {"origins": 3 * 2 * (MAX_AGENT_ID - MAX_ORIGINS)}
    assert sum(len(batch) for batch in agent.turn.outbox()) == 3 * MAX_ORIGINS


def test_the_queue_of_relays_stays_bounded() -> None:
    agent = agent_running("ucb1")
    trials = np.arange(1, WINDOW + 1)
    for first in range(1, 4097, 64):
        origins = np.repeat(np.arange(first, first + 64), WINDOW)
        told = np.tile(trials, 64)
        head = np.stack([origins, 0 * told, told, 0 * told + 9, 0 * told + 9], axis=1)
        empty = np.empty((len(told), 0), dtype=np.uint8)
        agent.receive([Batch(SAMPLE, head, np.zeros((len(told), 2), dtype=np.int64), empty)])
    assert agent.heard == 4096 * WINDOW
    assert agent.dropped == {"overflow": 4096 * WINDOW - MAX_QUEUED}
    assert sum(len(batch) for batch in agent.turn.outbox()) == MAX_QUEUED

"""With the fast path and without it, the same frames come to the same, to the last count."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import sparse, spec
from test_agent_properties import statistics

from agentd.core.agent import Agent
from agentd.core.message import Batch
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.terms import Terms
from agentd.errors import PeerError
from agentd.simulation.network import InMemoryNetwork
from agentd.simulation.network_faults import Crash, Faults
from agentd.wire.codec import decode_frames, encode_frame
from agentd.wire.expectation import Expectation, read_expected
from agentd.wire.frame import Frame, together
from agentd.wire.layout import HeadReader
from agentd.wire.topics import FRAME_TOPIC

TELLING = ["coop-ucb", "private-ucb", "byzantine-ucb", "sealed"]
ARMS, GAMMA = 2, 2
Round = list[tuple[int, bytes]]
"""Who says what, as it comes from the socket."""

faults = st.builds(
    Faults,
    loss=st.sampled_from([0.0, 0.0, 0.05, 0.4]),
    duplication=st.sampled_from([0.0, 0.0, 0.1]),
    max_delay=st.sampled_from([0, 0, 0, 2]),
    reorder=st.booleans(),
    crashes=st.sampled_from([(), (Crash(1, 9, 12),), (Crash(2, 8, 15, keeps_state=False),)]),
)


class Recorded(InMemoryNetwork):
    """A network that notes every frame it sends to agent 0."""

    def __init__(self, *arguments: Any) -> None:
        self.heard: list[Round] = []
        super().__init__(*arguments)

    def step(self) -> None:
        arrived: Round = []
        hear = self.agents[0].receive

        def noted(batches: list[Batch], latest_trial: int) -> None:
            for place, batch in enumerate(batches):
                own = batch.origin[batch.life == batch.lifetime].tolist()
                sender = own[0] if own else 100 + place  # whoever only relays is none of the origins
                frame = Frame(bytes(8), sender, 0, self.round, self.round, 0, (batch,), ARMS)
                arrived.append((place, FRAME_TOPIC + encode_frame(frame)))
            hear(batches, latest_trial=latest_trial)

        self.agents[0].receive = noted  # type: ignore[method-assign]
        super().step()
        self.agents[0].receive = hear  # type: ignore[method-assign]
        self.heard.append(arrived)


class Receiver:
    """All stages of an agent that hear, with the fast path or without it."""

    def __init__(self, algorithm: str, *, fast_path: bool) -> None:
        policy = make_policy(algorithm, PolicySettings(arms=ARMS), 0)
        self.agent = Agent(0, policy, terms=Terms(ARMS, GAMMA).assuming(1.0, 1.1), fast_path=fast_path)
        self.recognised = 0
        self._fast_path = fast_path
        self._heads = HeadReader(fast_path=fast_path)
        self._expected: dict[int, Expectation | None] = {}

    def hear(self, round_: int, parts: Round) -> Any:
        expected = [(self._expected.get(sender), round_, part) for sender, part in parts]
        batch = read_expected(expected, round_, self._heads) if self._fast_path else None
        self.recognised += batch is not None
        self.agent.receive([batch] if batch is not None else self._decoded(parts), latest_trial=round_)
        relays = [batch.messages() for batch in self.agent._gossip.take_relays()]
        return relays, self.agent.heard, self.agent.dropped, self.agent.redundant, statistics(self.agent)

    def _decoded(self, parts: Round) -> list[Batch]:
        frames = []
        for (sender, part), frame in zip(
            parts, decode_frames([part[len(FRAME_TOPIC) :] for _, part in parts], heads=self._heads), strict=True
        ):
            assert not isinstance(frame, PeerError)
            self._expected[sender] = Expectation.after(frame, part)
            frames.append(frame)
        return together(frames)


def rounds_of(algorithm: str, seed: int, trouble: Faults) -> list[Round]:
    network = Recorded(spec(sparse(6, 0.4, seed), algorithm, rounds=30, gamma=GAMMA, seed=seed), trouble)
    network.run()
    return network.heard


@given(st.sampled_from(TELLING), st.integers(0, 1 << 16), faults)
@settings(deadline=None, max_examples=40)
def test_both_ways_come_to_the_same_after_every_round(algorithm: str, seed: int, trouble: Faults) -> None:
    fast, plain = Receiver(algorithm, fast_path=True), Receiver(algorithm, fast_path=False)
    for number, parts in enumerate(rounds_of(algorithm, seed, trouble), start=1):
        assert fast.hear(number, parts) == plain.hear(number, parts)
    assert not plain.recognised


@pytest.mark.parametrize("algorithm", ["coop-ucb", "private-ucb", "byzantine-ucb"])
def test_without_faults_nearly_every_round_takes_the_fast_path(algorithm: str) -> None:
    fast = Receiver(algorithm, fast_path=True)
    for number, parts in enumerate(rounds_of(algorithm, 3, Faults()), start=1):
        fast.hear(number, parts)
    assert fast.recognised >= 25

"""The whole transcript of sealed is private: flip one reward, shift the noise of its batch by the difference, and
nothing that anybody can see has changed.

The shifted noise is at most e^ε times less likely than the noise it replaces, and it is the only thing that differs. So
equal transcripts are the proof of ε-privacy, run instead of written. The same test catches private-ucb, whose counts
follow its raw rewards.
"""

from __future__ import annotations

from typing import Any

import pytest
from small_runs import network, ring, spec

from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.message import Batch
from agentd.core.privacy.laplace import Noise
from agentd.runs.spec import RunSpec
from agentd.simulation.network import InMemoryNetwork

ROUNDS = 60
GRAPHS = {"ring": ring(6), "star": network(6, [(0, other) for other in range(1, 6)])}


class Shifted:
    """An agent's noise, with one draw shifted: the next one of an arm after `shift` was called."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self._by: dict[int, int] = {}
        self.used = False

    def shift(self, arm: int, by: int) -> None:
        self._by[arm] = by

    def draw(self, arm: int, scale: int) -> int:
        self.used |= arm in self._by
        return self._noise.draw(arm, scale) + self._by.pop(arm, 0)


class Watched(InMemoryNetwork):
    """A network in which one reward may be another than it was, and of which everything is written down."""

    def __init__(self, run: RunSpec, flip: tuple[int, int] | None = None, *, shifted: bool = False) -> None:
        super().__init__(run)
        self._flip, self._shifted = flip, shifted
        self.seen: list[Any] = []
        self.noises = []
        for agent in self.agents:
            assert agent.noise is not None
            agent.noise = shifted_noise = Shifted(agent.noise)
            self.noises.append(shifted_noise)

    def _pull(self, agent: Agent) -> None:
        trial, arm, *_ = agent.decide()
        reward = self.spec.arms.deal_one(arm, self._uniform(agent.own, trial))
        if self._flip == (agent.own, trial):
            if self._shifted:
                self.noises[agent.own].shift(arm, reward - (UNIT - reward))
            reward = UNIT - reward
        agent.draw()
        agent.advance(reward).committed()
        self.seen.append((agent.own, trial, arm))

    def _publish(self, sender: int, frame: list[Batch]) -> None:
        self.seen.append((sender, [(batch.kind, batch.messages()) for batch in frame]))
        super()._publish(sender, frame)


def transcript(run: RunSpec, flip: tuple[int, int] | None = None, *, shifted: bool = False) -> list[Any]:
    net = Watched(run, flip, shifted=shifted)
    net.run()
    return net.seen


FLIPS = [(agent, trial) for agent in (0, 3) for trial in (1, 2, 7, 12, 20, 33, 41, 50)]


@pytest.mark.parametrize("rule", ["thompson", "ucb"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_flipped_reward_whose_batch_has_shifted_noise_changes_nothing_that_can_be_seen(graph: str, rule: str) -> None:
    run = spec(GRAPHS[graph], "sealed", rounds=ROUNDS, means=(0.6, 0.5, 0.4), rule=rule, seed=11)
    base = transcript(run)
    assert sum(transcript(run, flip, shifted=True) != base for flip in FLIPS) == 0
    assert sum(transcript(run, flip) != base for flip in FLIPS) >= len(FLIPS) // 2  # without the shift it shows


def test_nor_where_what_was_released_fades() -> None:
    run = spec(ring(4), "sealed", rounds=ROUNDS, means=(0.6, 0.5, 0.4), half_life=9, seed=11)
    base, flips = transcript(run), FLIPS[1::3]
    assert sum(transcript(run, flip, shifted=True) != base for flip in flips) == 0
    assert any(transcript(run, flip) != base for flip in flips)


def test_the_flip_of_a_reward_in_a_batch_that_never_closes_changes_nothing() -> None:
    run = spec(ring(6), "sealed", rounds=ROUNDS, means=(0.6, 0.5, 0.4), seed=11)
    net = Watched(run, (2, ROUNDS), shifted=True)
    net.run()
    assert not net.noises[2].used
    assert net.seen == transcript(run)


def test_private_ucb_fails_the_same_test() -> None:
    """Its counts follow raw rewards: shifting the noise of every later release of the sum would not hide them."""
    run = spec(ring(6), "private-ucb", rounds=ROUNDS, means=(0.6, 0.5, 0.4), epsilon=0.2, seed=11)

    def pulls_seen(seen: list[Any]) -> list[Any]:
        return [entry for entry in seen if len(entry) == 3]

    base = pulls_seen(transcript(run))
    assert any(pulls_seen(transcript(run, flip, shifted=True)) != base for flip in FLIPS)

"""Pulls whose rewards come late: each reward counts once, in the batch that was settled when its arm was chosen."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.coins import KeyedCoins
from agentd.core.terms import Terms


class NoNoise:
    """Lets what is released be read."""

    def draw(self, arm: int, scale: int) -> int:
        return 0


def sealed(seed: int, half_life: int | None = None) -> Agent:
    settings = PolicySettings(arms=3, epsilon=4.0, half_life=half_life)
    return Agent(0, make_policy("sealed", settings, 0, KeyedCoins(seed, 0)), terms=Terms(3, 1), noise=NoNoise())


@given(st.integers(1, 9), st.integers(0, 50), st.sampled_from([None, 20]))
def test_a_late_reward_is_in_the_batch_of_its_pull_and_in_no_other(most: int, seed: int, half_life: int | None) -> None:
    """Rewards tell their trials: with no noise a release is the sum of just those that were intended for it."""
    agent = sealed(seed, half_life)
    under_way: deque[tuple[int, int]] = deque()
    batches: dict[int, list[int]] = {0: [], 1: [], 2: []}
    released = 0
    for _ in range(300):
        intent = agent.look_ahead()
        under_way.append((intent.trial, intent.arm))
        if len(under_way) < most:
            continue
        trial, arm = under_way.popleft()
        batches[arm].append(trial)
        turn = agent.advance_oldest(trial)
        turn.committed()
        assert agent.trial == trial
        for release, value in turn.releases:
            assert (release.arm, release.trial, release.pulls) == (arm, trial, len(batches[arm]))
            assert value == sum(batches[arm])
            batches[arm] = []
            released += 1
    assert released > 2


class Shifted(NoNoise):
    """No noise, but for what the next draw of an arm is shifted by."""

    def __init__(self) -> None:
        self.by: dict[int, int] = {}

    def draw(self, arm: int, scale: int) -> int:
        return self.by.pop(arm, super().draw(arm, scale))


def transcript(seed: int, most: int, flip: int | None, *, shifted: bool = True) -> list[object]:
    """All that others can see, where the reward of one trial is another one and its batch noised by the difference."""
    agent, seen, under_way = sealed(seed), list[object](), deque[int]()
    agent.noise = noise = Shifted()
    for trial in range(1, 121):
        reward = (trial * 7919 + seed) % 2 * UNIT
        arm = agent.policy.choose(trial)
        if trial == flip:
            if shifted:
                noise.by[arm] = 2 * reward - UNIT
            reward = UNIT - reward
        assert agent.look_ahead().arm == arm
        under_way.append(reward)
        seen.append((trial, arm))
        if len(under_way) == most:
            turn = agent.advance_oldest(under_way.popleft())
            turn.committed()
            seen += [turn.releases, [(batch.kind, batch.messages()) for batch in turn.outbox()]]
    return seen


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_whole_transcript_stays_private_where_rewards_come_late(most: int) -> None:
    """As in `test_sealed_transcript`: one flipped reward, the noise of its batch shifted, and nothing else differs."""
    base = transcript(3, most, None)
    flips = range(1, 110, 6)
    assert all(transcript(3, most, flip) == base for flip in flips)
    assert any(transcript(3, most, flip, shifted=False) != base for flip in flips)


def test_with_one_under_way_it_is_what_it_always_was() -> None:
    usual, ahead = sealed(7), sealed(7)
    for trial in range(1, 200):
        intent = usual.choose()
        assert ahead.look_ahead()[:3] == intent[:3]
        said = [agent(trial) for agent in (usual.advance, ahead.advance_oldest)]
        for turn in said:
            turn.committed()
        assert said[0].releases == said[1].releases


def test_an_algorithm_that_needs_its_last_reward_says_so() -> None:
    agent = Agent(0, make_policy("ucb1", PolicySettings(arms=2), 0), terms=Terms(2, 1))
    with pytest.raises(TypeError, match="cannot choose before"):
        agent.look_ahead()

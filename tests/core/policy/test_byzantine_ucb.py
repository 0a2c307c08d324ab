"""byzantine-ucb: one sample at a time, robust means, the paper's index."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_runs import news, observe, sample, samples, totals

from agentd.core.bodies import SAMPLE
from agentd.core.chance import Purpose, stream
from agentd.core.estimate import ESTIMATORS, Confidence, Halves, half_of
from agentd.core.grid import UNIT
from agentd.core.message import Message
from agentd.core.policy import PolicySettings
from agentd.core.policy.byzantine_ucb import ByzantineUcb, bias_steps, width_steps

OWN = 4
ROWS = np.zeros(1, dtype=np.int64)


def byzantine(arms: int = 2, **knobs: object) -> ByzantineUcb:
    return ByzantineUcb(PolicySettings(arms=arms, **knobs), OWN)  # type: ignore[arg-type]


def test_it_tells_the_newest_sample_as_it_wants_it_told() -> None:
    policy = byzantine()
    observe(policy, 1, 0, 7, 8)
    assert policy.body() == (SAMPLE, [0, 8])
    observe(policy, 2, 1, 9, 10)
    assert policy.body() == (SAMPLE, [1, 10])


def test_what_was_told_stays_told_when_the_next_sample_comes() -> None:
    policy = byzantine()
    observe(policy, 1, 0, 7, 7)
    _, told = policy.body()
    observe(policy, 2, 1, 9, 9)
    assert told == [0, 7]


def test_it_pulls_each_arm_once_whatever_it_has_heard() -> None:
    policy = byzantine()
    policy.learn(news(samples(sample(1, 1, arm=1, reward=UNIT))))
    assert policy.choose(1) == 0
    observe(policy, 1, 0, UNIT, UNIT)
    assert policy.choose(2) == 1
    assert policy.estimates == 0


def test_samples_go_to_the_half_of_their_key() -> None:
    policy = byzantine(arms=1)
    observe(policy, 1, 0, 10, 0)
    policy.learn(news(samples(sample(1, 1, reward=20), sample(1, 2, reward=40), sample(2, 2, reward=80))))
    expected = Halves()
    for origin, trial, reward in ((OWN, 1, 10), (1, 1, 20), (1, 2, 40), (2, 2, 80)):
        expected.add(half_of(origin, trial), reward)
    assert policy._samples == [expected]


def test_samples_of_several_arms_in_one_batch_are_kept_apart() -> None:
    policy = byzantine(arms=3)
    policy.learn(news(samples(sample(1, 1, arm=2, reward=5), sample(2, 1, arm=0, reward=6), sample(3, 1, arm=2))))
    assert [halves.size for halves in policy._samples] == [1, 0, 2]
    assert [halves.total for halves in policy._samples] == [6, 0, 5]


def test_bodies_of_another_kind_are_ignored() -> None:
    policy = byzantine()
    policy.learn(news(totals(Message(1, 9, 1, (4, 4, 4, 4)))))
    assert [halves.size for halves in policy._samples] == [0, 0]


def test_samples_of_an_older_incarnation_still_count() -> None:
    policy = byzantine()
    policy.learn(news(samples(sample(1, 1))))
    policy.forget(ROWS, {})
    assert policy._samples[0].size == 1


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_it_pulls_what_the_formula_says(estimator: str) -> None:
    """300 trials of three agents' samples: means from the estimators, the rest of the index by hand."""
    policy = byzantine(estimator=estimator, sigma=0.4, contamination=0.01)
    chance = stream(3, Purpose.REWARD)
    arms = [Halves(), Halves()]
    fell_back = asked = 0
    for trial in range(1, 301):
        arm = policy.choose(trial)
        if trial > 2:
            estimates = [ESTIMATORS[estimator].estimate(halves, Confidence.at(trial), 0.01) for halves in arms]
            fell_back += sum(estimate.fallback for estimate in estimates)
            asked += 2
            radii = [math.sqrt(0.4 * 2 * math.log(trial) / halves.size) for halves in arms]
            indices = [e.value / UNIT + 0.4 * 0.1 + radius for e, radius in zip(estimates, radii, strict=True)]
            assert indices[arm] >= max(indices) - 1e-9
        else:
            assert arm == trial - 1
        reward = UNIT if chance.random() < (0.3, 0.6)[arm] else 0
        observe(policy, trial, arm, reward, reward)
        arms[arm].add(half_of(OWN, trial), reward)
        heard = [sample(o, trial, arm=int(chance.integers(2)), reward=int(chance.integers(2)) * UNIT) for o in (1, 2)]
        policy.learn(news(samples(*heard)))
        for message in heard:
            arms[message.body[0]].add(half_of(message.origin, trial), message.body[1])
    assert (policy.fallbacks, policy.estimates) == (fell_back, asked)


def test_ties_go_to_the_lowest_arm() -> None:
    policy = byzantine(arms=3)
    for trial in (1, 2, 3):
        observe(policy, trial, trial - 1, UNIT, UNIT)
    assert policy.choose(4) == 0


def test_radius_and_bias_are_the_papers() -> None:
    knobs = PolicySettings(arms=2, sigma=0.25, contamination=0.04)
    assert bias_steps(knobs) / UNIT == pytest.approx(0.25 * 0.2)
    assert math.sqrt(width_steps(knobs, Confidence.at(10)) / 5) / UNIT == pytest.approx(
        math.sqrt(0.25 * math.log(100) / 5)
    )

"""Blocks of draws are the draws that agents make one by one."""

from __future__ import annotations

import numpy as np
import pytest

from agentd.core.chance import Purpose, Rekeyed, stream
from agentd.core.privacy.laplace import SeededLaplace
from agentd.runs.arms import uniforms
from agentd.simulation.draws import LaplaceNoise, UniformsPerTrial

KEYS = [(7, 0), (7, 3), (8, 0)]
PAST_TWO_BLOCKS = 1050


@pytest.mark.parametrize("per_trial", [1, 2])
def test_uniforms_are_those_of_the_streams_trial_by_trial(per_trial: int) -> None:
    drawn = UniformsPerTrial(KEYS, Purpose.LIE, per_trial)
    streams = [stream(seed, Purpose.LIE, agent) for seed, agent in KEYS]
    for trial in range(1, PAST_TWO_BLOCKS):
        assert drawn.at(trial).T.tolist() == [one.random(per_trial).tolist() for one in streams]


def test_rewards_follow_from_the_same_uniforms_in_both_engines() -> None:
    drawn = UniformsPerTrial(KEYS, Purpose.REWARD)
    for trial in range(1, PAST_TWO_BLOCKS):
        got = drawn.at(trial)[0]
        if trial % 100 == 7 or trial in (512, 513, 1024, 1025):
            assert got.tolist() == [uniforms(seed, agent, trial, 1)[0] for seed, agent in KEYS]


def test_no_streams_give_no_numbers() -> None:
    assert UniformsPerTrial([], Purpose.LIE, 2).at(1).shape == (2, 0)


def test_noise_is_what_the_agents_draw_however_the_streams_are_asked() -> None:
    """Each stream on its own pace, past its first long block, with a scale of its own for each draw."""
    keys = [(7, 2, 0), (7, 2, 1), (9, 0, 1)]
    scales = range(1000, 4000)
    noise = LaplaceNoise(keys, np.array(scales, dtype=np.float64))
    agents = [SeededLaplace(seed, agent) for seed, agent, _ in keys]
    chance = np.random.Generator(np.random.Philox(1))
    asked = [0, 0, 0]
    for _ in scales:
        rows = np.flatnonzero(chance.random(3) < (0.9, 0.5, 1.0))
        drawn = [agents[row].draw(keys[row][2], scales[asked[row]]) for row in rows.tolist()]
        assert noise.take(rows).tolist() == drawn
        for row in rows.tolist():
            asked[row] += 1
    assert noise.taken().tolist() == asked
    assert asked[2] == len(scales)


def test_asking_nobody_moves_nobody() -> None:
    noise = LaplaceNoise([(7, 2, 0)], np.full(3, 50.0))
    noise.take(np.zeros(0, dtype=np.int64))
    assert noise.taken().tolist() == [0]
    assert noise.take(np.array([0])).tolist() == [SeededLaplace(7, 2).draw(0, 50)]


def test_a_stream_that_was_left_goes_on_where_it_was() -> None:
    rekeyed = Rekeyed()
    before = rekeyed.at(7, Purpose.NOISE, 2).standard_exponential(5).tolist()
    place = rekeyed.place()
    rekeyed.at(8, Purpose.NOISE, 3).standard_exponential(7)
    after = rekeyed.back_at(place).standard_exponential(3).tolist()
    assert before + after == stream(7, Purpose.NOISE, 2).standard_exponential(8).tolist()

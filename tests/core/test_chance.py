"""Keyed streams: the same key repeats, any other key differs, and no two streams of a seed overlap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from agentd.core.chance import SEED_LIMIT, Purpose, Rekeyed, stream


def _words(generator: np.random.Generator, count: int = 8) -> tuple[int, ...]:
    return tuple(generator.integers(0, 1 << 64, size=count, dtype=np.uint64).tolist())


def test_the_same_key_gives_the_same_stream() -> None:
    assert _words(stream(7, Purpose.NOISE, 3, 2)) == _words(stream(7, Purpose.NOISE, 3, 2))


def test_every_part_of_the_key_changes_the_stream() -> None:
    keys = itertools.product((0, 1, SEED_LIMIT - 1), (Purpose.REWARD, Purpose.NOISE), (0, 1, 200), (0, 1, 4))
    streams = [_words(stream(*key), 4) for key in keys]
    words = [word for first in streams for word in first]
    assert len(set(words)) == len(words)


def test_agent_and_arm_do_not_trade_places() -> None:
    assert _words(stream(7, Purpose.NOISE, 1, 2)) != _words(stream(7, Purpose.NOISE, 2, 1))


def test_skipping_enters_the_same_stream_further_on() -> None:
    assert _words(stream(7, Purpose.COIN, 5, skip=3), 4) == _words(stream(7, Purpose.COIN, 5), 16)[12:]


def test_drawing_from_one_stream_leaves_the_others_as_they_were() -> None:
    noise, coin = stream(7, Purpose.NOISE), stream(7, Purpose.COIN)
    noise.standard_exponential(1000)
    assert _words(coin) == _words(stream(7, Purpose.COIN))


def test_a_rekeyed_generator_is_at_the_start_of_the_stream_whatever_it_read_before() -> None:
    """Single 32-bit words and odd counts leave halves behind in the generator; none may leak into the next stream."""
    rekeyed = Rekeyed()
    for seed, agent, arm, skip in itertools.product((0, SEED_LIMIT - 1), (0, 200), (0, 4), (0, 3)):
        opened = stream(seed, Purpose.NOISE, agent, arm, skip=skip)
        moved = rekeyed.at(seed, Purpose.NOISE, agent, arm, skip=skip)
        assert moved.integers(0, 1 << 32, dtype=np.uint32) == opened.integers(0, 1 << 32, dtype=np.uint32)
        assert moved.standard_exponential(5).tolist() == opened.standard_exponential(5).tolist()
        assert _words(moved, 3) == _words(opened, 3)


def test_two_rekeyed_generators_do_not_share_their_place() -> None:
    first, second = Rekeyed(), Rekeyed()
    reading = first.at(7, Purpose.COIN)
    second.at(8, Purpose.COIN).random(3)
    assert _words(reading) == _words(stream(7, Purpose.COIN))


def test_a_recorded_run_still_gives_its_draws() -> None:
    """Recorded once; another value means that every seeded run ever recorded has changed."""
    assert _words(stream(7, Purpose.NOISE, 3, 2), 2) == RECORDED


def test_purposes_keep_their_numbers() -> None:
    assert [purpose.value for purpose in Purpose] == list(range(1, len(Purpose) + 1))
    assert (Purpose.REWARD, Purpose.NOISE, Purpose.COIN, Purpose.LIE) == (1, 2, 3, 4)


@pytest.mark.parametrize("seed", [-1, SEED_LIMIT])
def test_a_seed_outside_64_bits_is_refused(seed: int) -> None:
    with pytest.raises(ValueError, match="seed must be in"):
        stream(seed, Purpose.REWARD)


RECORDED = (10906672803537149619, 2782178524653820277)

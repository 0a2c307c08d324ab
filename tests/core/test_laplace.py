"""Both samplers against the exact distribution, each other's arithmetic and OpenDP's sampler.

Every seed is fixed. A χ² test fails above the quantile of a chance of one in ten thousand; against OpenDP, whose
source cannot be seeded, above that of one in a thousand million.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import opendp.prelude as dp
import pytest
from laplace_distribution import cumulative, probability

from agentd.core.chance import SEED_LIMIT, Purpose, stream
from agentd.core.grid import UNIT
from agentd.core.privacy import laplace
from agentd.core.privacy.laplace import ExactLaplace, Noise, SeededLaplace, sampled
from agentd.core.privacy.series import cost

ONE_IN_TEN_THOUSAND = 3.719  # standard normal quantiles
ONE_IN_A_THOUSAND_MILLION = 5.998

SCALES = [1, 3, 40, UNIT]


def _seeded_exact(seed: int) -> ExactLaplace:
    return ExactLaplace(random.Random(seed).randbytes)


def _critical(freedom: int, normal_quantile: float) -> float:
    """The χ² quantile, after Wilson and Hilferty."""
    spread = 2 / (9 * freedom)
    return float(freedom * (1 - spread + normal_quantile * math.sqrt(spread)) ** 3)


def _edges(scale: int) -> list[int]:
    """Upper edges of the bins but the last: single integers where the scale is small, quarter scales where not."""
    step = max(1, scale // 4)
    reach = 4 * scale // step
    return [step * k for k in range(-reach, reach + 1)]


def _counts(values: Iterable[int], edges: Sequence[int]) -> list[int]:
    bins = Counter(np.searchsorted(np.array(edges), np.array(list(values)), side="left").tolist())
    return [bins[place] for place in range(len(edges) + 1)]


def _fits(values: Sequence[int], scale: float, edges: Sequence[int]) -> bool:
    """Judge by χ² whether the values come from discrete Laplace noise of this scale."""
    below = [0.0, *(cumulative(edge, scale) for edge in edges), 1.0]
    expected = [len(values) * (high - low) for low, high in pairwise(below)]
    assert min(expected) > 20, "the χ² approximation needs fuller bins"
    statistic = sum((n - e) ** 2 / e for n, e in zip(_counts(values, edges), expected, strict=True))
    return statistic < _critical(len(edges), ONE_IN_TEN_THOUSAND)


@pytest.mark.parametrize("scale", SCALES)
def test_the_exact_sampler_has_the_exact_distribution(scale: int) -> None:
    noise = _seeded_exact(scale)
    assert _fits([noise.draw(0, scale) for _ in range(30_000)], scale, _edges(scale))


@pytest.mark.parametrize("scale", SCALES)
def test_the_seeded_sampler_has_the_exact_distribution(scale: int) -> None:
    noise = SeededLaplace(scale, agent=5)
    assert _fits([noise.draw(2, scale) for _ in range(30_000)], scale, _edges(scale))


@pytest.mark.parametrize("noise", [_seeded_exact(11), SeededLaplace(11, 0)])
def test_every_low_bit_of_the_noise_is_a_fair_coin(noise: Noise) -> None:
    """Within 4.5 standard deviations; a sampler that rounds a double would fail here first."""
    values = [noise.draw(0, UNIT) for _ in range(20_000)]
    for bit in range(12):
        ones = sum(value >> bit & 1 for value in values)
        assert abs(ones - 10_000) < 4.5 * math.sqrt(20_000) / 2


def test_the_test_itself_refuses_a_scale_that_is_a_twentieth_off() -> None:
    noise = _seeded_exact(40)
    values = [noise.draw(0, 40) for _ in range(30_000)]
    assert not _fits(values, 42, _edges(40))
    assert not _fits(values, 38, _edges(40))


def test_the_test_itself_refuses_a_zero_that_comes_twice_as_often() -> None:
    """A geometric magnitude with a free sign: the mistake of not rejecting −0."""
    coin = random.Random(3)
    exponentials = stream(3, Purpose.NOISE).standard_exponential(30_000).tolist()
    assert not _fits([math.floor(3 * e) * coin.choice((-1, 1)) for e in exponentials], 3, _edges(3))


@pytest.mark.parametrize("scale", [3, 40, UNIT])
def test_the_exact_sampler_agrees_with_the_one_of_opendp(scale: int) -> None:
    theirs = _opendp(scale, 30_000)
    ours = _seeded_exact(scale + 1)
    assert _alike([ours.draw(0, scale) for _ in theirs], theirs, _edges(scale))
    assert not _alike([ours.draw(0, scale + math.ceil(scale / 5)) for _ in theirs], theirs, _edges(scale))


def _opendp(scale: int, count: int) -> list[int]:
    dp.enable_features("contrib")
    one = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=float(scale))
    assert isinstance(one(0), int)
    many = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=float(scale))
    return list(many([0] * count))


def _alike(ours: Sequence[int], theirs: Sequence[int], edges: Sequence[int]) -> bool:
    """Judge by the two-sample χ² of equally many draws whether they come from one distribution."""
    pairs = list(zip(_counts(ours, edges), _counts(theirs, edges), strict=True))
    statistic = sum((a - b) ** 2 / (a + b) for a, b in pairs)
    return statistic < _critical(len(edges), ONE_IN_A_THOUSAND_MILLION)


def test_the_exact_sampler_follows_the_algorithm_step_by_step() -> None:
    """Scale 10: draw remainder and sign, accept at an odd place, count the scales, sign."""
    script = _Script(
        [
            (20, 14),  # remainder 7, positive
            (10, 7),  # 7 < 7 fails at place 1, odd: accepted
            (2, 0),  # exp(−1): place 2 succeeds
            (3, 2),  # place 3 fails, odd: one whole scale
            (2, 1),  # place 2 fails, even: no more
        ]
    )
    assert sampled(script, 10) == 17
    assert script.steps == []


def test_a_refused_remainder_and_a_negative_zero_start_again() -> None:
    script = _Script(
        [
            (20, 19),  # remainder 9, negative
            (10, 8),  # place 1 succeeds
            (20, 9),  # place 2 fails, even: refused
            (20, 1),  # remainder 0, negative
            (10, 0),  # place 1 fails: accepted
            (2, 1),  # no whole scale, so this is −0
            (20, 1),  # remainder 0, negative
            (10, 0),
            (2, 0),
            (3, 1),  # one whole scale
            (2, 1),
        ]
    )
    assert sampled(script, 10) == -10
    assert script.steps == []


class _Script:
    """A source that knows what it will be asked and what to answer."""

    def __init__(self, steps: list[tuple[int, int]]) -> None:
        self.steps = steps

    def __call__(self, below: int) -> int:
        expected, answer = self.steps.pop(0)
        assert below == expected
        return answer


def test_the_exact_sampler_asks_its_source_at_every_draw_and_keeps_nothing() -> None:
    """What is left of a block is not used by the next draw: a fork in between would repeat it."""
    asked: list[int] = []

    def scripted(number: int) -> bytes:
        asked.append(number)
        return hashlib.shake_128(b"%d" % len(asked)).digest(number)

    system = ExactLaplace(secrets.token_bytes)
    assert len({system.draw(0, UNIT << 40) for _ in range(20)}) == 20
    noise = ExactLaplace(scripted)
    first = [noise.draw(0, UNIT) for _ in range(50)]
    assert 50 <= len(asked) <= 75
    asked.clear()
    assert [ExactLaplace(scripted).draw(0, UNIT) for _ in range(50)] == first
    assert vars(noise) == {"_token_bytes": scripted}


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 12, 16])
def test_every_number_below_a_limit_is_equally_likely(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of two bytes, each once: the first number that every one of them gives."""
    monkeypatch.setattr(laplace, "BLOCK_BYTES", 2)
    counts = Counter[int]()
    for block in range(1 << 16):
        blocks = iter([block.to_bytes(2, "little")])
        with contextlib.suppress(StopIteration):  # all bits thrown away: the next block would decide
            counts[laplace._Uniform(lambda _, blocks=blocks: next(blocks)).below(limit)] += 1
    assert set(counts) == set(range(limit))
    assert len(set(counts.values())) == 1


@pytest.mark.parametrize("scale", [0, -5, 2.0, True, "3", Fraction(3)])
def test_a_scale_that_is_no_positive_integer_is_refused(scale: int) -> None:
    for noise in (ExactLaplace(secrets.token_bytes), SeededLaplace(1, 1)):
        with pytest.raises(ValueError, match="positive integer of grid steps"):
            noise.draw(0, scale)


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
def test_the_block_size_does_not_change_the_noise(block: int) -> None:
    usual, other = SeededLaplace(9, 4), SeededLaplace(9, 4, block=block)
    scales = [UNIT + 17 * n for n in range(200)]
    assert [other.draw(n % 3, scale) for n, scale in enumerate(scales)] == [
        usual.draw(n % 3, scale) for n, scale in enumerate(scales)
    ]


def test_the_seeded_noise_is_what_an_array_computes_bit_for_bit() -> None:
    scales = np.random.default_rng(1).integers(1, UNIT << 20, size=1000)
    exponentials = stream(9, Purpose.NOISE, 4, 2).standard_exponential((1000, 2))
    geometrics = np.floor(scales[:, None] * exponentials).astype(np.int64)
    noise = SeededLaplace(9, 4)
    assert [noise.draw(2, scale) for scale in scales.tolist()] == (geometrics[:, 0] - geometrics[:, 1]).tolist()


def test_the_arms_of_a_seeded_source_do_not_disturb_each_other() -> None:
    alone, among_others = SeededLaplace(9, 4), SeededLaplace(9, 4)
    expected = [alone.draw(1, UNIT) for _ in range(100)]
    seen = []
    for _ in range(100):
        among_others.draw(0, UNIT)
        seen.append(among_others.draw(1, UNIT))
    assert seen == expected


def test_seed_agent_and_arm_each_change_the_seeded_noise() -> None:
    firsts = [SeededLaplace(seed, agent).draw(arm, UNIT << 20) for seed in (1, 2) for agent in (1, 2) for arm in (1, 2)]
    assert len(set(firsts)) == 8


def test_a_seed_outside_64_bits_is_refused_before_any_noise_is_drawn() -> None:
    with pytest.raises(ValueError, match="seed must be in"):
        SeededLaplace(SEED_LIMIT, 0).draw(0, UNIT)


@pytest.mark.parametrize("scale", [1, 2.5, Fraction(7, 3), 40])
def test_probabilities_follow_the_formula_and_sum_to_one(scale: float | Fraction) -> None:
    q = math.exp(-1 / float(scale))
    for x in (-9, -1, 0, 1, 5):
        assert probability(x, scale) == pytest.approx((1 - q) / (1 + q) * q ** abs(x), rel=1e-12)
    reach = range(-2000, 2001)
    assert math.fsum(probability(x, scale) for x in reach) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("scale", [1, 2.5, Fraction(7, 3), 40])
def test_the_cumulative_probability_is_the_running_sum(scale: float | Fraction) -> None:
    running = cumulative(-31, scale)
    for x in range(-30, 31):
        running += probability(x, scale)
        assert cumulative(x, scale) == pytest.approx(running, abs=1e-12)
    assert cumulative(-(10**6), scale) == 0
    assert cumulative(10**6, scale) == 1


@pytest.mark.parametrize("scale", [UNIT // 3, UNIT, 12 * UNIT + 5])
def test_moving_a_sum_by_one_reward_changes_no_probability_by_more_than_the_cost(scale: int) -> None:
    for x in (-5 * UNIT, -UNIT, -UNIT // 2, 0, 7, 3 * UNIT):
        loss = math.log(probability(x, scale) / probability(x + UNIT, scale))
        assert abs(loss) <= float(cost(scale)) * (1 + 1e-12)
    assert math.log(probability(0, scale) / probability(UNIT, scale)) == pytest.approx(float(cost(scale)))

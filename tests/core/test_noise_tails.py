"""How rarely honest records are refused: exact tails where there are formulas, tilted draws where there are none.

Honest means the worst that honest can be: every reward is 1, or every one is 0, so that all noise shows.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentd.core.bodies import release_limits, sealed_limits
from agentd.core.bodies.sealed_limits import Amounts
from agentd.core.chance import Purpose, stream
from agentd.core.grid import UNIT
from agentd.core.privacy.sealing import Weighting
from agentd.core.privacy.series import ReleaseSeries, scale_steps

ONE_TEST = sealed_limits.REFUSED / 2
"""A record is judged by itself and by its difference to another: each may err as often."""

Floats = NDArray[np.float64]


def beyond(steps: int, scale: int) -> float:
    """P(X > steps) of discrete Laplace noise."""
    return math.exp(-(steps + 1) / scale) / (1 + math.exp(-1 / scale))


@pytest.mark.parametrize("v", [1.01, 1.1, 1.3, 1.49])
@pytest.mark.parametrize("arms", [1, 5, 1024])
def test_a_body_of_releases_is_refused_once_in_a_billion(v: float, arms: int) -> None:
    limits = release_limits.limits_of(1.0, v, arms)
    for pulls in (1, 2, 3, 10, 100, 1000):
        low, span, scale = int(limits.low[pulls]), int(limits.span[pulls]), scale_steps(pulls, v)
        refused = beyond(-low, scale) + beyond(low + span, scale)  # nothing was paid: all noise beyond either end shows
        assert 0.2 * release_limits.REFUSED < arms * refused < release_limits.REFUSED


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("pulls", [1, 8, 100, 4000])
def test_a_record_of_one_batch_is_refused_once_in_a_billion(epsilon: float, pulls: int) -> None:
    weighting = Weighting.of(epsilon)
    slack = slack_of([pulls], epsilon)
    steps = math.floor(slack * UNIT * (pulls + weighting.handicap / UNIT) / pulls)  # of the noise before it is weighed
    refused = beyond(steps, weighting.scale) + beyond(steps + pulls * UNIT, weighting.scale)  # nothing was paid
    assert 0.4 * ONE_TEST < refused < ONE_TEST


def numbers_of(sizes: list[int], epsilon: float) -> tuple[Floats, Floats]:
    """The weights of batches, and what each is worth."""
    pulls = np.array(sizes, dtype=np.float64)
    weights = pulls / (pulls + Weighting.of(epsilon).handicap / UNIT)
    return weights, weights * pulls


def amounts_of(sizes: list[int], epsilon: float) -> Amounts:
    worth = numbers_of(sizes, epsilon)[1].sum()
    return Amounts(*(np.array([float(n)]) for n in (sum(sizes), len(sizes), worth, len(sizes) / UNIT)))


def slack_of(sizes: list[int], epsilon: float) -> float:
    return float(sealed_limits.limits_of(epsilon).slack(amounts_of(sizes, epsilon))[0])


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=30), st.floats(0.01, 10))
@settings(deadline=None)
def test_what_a_record_tells_bounds_the_weights_of_its_batches(sizes: list[int], epsilon: float) -> None:
    weights, _ = numbers_of(sizes, epsilon)
    (squares,), (largest,) = sealed_limits.limits_of(epsilon)._spread(amounts_of(sizes, epsilon))
    assert (weights**2).sum() <= squares * (1 + 1e-9)
    assert weights.max() <= largest * (1 + 1e-9)


@given(st.integers(1, 5000), st.integers(1, 200), st.floats(0.01, 10))
@settings(deadline=None)
def test_batches_of_equal_size_are_known_exactly(size: int, number: int, epsilon: float) -> None:
    weights, _ = numbers_of([size] * number, epsilon)
    (squares,), _ = sealed_limits.limits_of(epsilon)._spread(amounts_of([size] * number, epsilon))
    assert squares == pytest.approx((weights**2).sum(), rel=1e-2)


WORST = {
    "two": [8, 8],
    "three tiny": [1, 1, 1],
    "ten": [8] * 10,
    "a hundred": [8] * 100,
    "many tiny": [1] * 1000,
    "many large": [500] * 1000,
    "one large": [1000, 1, 1],
    "large and tiny": [2000, *([1] * 300)],
    "doubling": [2**power for power in range(11)],
}
"""Sizes of batches: few (where a bound by moments is at its loosest), many (where noise is nearly normal), uneven."""


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("sizes", WORST.values(), ids=WORST)
def test_a_record_of_batches_is_refused_once_in_a_billion(sizes: list[int], epsilon: float) -> None:
    """By draws from tilted noise, under which the slack is about what is to be expected, weighed back."""
    weights, _ = numbers_of(sizes, epsilon)
    scales = slack_of(sizes, epsilon) * UNIT / Weighting.of(epsilon).scale
    assert 2 * tail(weights, scales) < ONE_TEST
    # The slack is not far from what it would have to be if the weights were known: 1.2 to 1.9 times, at most 2.7.
    assert 2 * tail(weights, scales / 2.8) > ONE_TEST


def tail(weights: Floats, limit: float, draws: int = 4000) -> float:
    """P(Σ w·X > limit) for Laplace noise of scale 1."""
    low, high = 0.0, 1 / weights.max() * (1 - 1e-9)
    for _ in range(100):  # the tilt under which the mean is the limit
        middle = (low + high) / 2
        mean = (2 * middle * weights**2 / (1 - (middle * weights) ** 2)).sum()
        low, high = (middle, high) if mean < limit else (low, middle)
    tilt = low
    chance = stream(1, Purpose.NOISE, 0)
    up, down = chance.standard_exponential((2, draws, len(weights)))
    total = (weights * (up / (1 - tilt * weights) - down / (1 + tilt * weights))).sum(axis=1)
    log_moment = -np.log1p(-((tilt * weights) ** 2)).sum()
    return float((np.exp(log_moment - tilt * total) * (total > limit)).mean())


def honest_records(epsilon: float, lines: int, batches: int, seed: int) -> NDArray[np.int64]:
    """Of so many origins, what each says after each batch: (line, batch, (pulls, batches, samples, sum))."""
    weighting, chance = Weighting.of(epsilon), np.random.default_rng(seed)
    sizes = np.ceil(np.exp(chance.uniform(0, math.log(400), (lines, batches)))).astype(np.int64)
    paid = sizes * UNIT * chance.integers(0, 2, (lines, 1))
    up, down = np.floor(weighting.scale * chance.standard_exponential((2, lines, batches))).astype(np.int64)
    whole = sizes * UNIT + weighting.handicap

    def nearest(numerator: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray((2 * numerator + whole) // (2 * whole))

    told = [sizes, np.ones_like(sizes), nearest((sizes * UNIT) ** 2), nearest(sizes * UNIT * (paid + up - down))]
    return np.cumsum(np.stack(told, axis=2), axis=1)


def refused_records(epsilon: float, lines: int, batches: int, seed: int) -> tuple[int, int]:
    """How many records are judged, by themselves and against older ones, and how many are refused."""
    records = honest_records(epsilon, lines, batches, seed)
    limits = sealed_limits.limits_of(epsilon)
    differences = [records, *(records[:, gap:] - records[:, :-gap] for gap in (1, 2, batches // 2))]
    verdicts = [limits.allow(np.ascontiguousarray(each.reshape(-1, 4))) for each in differences]
    return sum(map(len, verdicts)), sum(int(np.count_nonzero(~verdict)) for verdict in verdicts)


EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_honest_record_is_refused(epsilon: float) -> None:
    judged, refused = refused_records(epsilon, 500, 24, 1)
    assert judged > 30_000
    assert not refused


@pytest.mark.long
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_honest_record_of_millions_is_refused(epsilon: float) -> None:
    for seed in range(2, 12):
        judged, refused = refused_records(epsilon, 5_000, 32, seed)
        assert judged > 400_000
        assert not refused


def refused_releases(epsilon: float, v: float, lines: int, seed: int) -> tuple[int, int]:
    """The same for releases, each just made and just before the next one."""
    limits, chance = release_limits.limits_of(epsilon, v, 1), np.random.default_rng(seed)
    thresholds = ReleaseSeries(epsilon, v).thresholds(3000)
    pulls = np.array(thresholds[:-1])
    scales = np.array([scale_steps(n, v) for n in thresholds[:-1]], dtype=np.float64)
    up, down = np.floor(scales * chance.standard_exponential((2, lines, len(pulls)))).astype(np.int64)
    noised = pulls * UNIT * chance.integers(0, 2, (lines, 1)) + up - down
    at_release = np.broadcast_to(pulls, noised.shape)
    judged = [limits.allow(at_release, at_release, noised)]
    judged.append(limits.allow(np.broadcast_to(np.array(thresholds[1:]) - 1, noised.shape), at_release, noised))
    return sum(each.size for each in judged), sum(int(np.count_nonzero(~each)) for each in judged)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("v", [1.01, 1.1, 1.3, 1.49])
def test_no_honest_release_is_refused(epsilon: float, v: float) -> None:
    judged, refused = refused_releases(epsilon, v, 20, 1)
    assert judged
    assert not refused


@pytest.mark.long
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("v", [1.01, 1.1, 1.3, 1.49])
def test_no_honest_release_of_millions_is_refused(epsilon: float, v: float) -> None:
    judged, refused = refused_releases(epsilon, v, max(400, int(20 / epsilon)), 2)
    assert judged > 20_000
    assert not refused

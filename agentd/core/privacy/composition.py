"""The tight (ε, δ) of many Laplace releases, by their privacy-loss distributions.

The privacy loss of one release is a random variable; the loss of all is the sum of independent ones, so its
distribution is their convolution, and δ(ε) = E[max(0, 1 − e^(ε − loss))] is exact. Everything that is approximated here
is rounded towards more loss, so the result is an upper bound, and close.

- **Continuous for discrete.** Discrete Laplace noise of scale s (grid steps) is dominated by continuous Laplace noise
  of ε′ = ε + 1/(4s²): with q = e^(−1/s) the best test against the discrete one reaches
  δ(e) ≤ 1 − e^((e−ε)/2)·2√q/(1+q), and 2√q/(1+q) = 1/cosh(1/(2s)) ≥ e^(−1/(8s²)). The difference is 10^−13.
- **Dots on a grid.** The loss is put onto multiples of a width h such that δ(ε) stays as it is at every multiple and is
  a straight line in e^ε between them (Doroshenko et al., Connect the Dots, 2022). The true curve is convex there and so
  below the line; the error per release falls with h², where rounding each loss up would cost h.
- **A window.** Convolution is by Fourier transform on a window around the mean. What lies outside wraps around; by
  Hoeffding's bound it is less than TAIL·δ, which is added to δ.
- **Fewer sizes.** With very many different ε, each is raised to the next of a ladder of RUNG steps: more noise can be
  had from less by adding some, so less noise is never better.

As every (ε, δ) it holds for a number of releases that was fixed before the first reward: see `schedule.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from agentd.core.grid import UNIT

POINTS = 1 << 16
"""Of the grid on which losses are added up."""
TAIL = 1e-3
"""The share of δ that is given away for what lies outside the window."""
LEAST_DELTA = 1e-12
"""Below this, double precision has nothing to say."""
SIZES = 512
"""Different ε that are convolved one by one; more than these are raised to a ladder."""
RUNG = 1.001

Floats = NDArray[np.float64]


def tight_epsilon(scales: Iterable[int], delta: float) -> float:
    """The smallest ε known to hold, but for δ, of releases with these noise scales (grid steps) of one running sum."""
    if not LEAST_DELTA <= delta < 1:
        raise ValueError(f"delta must lie in [{LEAST_DELTA:g}, 1), got {delta!r}")
    losses = _losses(Counter(scales))
    if not losses:
        return 0.0
    pure = math.fsum(epsilon * count for epsilon, count in losses.items())
    width, centre, mass = _composed(losses, pure, delta)
    return min(pure, _epsilon_at(width, centre, mass, delta * (1 - TAIL)))


def _losses(scales: Counter[int]) -> Counter[float]:
    """How often each ε′ occurs; on a ladder where there are too many."""
    exact = Counter({UNIT / scale + 0.25 / scale / scale: count for scale, count in scales.items()})
    if len(exact) <= SIZES:
        return exact
    rungs: Counter[float] = Counter()
    for epsilon, count in exact.items():
        rungs[RUNG ** math.ceil(math.log(epsilon) / math.log(RUNG))] += count
    return rungs


def _composed(losses: Counter[float], pure: float, delta: float) -> tuple[float, int, Floats]:
    """The width of the grid, the multiple at the middle of its window, and the mass at each of its points."""
    half = _half_window(losses, pure, delta)
    width = 2 * half / (POINTS - 2 * len(losses) - 8)
    spectrum = np.ones(POINTS // 2 + 1, dtype=np.complex128)
    mean = 0.0
    for epsilon, count in losses.items():
        first, mass = _dots(epsilon, width)
        line = np.zeros(POINTS)
        np.add.at(line, np.arange(first, first + len(mass)) % POINTS, mass)
        spectrum *= np.fft.rfft(line) ** count
        mean += count * float(np.dot(np.arange(first, first + len(mass)), mass))
    centre = round(mean)
    mass = np.maximum(np.fft.irfft(spectrum, POINTS), 0.0)
    return width, centre, np.roll(mass, POINTS // 2 - centre)


def _half_window(losses: Counter[float], pure: float, delta: float) -> float:
    """Half the width of a window that holds all but TAIL·δ: of each loss to both sides of its mean, after Hoeffding."""
    squares = math.fsum(count * epsilon * epsilon for epsilon, count in losses.items())
    likely = math.sqrt(2 * squares * math.log(2 / (TAIL * delta)))
    return 1.01 * min(likely, 2 * pure)  # dots lie up to a width outside of what they stand for


def _dots(epsilon: float, width: float) -> tuple[int, Floats]:
    """The mass at multiples of the width, from the first on, whose δ at every multiple is that of Laplace noise."""
    first, last = math.floor(-epsilon / width) - 1, math.ceil(epsilon / width) + 1
    at = np.arange(first, last + 1) * width
    inside = -np.expm1((np.minimum(at, epsilon) - epsilon) / 2)
    delta = np.where(at <= -epsilon, -np.expm1(at), inside)
    above = (delta[:-1] - math.exp(-width) * delta[1:]) / -math.expm1(-width)  # mass above each multiple
    return first + 1, np.maximum(above[:-1] - above[1:], 0.0)


def _epsilon_at(width: float, centre: int, mass: Floats, delta: float) -> float:
    """Where the curve falls to δ; between two multiples it is a straight line in e^ε."""
    at = (np.arange(len(mass)) - len(mass) // 2 + centre) * width
    keep = at >= 0
    at, mass = at[keep], mass[keep]
    # Relative to the first point kept, so that no exponential overflows where losses are large.
    above = np.cumsum(mass[::-1])[::-1]
    faded = _faded(mass, width)
    curve = above - faded
    place = int(np.argmax(curve <= delta))
    if curve[place] > delta:
        return math.inf
    if place == 0:
        return float(at[0])
    share = (curve[place - 1] - delta) / (curve[place - 1] - curve[place])
    return float(at[place - 1] + math.log1p(share * math.expm1(width)))


def _faded(mass: Floats, width: float) -> Floats:
    """Σ over i ≥ j of mass_i·e^((j − i)·width), for every j; in blocks, so that no exponential leaves its range."""
    faded = np.empty_like(mass)
    step = max(1, int(600 / width))
    carry = 0.0
    for end in range(len(mass), 0, -step):
        start = max(0, end - step)
        growth = np.exp(-width * np.arange(end - start))
        block = np.cumsum((mass[start:end] * growth)[::-1])[::-1]
        faded[start:end] = (block + carry * growth[-1] * math.exp(-width)) / growth
        carry = float(faded[start])
    return faded

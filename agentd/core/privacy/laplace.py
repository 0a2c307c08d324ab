"""Discrete Laplace noise: one interface, an exact sampler for running agents and a seeded one for replays.

The distribution is P(x) = (1−q)/(1+q)·q^|x| on the integers, q = exp(−1/scale), with the scale in grid steps.
Added to a sum that one reward moves by at most UNIT steps, it makes the sum UNIT/scale differentially private,
exactly: the output is an integer, so there are no low bits of a floating-point sampler to tell inputs apart by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol

from agentd.core.chance import Purpose, stream

BLOCK_BYTES = 64
"""Random bytes that the exact sampler asks for at once; twice what a draw mostly needs."""
BLOCK = 64
"""Exponentials a seeded source draws ahead per arm; changes the speed, never the noise."""


MAX_SCALE = 1 << 256
"""Far beyond any scale that releases use; so that a block holds more than one number."""


class Noise(Protocol):
    """A source of discrete Laplace noise; the arm names the stream where the source has more than one."""

    def draw(self, arm: int, scale: int) -> int:
        """Return one integer x with P(x) ∝ exp(−|x|/scale)."""
        ...


class ExactLaplace:
    """Noise that keeps the promise: integers only, from random bytes that the operating system hands in.

    Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy, 2020, Algorithms 1 and 2: no
    logarithm, no rounding, every probability exact. It is as fork-safe as its source: every draw asks anew and leaves
    nothing in the process, so with `secrets.token_bytes` a child never repeats its parent's noise. How long a draw
    takes depends on chance and a little on the value drawn, by microseconds: an agent draws before the reward is known.
    """

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes

    def draw(self, arm: int, scale: int) -> int:  # noqa: ARG002 - one source serves every arm
        """Return one integer x with P(x) ∝ exp(−|x|/scale)."""
        _require_scale(scale)
        return sampled(_Uniform(self._token_bytes).below, scale)


def sampled(below: Callable[[int], int], scale: int) -> int:
    """Return one integer x with P(x) ∝ exp(−|x|/scale), from uniform whole numbers below a limit."""
    while True:
        # One uniform number serves as the remainder and, in its lowest bit, as the sign.
        remainder, negative = divmod(below(2 * scale), 2)
        if not _accept(below, remainder, scale):
            continue
        magnitude = remainder + scale * _geometric(below)
        if not negative:
            return magnitude
        if magnitude:  # zero has one sign only, else it would come twice as often as it should
            return -magnitude


class _Uniform:
    """Uniform whole numbers from blocks of random bits: a draw needs about eight of them, and each call is costly."""

    __slots__ = ("_bits", "_left", "_token_bytes")

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._bits = self._left = 0

    def below(self, limit: int) -> int:
        """Return a number in [0, limit), each as likely as the others: bits that say another one are thrown away."""
        width = (limit - 1).bit_length()
        while True:
            if self._left < width:
                self._bits, self._left = int.from_bytes(self._token_bytes(BLOCK_BYTES), "little"), 8 * BLOCK_BYTES
            number = self._bits & ((1 << width) - 1)
            self._bits >>= width
            self._left -= width
            if number < limit:
                return number


def _accept(below: Callable[[int], int], numerator: int, denominator: int, place: int = 1) -> bool:
    """Return True with probability exp(−γ), γ = numerator/denominator in [0, 1].

    The run of successes with probabilities γ/1, γ/2, γ/3, … ends at an odd place with probability
    1 − γ + γ²/2! − γ³/3! + … = exp(−γ). Places before `place` are known to succeed.
    """
    limit = denominator * place
    while below(limit) < numerator:
        place += 1
        limit += denominator
    return place % 2 == 1


def _geometric(below: Callable[[int], int]) -> int:
    """Count successes of probability exp(−1) before the first failure."""
    count = 0
    while _accept(below, 1, 1, place=2):  # γ = 1: the first place cannot fail and needs no coin
        count += 1
    return count


class SeededLaplace:
    """Noise that a seed repeats: reproducible, not private.

    An exponential times the scale, rounded down, is geometric with ratio exp(−1/scale), and the difference of
    two geometrics is discrete Laplace. IEEE defines the product and the floor to the last bit, so an array of
    the same exponentials gives the same integers. Each arm has a stream of its own, opened at its first draw
    and so after any fork; a restarted agent resumes by drawing once for every release it had made of the arm.
    """

    def __init__(self, seed: int, agent: int, *, block: int = BLOCK) -> None:
        self._seed = seed
        self._agent = agent
        self._block = block
        self._exponentials: dict[int, Iterator[float]] = {}

    def draw(self, arm: int, scale: int) -> int:
        """Return one integer x with P(x) ∝ exp(−|x|/scale), from the arm's next two exponentials."""
        _require_scale(scale)
        exponentials = self._exponentials.get(arm)
        if exponentials is None:
            exponentials = self._exponentials[arm] = self._open(arm)
        return math.floor(scale * next(exponentials)) - math.floor(scale * next(exponentials))

    def _open(self, arm: int) -> Iterator[float]:
        generator = stream(self._seed, Purpose.NOISE, self._agent, arm)
        while True:
            yield from generator.standard_exponential(self._block).tolist()


def _require_scale(scale: int) -> None:
    if not isinstance(scale, int) or isinstance(scale, bool) or not 1 <= scale < MAX_SCALE:
        raise ValueError(f"a noise scale must be a positive integer of grid steps below 2^256, got {scale!r}")

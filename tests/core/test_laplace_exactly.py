"""The exact sampler, exactly: every way its coins can fall, as fractions, against the distribution it must have.

A χ² test of 30,000 draws does not see one part in a thousand; here an error of one step of the grid in a scale of a
million is seen, because nothing is left to chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from agentd.audit.sampler import sampler_faults, source_faults, ways_of
from agentd.core.grid import UNIT
from agentd.core.privacy.laplace import ExactLaplace, _accept, _geometric, sampled

Below = Callable[[int], Any]


def test_every_probability_of_the_sampler_is_that_of_discrete_laplace_noise() -> None:
    assert sampler_faults() == []


@pytest.mark.parametrize("scale", [2, 3, 7])
def test_all_ways_of_a_small_scale_add_up_to_the_distribution(scale: int) -> None:
    """P(x) over P(0) for every |x| < 2·scale, from weights that are fractions; trying again changes no ratio."""
    weight: dict[int, Fraction] = {}
    for first in range(2 * scale):
        for number, share in ways_of(sampled, scale, first).numbers.items():
            weight[number] = weight.get(number, Fraction(0)) + share
    assert set(weight) == set(range(1 - 2 * scale, 2 * scale))
    for number, share in weight.items():
        assert float(share / weight[0]) == pytest.approx(math.exp(-abs(number) / scale), rel=1e-13)


def _with(
    *, remainder: int = 0, throws: int = 0, signed_zero: bool = False, lowest: int = 0
) -> Callable[[Below, int], int]:
    """The sampler with one thing wrong."""

    def wrong(below: Below, scale: int) -> int:
        while True:
            rest, negative = divmod(below(2 * scale), 2)
            if not _accept(below, rest + remainder, scale):
                continue
            magnitude = rest + scale * max(_geometric(below) - throws, 0) + lowest
            if not negative or magnitude or signed_zero:
                return -magnitude if negative else magnitude

    return wrong


def test_the_sampler_with_nothing_wrong_has_no_fault() -> None:
    assert sampler_faults(_with(), scales=(3,)) == []


@pytest.mark.parametrize(
    "wrong",
    [_with(remainder=1), _with(throws=1), _with(signed_zero=True), _with(lowest=1)],
    ids=["a remainder that is one step off", "one scale too few", "a zero of either sign", "one step too many"],
)
def test_a_sampler_with_one_thing_wrong_is_found_out_also_at_the_scale_of_the_grid(
    wrong: Callable[[Below, int], int],
) -> None:
    assert sampler_faults(wrong, scales=(3,))
    assert any(f"scale {UNIT}" in fault for fault in sampler_faults(wrong, scales=()))


def test_a_source_draws_what_the_sampler_makes_of_its_bytes_and_one_that_does_not_is_found_out() -> None:
    class Late(ExactLaplace):
        """Exact, but for one draw in a hundred."""

        drawn = 0

        def draw(self, arm: int, scale: int) -> int:
            self.drawn += 1
            return super().draw(arm, scale) + (self.drawn == 100)

    assert source_faults(ExactLaplace) == []
    (fault,) = source_faults(Late)
    assert fault.startswith("draw 100, of arm")

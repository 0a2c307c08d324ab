"""What people read of a spent ε is never below it, and what is divided never adds up to more."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.upwards import at_least, at_least_times, shown, whole_up

epsilons = st.floats(1e-9, 1e6)


@given(epsilons, st.integers(1, 6))
def test_an_epsilon_is_shown_rounded_up_by_less_than_its_last_digit(epsilon: float, digits: int) -> None:
    read, last_bit = Fraction(shown(epsilon, digits)), Fraction(1, 1 << 53)
    assert Fraction(epsilon) * (1 - last_bit) <= read < Fraction(epsilon) * (1 + Fraction(10) ** (1 - digits))


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [
        (1.0, "1"),
        (1.0001, "1.01"),
        (0.0999999, "0.1"),
        (48.03, "48.1"),
        (1234.5, "1240"),
        (100.0, "100"),
        (0.0, "0"),
        (0.1, "0.1"),
    ],
)
def test_it_reads_as_people_write_it(epsilon: float, text: str) -> None:
    assert shown(epsilon) == text
    assert shown(math.inf) == "inf"


@given(epsilons)
def test_millionths_are_rounded_up_and_read_back_not_below(epsilon: float) -> None:
    micro = whole_up(epsilon, 1_000_000)
    assert Fraction(micro, 1_000_000) >= Fraction(epsilon) > Fraction(micro - 1, 1_000_000)
    assert Fraction(at_least(micro, 1_000_000)) >= Fraction(epsilon)


@given(epsilons, st.integers(1, 100_000))
def test_a_product_is_not_below_what_it_should_be(epsilon: float, rewards: int) -> None:
    assert Fraction(at_least_times(epsilon, rewards)) >= Fraction(epsilon) * rewards

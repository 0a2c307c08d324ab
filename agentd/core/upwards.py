"""Numbers of a spent ε that are rounded up, so that nobody reads less than is true."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction


def shown(epsilon: float, digits: int = 3) -> str:
    """An ε with so many significant digits, rounded up; `inf` where it has no bound.

    A double is read as the shortest decimal that it stands for: the one nearest to 0.1 is shown as 0.1, and not as
    0.101 because its last bit is above. So what is shown is not below ε by more than half the last bit of a double.
    """
    if not math.isfinite(epsilon):
        return "inf"
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(epsilon))))
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def whole_up(value: float | Fraction, units: int) -> int:
    """A number in units of so many to one, rounded up, with nothing lost on the way."""
    return math.ceil(Fraction(value) * units)


def at_least_times(epsilon: float, rewards: int) -> float:
    """The least double that is not below ε times a number of rewards."""
    exact, nearest = Fraction(epsilon) * rewards, epsilon * rewards
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def at_least(numerator: int, denominator: int) -> float:
    """The least double that is not below a ratio."""
    nearest = numerator / denominator
    return nearest if Fraction(nearest) >= Fraction(numerator, denominator) else math.nextafter(nearest, math.inf)

"""What a person or a file may say about a graph, and the errors that say why it was refused."""

from __future__ import annotations

import operator

import numpy as np


class TopologyError(ValueError):
    """A graph cannot be built as asked; the message is one line: what, why, what to do."""

    exit_code = 2


class TopologyFileError(TopologyError):
    """A file of a graph, or the place for one, cannot be used."""

    exit_code = 78


def probability(name: str, value: object) -> float:
    """Check a probability; `name` is what the message calls it."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value <= 1.0:  # NaN is in no range
        return float(value)
    raise TopologyError(f"{name} must be a number between 0 and 1, got {brief(value)}")


def whole(name: str, value: object, low: int, high: int | None = None) -> int:
    """Check an integer and its bounds, both included; `name` is what the message calls it."""
    number = as_integer(value)
    if number is None or number < low or (high is not None and number > high):
        bounds = f"of at least {low}" if high is None else f"between {low} and {high}"
        raise TopologyError(f"{name} must be an integer {bounds}, got {brief(value)}")
    return number


def as_integer(value: object) -> int | None:
    """Read an exact integer, numpy's included; a bool, a float or anything else gives None."""
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        return None
    return operator.index(value)


def brief(value: object) -> str:
    """Show a value that nobody vouches for in at most about 40 printable characters."""
    if isinstance(value, int) and value.bit_length() > 128:  # Python refuses to print more than 4300 digits
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return ascii(value) if len(value) <= 36 else ascii(value[:33]) + "..."
    if value is None or isinstance(value, int | float | np.generic):
        return ascii(value)
    return f"a value of type {type(value).__name__}"  # never its text: it may be megabytes or nested too deep

"""Amounts as people write and read them: durations, bytes, numbers of things. Pure."""

from __future__ import annotations

import re

_UNITS_S = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(-?[0-9.]{1,20}(?:[eE][-+]?[0-9]{1,3})?)(ms|s|m|h|)")
_THOUSAND = 1000.0


def seconds_in(text: str) -> float | None:
    """The seconds of `5s`, `200ms`, `2m`, `1h` or a bare number of seconds; None: it is no duration."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or found[1].count(".") > 1 or not any(map(str.isdigit, found[1])):
        return None
    return float(found[1]) * _UNITS_S[found[2]]


def counted(number: int, thing: str, things: str | None = None) -> str:
    """`1 agent`, `3 agents`."""
    return f"{number} {thing}" if number == 1 else f"{number} {things or thing + 's'}"


def as_bytes(count: int) -> str:
    """`812 bytes`, `24.2 kB`, `1.31 GB`: three digits tell a person enough."""
    if count < _THOUSAND:
        return counted(count, "byte")
    size, units = float(count), iter(("kB", "MB", "GB", "TB", "PB", "EB"))
    unit = ""
    while size >= _THOUSAND - 0.5 and (following := next(units, None)) is not None:
        size, unit = size / _THOUSAND, following
    return f"{size:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f} {unit}"

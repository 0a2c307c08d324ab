"""Amounts as people write and read them."""

from __future__ import annotations

import pytest

from agentd.quantities import as_bytes, counted, seconds_in


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5.0), ("200ms", 0.2), ("2m", 120.0), ("1h", 3600.0), ("5", 5.0), ("0.25", 0.25), ("1e-3", 0.001)],
)
def test_a_duration_has_a_unit_or_is_seconds(text: str, seconds: float) -> None:
    assert seconds_in(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "5 s", "5d", "nan", "inf", "1_000", "५s", "1.2.3", "--5", ".", "5sm"])
def test_what_is_no_duration_is_none(text: str) -> None:
    assert seconds_in(text) is None


def test_one_of_a_thing_is_not_several() -> None:
    assert [counted(n, "agent") for n in (0, 1, 2)] == ["0 agents", "1 agent", "2 agents"]
    assert counted(2, "process", "processes") == "2 processes"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.00 kB"),
        (24_192, "24.2 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (720_000_000, "720 MB"),
        (69_000_000_000, "69.0 GB"),
        (10**30, "1000000000000 EB"),
    ],
)
def test_bytes_are_told_with_three_digits(count: int, text: str) -> None:
    assert as_bytes(count) == text

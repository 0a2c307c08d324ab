"""How far anybody can be on free clocks."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.message import MAX_TRIAL
from agentd.core.terms import Clock, Terms
from agentd.core.trust.pace import DRIFT, Pace

FREE = Terms(2, 1, clock=Clock.FREE, interval_us=500_000, start_ms=1)


@pytest.mark.parametrize(("now_s", "trial"), [(100.0, 1), (100.4, 1), (100.51, 2), (101.1, 3), (149.99, 101), (0.0, 1)])
def test_the_latest_trial_follows_from_the_age(now_s: float, trial: int) -> None:
    assert Pace(FREE, asked_s=100.0, heard_s=100.2).latest_trial(now_s) == trial


def test_the_run_was_older_than_we_are() -> None:
    assert Pace(FREE, age_ms=10_000, asked_s=100.0, heard_s=100.2).latest_trial(100.2) == 21


@pytest.mark.parametrize(
    "terms",
    [
        Terms(2, 1),
        Terms(2, 1, clock=Clock.LOCKSTEP, interval_us=500_000, start_ms=1),
        Terms(2, 1, clock=Clock.FREE, start_ms=1),
        Terms(2, 1, clock=Clock.FREE, interval_us=500_000),
    ],
)
def test_where_interval_or_start_are_not_agreed_nobody_is_too_far(terms: Terms) -> None:
    pace = Pace(terms, age_ms=5)
    assert pace.latest_trial(7.0) == MAX_TRIAL
    assert pace.due_s(9) == -math.inf


def test_no_run_is_too_old() -> None:
    assert Pace(FREE, age_ms=(1 << 53) - 1).latest_trial(0.0) == MAX_TRIAL


@given(
    instants=st.tuples(*(st.floats(0, 5) for _ in range(4))),
    trial=st.integers(1, 5000),
    drift=st.floats(-DRIFT / 2, DRIFT / 2),
    interval_us=st.integers(1000, 10_000_000),
)
def test_who_keeps_the_pace_is_never_refused(
    instants: tuple[float, ...], trial: int, drift: float, interval_us: int
) -> None:
    """One agent asks at any time and pulls as early as it may, on a clock of its own; the other judges at once."""
    begins_s, asked_s, answered_s, heard_s = accumulate(instants)
    terms = Terms(2, 1, clock=Clock.FREE, interval_us=interval_us, start_ms=1)
    age_ms = math.floor((answered_s - begins_s) * 1000)
    due_s = Pace(terms, age_ms=age_ms, asked_s=asked_s, heard_s=heard_s).due_s(trial)
    pulled_s = heard_s + max(0.0, due_s - heard_s) / (1 + drift)
    others = Pace(terms, age_ms=0, asked_s=begins_s, heard_s=heard_s)
    assert others.latest_trial(pulled_s) >= trial

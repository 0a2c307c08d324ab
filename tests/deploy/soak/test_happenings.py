"""What befalls a testbed in a soak is drawn from a seed, once of each kind at least, and everything can heal."""

from __future__ import annotations

import pytest

from deploy.soak.happenings import KINDS, Weather, draw_happenings


def test_the_same_seed_draws_the_same() -> None:
    drawn = [draw_happenings(50, 1800.0, Weather(), seed) for seed in (7, 7, 8)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("seconds", [20.0, 1800.0])
@pytest.mark.parametrize("agents", [2, 50])
def test_everything_happens_and_ends_before_the_soak_does(agents: int, seconds: float) -> None:
    drawn = draw_happenings(agents, seconds, Weather(), 1)
    assert {happening.kind for happening in drawn} == set(KINDS)
    assert all(seconds * 0.1 <= h.at_s and h.at_s + h.lasts_s <= seconds for h in drawn)
    assert all(0 <= agent < agents for h in drawn for agent in h.agents)
    assert [h.at_s for h in drawn] == sorted(h.at_s for h in drawn)


def test_churn_is_a_share_of_the_agents_in_a_minute() -> None:
    drawn = draw_happenings(50, 1800.0, Weather(churn_percent=2.0), 1)
    assert sum(h.kind == "kill" for h in drawn) == 30


def test_only_what_is_wanted_happens() -> None:
    assert {h.kind for h in draw_happenings(9, 600.0, Weather(kinds=("pause", "loss")), 1)} == {"pause", "loss"}
    assert draw_happenings(9, 600.0, Weather(churn_percent=0.0, kinds=("kill",)), 1) == []

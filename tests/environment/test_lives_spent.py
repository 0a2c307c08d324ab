"""What an agent spent in a life before stays in every figure, whoever took its state away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from env_clients import hello, pull, report

from agentd.environment.live_status import Tallies, status_of
from agentd.environment.lives_spent import LivesSpent, from_json
from agentd.environment.run_terms import RunTerms, declared
from agentd.environment.shared_bandit import SharedBandit
from agentd.environment.store import Store
from agentd.errors import ConfigurationError
from agentd.runs.arms import Arms
from agentd.wire.environment_messages import MAX_COUNT

RUN = b"12345678"
TERMS = RunTerms(agreed=declared(RUN, 2, 2, 50), seed=3, arms=Arms.fixed((0.9, 0.1), "bernoulli"))


def spend(bandit: SharedBandit, trials: range, micro: int, incarnation: int | None) -> None:
    """A life of agent 1: so many pulls, and what it says to have spent in the end."""
    bandit.answer(hello(1, incarnation), 0.0)
    for trial in trials:
        bandit.answer(pull(1, trial, 0), 0.0)
    bandit.answer(report(1, trials[-1], 0, 0, (), micro, False), 0.0)


def two_lives() -> SharedBandit:
    bandit = SharedBandit(TERMS)
    spend(bandit, range(1, 6), 5_000_000, None)
    spend(bandit, range(6, 9), 1_500_000, None)
    return bandit


def shown_epsilon(bandit: SharedBandit) -> float | None:
    status = status_of(bandit, Tallies(), address="", pulls_per_s=0.0, now_s=0.0)
    return status.agents[1].epsilon


def test_one_reward_is_exposed_to_the_life_that_spent_most_and_one_in_each_to_their_sum() -> None:
    bandit = two_lives()
    assert bandit.seats[1].spent == LivesSpent(2, 5_000_000, 6_500_000)
    assert shown_epsilon(bandit) == 5.0


def test_a_life_that_goes_on_with_its_state_is_one() -> None:
    bandit = SharedBandit(TERMS)
    spend(bandit, range(1, 6), 5_000_000, None)
    spend(bandit, range(6, 9), 5_500_000, 0)
    assert bandit.seats[1].spent == LivesSpent(1, 5_500_000, 5_500_000)


def test_a_life_without_bound_leaves_none() -> None:
    bandit = SharedBandit(TERMS)
    spend(bandit, range(1, 6), MAX_COUNT, None)
    spend(bandit, range(6, 9), 1, None)
    assert bandit.seats[1].spent == LivesSpent(2, MAX_COUNT, MAX_COUNT)
    assert shown_epsilon(bandit) is None


def stored(place: Path, bandit: SharedBandit) -> None:
    store = Store.open(place)
    store.begin(TERMS)
    store.record(bandit.take_fresh())
    store.record_seats(bandit.seating.take_fresh())
    store.write_reports(bandit.seats.values())
    store.close()


def taken_up(place: Path) -> SharedBandit:
    again, store = SharedBandit(TERMS), Store.open(place)
    store.take_up(again)
    store.close()
    return again


def test_it_survives_the_environment(tmp_path: Path) -> None:
    stored(tmp_path, two_lives())
    again = taken_up(tmp_path)
    assert again.seats[1].spent == LivesSpent(2, 5_000_000, 6_500_000)
    again.answer(report(1, 8, 0, 0, (), 1_600_000, True), 0.0)
    assert again.seats[1].spent == LivesSpent(2, 5_000_000, 6_600_000)


def test_a_death_of_the_environment_between_a_return_and_the_next_report_loses_nothing(tmp_path: Path) -> None:
    """The seat is on disk before the welcome leaves; the report of the life before is still the newest."""
    bandit = SharedBandit(TERMS)
    spend(bandit, range(1, 6), 5_000_000, None)
    bandit.answer(hello(1), 0.0)
    stored(tmp_path, bandit)
    again = taken_up(tmp_path)
    bandit.answer(hello(1, 5), 0.0)
    again.answer(hello(1, 5), 0.0)
    again.answer(report(1, 5, 0, 0, (), 10, False), 0.0)
    assert again.seats[1].spent == LivesSpent(2, 5_000_000, 5_000_010)


def test_reports_of_an_earlier_agentd_have_no_lives(tmp_path: Path) -> None:
    stored(tmp_path, two_lives())
    path = tmp_path / "reports.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    for each in content["reports"]:
        del each["life"], each["lives_before"]
    path.write_text(json.dumps(content), encoding="utf-8")
    again = taken_up(tmp_path)
    assert again.seats[1].spent == LivesSpent(1, 1_500_000, 1_500_000)
    again.answer(report(1, 8, 0, 0, (), 1_600_000, True), 0.0)
    assert again.seats[1].spent == LivesSpent(1, 1_600_000, 1_600_000)


@pytest.mark.parametrize(
    "wrong", [{"lives_before": [1, 2]}, {"lives_before": [1, -2, 3]}, {"lives_before": [1, 2.5, 3]}, {"life": "x"}]
)
def test_what_cannot_have_been_written_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="earlier lives"):
        from_json(wrong)
    stored(tmp_path, two_lives())
    path = tmp_path / "reports.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["reports"][0] |= wrong
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="earlier lives"):
        taken_up(tmp_path)

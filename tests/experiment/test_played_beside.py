"""What a run is held against: the same pulls, by others, from the same arms and seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentd.core.lies import Attack
from agentd.experiment import theory
from agentd.experiment.played_beside import LIMIT, play_beside
from agentd.runs.regret import NOT_PULLED, group_regret
from agentd.runs.scenario import make_scenario
from agentd.runs.spec import RunSpec
from agentd.runs.yardstick import NAMES, SIMULATED, table_lines
from agentd.settings import TestbedSettings
from agentd.simulation.engine import run_vector


def spec_of(**settings: object) -> RunSpec:
    usual = {"agents": 6, "edge_probability": 0.6, "rounds": 80, "seed": 5, "algorithm": "private-ucb"}
    return make_scenario(TestbedSettings(**{**usual, **settings})).spec  # type: ignore[arg-type]


def pulled_by(spec: RunSpec) -> np.ndarray[tuple[int, int], np.dtype[np.uint16]]:
    return run_vector([spec])[0].arm  # type: ignore[return-value]


def regret_of(spec: RunSpec, algorithm: str, gamma: int) -> float:
    return group_regret(pulled_by(replace(spec, algorithm=algorithm, gamma=gamma)), spec.arms.means)


def test_the_references_are_the_same_run_played_by_others() -> None:
    spec = spec_of()
    told = play_beside(spec, pulled_by(spec)).to_json()
    assert told["rounds"] == 80
    assert told["alone"]["group_regret"] == pytest.approx(regret_of(spec, "ucb1", 0))
    assert told["alone_thompson"]["group_regret"] == pytest.approx(regret_of(spec, "coop-thompson", 0))
    assert told["coop_thompson"]["group_regret"] == pytest.approx(regret_of(spec, "coop-thompson", spec.gamma))
    assert told["lower_bound"]["group_regret"] == pytest.approx(theory.lower(spec.arms.means).at(80))
    assert told["alone"]["regret_per_agent"] == pytest.approx(told["alone"]["group_regret"] / 6)
    assert told["left_out"] == {}
    assert "environment" in told["view"]


def test_liars_policies_of_single_agents_and_unknown_algorithms_are_not_in_the_references() -> None:
    spec = spec_of()
    arm = pulled_by(spec)
    honest = play_beside(spec, arm)
    odd = replace(
        spec,
        algorithm="somebody-elses",
        liars=frozenset({1}),
        attack=Attack("worst", on_relay=True),
        overrides={2: "x"},
    )
    for name, curve in play_beside(odd, arm).curves.items():
        np.testing.assert_array_equal(curve, honest.curves[name])


def test_only_what_the_run_pulled_is_compared() -> None:
    """Interrupted after 30 rounds, and one agent was down for the last ten of them."""
    spec = spec_of()
    arm = pulled_by(spec)
    arm[:, 30:] = NOT_PULLED
    arm[2, 20:] = NOT_PULLED
    yardstick = play_beside(spec, arm)
    assert yardstick.rounds == 30
    assert {len(curve) for curve in yardstick.curves.values()} == {30}
    alone = pulled_by(replace(spec, algorithm="ucb1", gamma=0, rounds=30))
    alone[2, 20:] = NOT_PULLED
    assert yardstick.curves["alone"][-1] == pytest.approx(group_regret(alone, spec.arms.means))


def test_what_would_take_long_is_left_out_and_says_so() -> None:
    spec = spec_of()
    yardstick = play_beside(spec, pulled_by(spec), limit=6 * 80 * 5 - 1)
    told = yardstick.to_json()
    assert [name for name in NAMES if told[name] is not None] == ["lower_bound"]
    assert table_lines(told)[-1] == "not simulated: 6 agents × 80 rounds × 5 arms are more than 2,399"
    assert play_beside(spec, pulled_by(spec), limit=6 * 80 * 5).left_out == {}
    assert LIMIT >= 200 * 1000 * 5  # the paper's size is never left out


def test_who_cannot_wait_keeps_what_is_there() -> None:
    spec = spec_of()
    asked = iter(range(10_000))
    yardstick = play_beside(spec, pulled_by(spec), lambda: next(asked) >= 100)  # in the second of three
    assert set(yardstick.curves) == {"alone", "lower_bound"}
    assert set(yardstick.left_out) == {"alone_thompson", "coop_thompson"}
    assert "not simulated: it was interrupted" in table_lines(yardstick.to_json())


def test_the_bound_is_told_of_bernoulli_arms_only() -> None:
    spec = spec_of(reward="beta")
    told = play_beside(spec, pulled_by(spec)).to_json()
    assert told["lower_bound"] is None
    assert "Bernoulli" in told["left_out"]["lower_bound"]
    assert all(told[name] for name in SIMULATED)


def test_a_run_without_a_pull_is_held_against_nothing() -> None:
    spec = spec_of()
    told = play_beside(spec, np.full((6, 80), NOT_PULLED, dtype=np.uint16)).to_json()
    assert told["rounds"] == 0
    assert all(told[name] is None for name in NAMES)
    assert set(told["left_out"].values()) == {"no pull was made"}


@pytest.mark.parametrize("page", ["docs/testbeds.md", "docs/run-directory.md"])
def test_the_limit_is_the_one_that_the_pages_say(page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    assert f"more than {LIMIT:,} agents × rounds × arms" in text

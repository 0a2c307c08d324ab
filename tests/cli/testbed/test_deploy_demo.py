"""What the demo says about its two runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from agentd.cli.testbed.demo import (
    PICTURE,
    Half,
    Stopped,
    _refuse_failure,
    alone_in,
    compare,
    conclusion,
    demo_settings,
    draw,
    introduction,
)
from agentd.errors import AgentdError
from agentd.runs.directory import RunDirectory
from agentd.runs.regret import group_regret
from agentd.runs.scenario import make_scenario
from agentd.simulation.engine import run_vector
from deploy.testbed.lifecycle import Lost
from deploy.testbed.supervisor import Ending

PRIVACY = {
    "per_agent_epsilon": 16.5,
    "epsilon_at_delta": 8.3,
    "delta": 1e-5,
    "nominal_epsilon": 0.5,
    "releases": 4000,
    "covers": "the noised sums, given the sequence of pulls, which itself leaks",
    "note": "",
}


def half(regret: float, place: Path = Path(), note: str = "") -> Half:
    summary: dict[str, Any] = {"group_regret": regret, "agents": 16, "rounds": 500, "wall_s": 5.0}
    return Half("one half", place, {**summary, "privacy": {**PRIVACY, "note": note}})


def test_the_defaults_of_the_demo_let_company_win_whatever_the_seed() -> None:
    """Seeds 0 to 9; the defaults were chosen over 120 of them, where together stayed below 0.6 of alone."""
    for seed in range(10):
        together = make_scenario(demo_settings(seed=seed))
        alone = alone_in(together)
        means = together.spec.arms.means
        regrets = [group_regret(run_vector([run.spec])[0].arm, means) for run in (alone, together)]
        assert regrets[1] < 0.7 * regrets[0], seed


def test_both_halves_share_graph_arms_and_rewards() -> None:
    together = make_scenario(demo_settings())
    alone = alone_in(together)
    assert alone.graph is together.graph
    assert (alone.spec.seed, alone.spec.arms) == (together.spec.seed, together.spec.arms)
    assert {alone.spec.algorithm, alone.settings.algorithm} == {"ucb1"}
    assert together.settings.seed is None, "the noise is the system's"


def test_who_lost_less_has_won() -> None:
    figures = compare(half(900.0), half(300.0))
    assert figures["cooperation_won"] is True
    assert figures["saved"] == pytest.approx(2 / 3)
    assert figures["wall_s"] == 10.0
    assert compare(half(300.0), half(300.0))["cooperation_won"] is False
    assert compare(half(0.0), half(1.0))["saved"] == 0.0


def test_the_conclusion_names_the_gain_the_privacy_and_what_is_not_covered(tmp_path: Path) -> None:
    said = conclusion(compare(half(900.0), half(300.0)), tmp_path)
    assert "Together they lost 67% less than alone." in said
    assert "ε = 16.5 for one reward, all 4,000 releases composed; the nominal 0.5 is a rate." in said
    assert "for an arm that is pulled every time: ε = 8.3 at δ = 1e-05" in said
    assert "The noise came from the system." in said
    assert "It is the ε of the noised sums, given the sequence of pulls, which itself leaks." in said
    assert str(tmp_path / PICTURE) in said


def test_the_conclusion_is_honest_about_a_loss_and_about_a_seed(tmp_path: Path) -> None:
    said = conclusion(compare(half(300.0), half(360.0, note="reproducible, not private")), tmp_path)
    assert "Company did not pay this time: together they lost 20% more than alone." in said
    assert "followed from a seed: reproducible, not private" in said


def test_the_introduction_says_how_many_and_how_often() -> None:
    said = introduction(make_scenario(demo_settings(16, 500, 3)))
    assert said.startswith("16 agents and their environment")
    assert "500 times each" in said


@pytest.mark.parametrize("with_matplotlib", [True, False])
def test_both_curves_are_in_one_picture_with_or_without_matplotlib(
    with_matplotlib: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_matplotlib:
        monkeypatch.setitem(sys.modules, "matplotlib.style", None)
    scenario = make_scenario(demo_settings(4, 20, 1))
    halves = []
    for name in ("alone", "together"):
        place = RunDirectory.create(tmp_path / name, "demo")
        place.write_pulls(np.zeros((4, 20), np.uint16), np.zeros((4, 20), np.int32))
        halves.append(half(1.0, place.path))
    draw(RunDirectory(tmp_path), halves, scenario)
    picture = (tmp_path / PICTURE).read_text(encoding="utf-8")
    ElementTree.fromstring(picture)  # noqa: S314 - our own text
    assert ("polyline" in picture) is not with_matplotlib


def test_a_run_that_failed_ends_the_demo_with_its_reason(tmp_path: Path) -> None:
    _refuse_failure(Ending(1.0), tmp_path)
    with pytest.raises(AgentdError, match=r"failed: no room; its logs are in .*logs"):
        _refuse_failure(Ending(1.0, failure="no room"), tmp_path)
    with pytest.raises(AgentdError, match="failed: agent 3: killed by SIGKILL"):
        _refuse_failure(Ending(1.0, lost=(Lost(3, -9, "killed by SIGKILL"),)), tmp_path)
    with pytest.raises(Stopped) as stopped:
        _refuse_failure(Ending(1.0, stopped_by=2), tmp_path)
    assert stopped.value.exit_code == 130

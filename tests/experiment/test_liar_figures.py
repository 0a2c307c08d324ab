"""fig3 and fig4: who meets which liars, what is read off, and what is drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentd.cli.in_memory.experiment import experiment
from agentd.core.policy import ALGORITHMS, PolicySettings
from agentd.experiment.fig3 import PRIVATE, SHARES, fig3, panels_of
from agentd.experiment.fig4 import fig4
from agentd.experiment.figures import Knobs, gather
from agentd.experiment.joining import joined_by
from agentd.experiment.repeated_runs import Repetitions, Setup, measure
from agentd.runs.scenario import network_of
from topology.graph import Graph

SMALL = ("--agents", "6", "--edge-probability", "0.7", "--rounds", "12", "--repetitions", "1", "--jobs", "1")


def run(figure: str, out: Path, *flags: str) -> dict[str, object]:
    done = CliRunner().invoke(experiment, [figure, *SMALL, "--out", str(out), "--json", *flags])
    assert done.exit_code == 0, done.output
    summary: dict[str, object] = json.loads(done.stdout)
    return summary


def test_fig3_shows_every_attack_at_every_share_and_nobody_lying_once() -> None:
    figure = fig3(Knobs(attacks=("both", "edge")))
    players = len(PRIVATE) + 3
    assert len(figure.series) == players * (1 + 2 * len(SHARES)) + 1
    assert len({series.name for series in figure.series}) == len(figure.series)
    assert {(series.attack, series.liars) for series in figure.series if series.liars} == {
        (attack, share) for attack in ("both", "edge") for share in SHARES
    }


def test_byzantine_ucb_is_told_the_share_and_others_are_not() -> None:
    for series in fig3(Knobs()).series:
        expected = series.liars if series.algorithm == "byzantine-ucb" else PolicySettings(arms=5).contamination
        assert series.lifetime.value == "0" or series.policy.contamination == expected


def test_each_panel_begins_where_nobody_lies_and_who_is_alone_is_level() -> None:
    setup = Setup(6, 12, 1, 3, "one", "test")
    repetitions = Repetitions(setup, lambda _seed: network_of(Graph.of(6, [(a, a + 1) for a in range(5)])))
    figure = fig3(Knobs(attacks=("both", "split"), liars=0.5))
    units = repetitions.units(figure.series)
    measured = gather(figure, repetitions, {unit: measure(repetitions.specs(unit)) for unit in units})
    both, split = panels_of(measured)
    assert [both.title, split.title] == ["both", "split"]
    assert all(curve.x.tolist() == [0.0, 50.0] for panel in (both, split) for curve in panel.curves)
    assert [curve.mean[0] for curve in both.curves] == [curve.mean[0] for curve in split.curves]
    assert both.curves[-1].dashed
    assert both.curves[-1].mean[0] == both.curves[-1].mean[1]


def test_fig4_has_a_line_for_each_private_algorithm_and_a_level_one() -> None:
    figure = fig4(Knobs(liars=0.2, attacks=("edge",)))
    assert {series.algorithm for series in figure.series} == {*PRIVATE, "coop-thompson"}
    assert {(series.liars, series.attack) for series in figure.series} == {(0.2, "edge")}


def test_more_algorithms_join_both() -> None:
    more = joined_by(fig3(Knobs()), ["coop-ucb"]).series
    assert sum(series.algorithm == "coop-ucb" for series in more) == 1 + 4 * len(SHARES)
    assert joined_by(fig4(Knobs()), ["coop-ucb"]).series[-1].algorithm == "coop-ucb"


def test_they_are_written_and_go_on_where_they_were(tmp_path: Path) -> None:
    flags = ("--attack", "both", "--byzantine", "2")
    summary = run("fig3", tmp_path, *flags)
    assert (tmp_path / "fig3.svg").exists()
    assert (tmp_path / "fig3.png").exists()
    lied = [series for series in summary["series"] if series["attack"] == "both"]  # type: ignore[attr-defined]
    assert {series["liars"] for series in lied} == {2}
    assert all(series["honest_regret_per_agent"] >= 0 for series in lied)
    again = run("fig3", tmp_path, *flags)
    assert again["units"]["resumed"] == again["units"]["total"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("fig3", "--attack", "boht"), "did you mean both?"),
        (("fig3", "--byzantine", "6"), "--byzantine must be in 0…5"),
        (("fig3", "--byzantine", "0"), "fig3 is about liars"),
        (("fig4", "--attack", "both,edge"), "fig4 shows one attack"),
        (("fig1a", "--attack", "both"), "--attack and --byzantine are for fig3 and fig4"),
    ],
)
def test_what_cannot_be_shown_is_refused(flags: tuple[str, ...], complaint: str) -> None:
    done = CliRunner().invoke(experiment, [*flags, *SMALL])
    assert done.exit_code != 0
    assert complaint in str(done.exception) + done.output


def test_those_that_are_shown_exist() -> None:
    assert set(PRIVATE) <= set(ALGORITHMS)

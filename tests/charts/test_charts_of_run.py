"""Charts tell what a run directory holds, whatever it holds."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from run_directories import MARKUP, as_of_a_testbed, hostile, nonsense, simulated, under_way, with_pipes

from agentd.charts.chart import MOST_POINTS, Chart, Series, series_of
from agentd.charts.comparing import compared, differing_settings
from agentd.charts.of_run import charts_of
from agentd.charts.run_facts import read_facts
from agentd.environment.pull_journal import PullJournal
from agentd.errors import ConfigurationError


def by_name(charts: list[Chart]) -> dict[str, Chart]:
    return {chart.name: chart for chart in charts}


def test_a_simulated_run_shows_its_regret_against_all_references_and_its_arms(tmp_path: Path) -> None:
    charts = by_name(charts_of(simulated(tmp_path / "run")))
    assert list(charts) == ["regret", "share", "messages_over_time", "bytes_over_time"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    ends = {line.label: line.last for line in charts["regret"].series}
    assert ends.pop("this run") == pytest.approx(summary["group_regret"])
    told = [each["group_regret"] for each in summary["yardstick"].values() if isinstance(each, dict) and "what" in each]
    assert list(ends.values()) == pytest.approx(told, abs=1e-5)
    assert [line.dashed for line in charts["regret"].series] == [False, False, False, False, True]
    assert charts["messages_over_time"].series[0].last == summary["messages"]
    shares = np.array([line.y for line in charts["share"].series])
    assert shares.sum(axis=0) == pytest.approx(np.full(shares.shape[1], 100.0))


def test_a_testbed_shows_what_its_agents_reported_and_its_faults_on_every_axis_of_time(tmp_path: Path) -> None:
    charts = by_name(charts_of(as_of_a_testbed(tmp_path / "run")))
    of_agents, over_time = ["epsilon", "messages", "bytes", "dropped"], ["regret", "share", "round_time"]
    over_time += [f"{name}_over_time" for name in of_agents]
    assert list(charts) == [*over_time, *of_agents]
    for name in over_time:
        assert [(mark.at, mark.text) for mark in charts[name].marks] == [(30.0, "agent 2 was killed")]
    assert charts["messages"].series[0].y == (1.0, 11.0, 21.0, 31.0)
    assert charts["bytes"].series[0].y == (7.0, 1007.0, 2007.0, 3007.0)
    assert {line.label: line.y for line in charts["dropped"].series} == {"stale": (0, 1, 2, 3), "malformed": (1,) * 4}
    spent, left = charts["epsilon"].series
    assert (spent.y, left.x, left.y) == ((0.5,) * 4, (0.0,), (1.5,))
    assert charts["messages_over_time"].series[0].x == (0.0, 20.0, 40.0, 60.0)
    assert charts["messages_over_time"].series[0].y == (0.0, 100.0, 200.0, 300.0)
    assert charts["dropped_over_time"].series[0].y == (0.0, 1.0, 2.0, 3.0)
    most, middle, budget = charts["epsilon_over_time"].series
    assert (most.last, middle.last, set(budget.y)) == (pytest.approx(0.3), pytest.approx(0.15), {2.0})
    usual, slowest = charts["round_time"].series
    assert (usual.x, usual.y[0], slowest.y[0]) == ((40.0, 60.0), pytest.approx(175.0), pytest.approx(250.0))


def test_without_logs_the_time_of_a_round_is_that_of_all_together(tmp_path: Path) -> None:
    run = as_of_a_testbed(tmp_path / "run")
    for log in (run / "logs").iterdir():
        log.unlink()
    (line,) = by_name(charts_of(run))["round_time"].series
    assert line.y == pytest.approx((50.0,) * 3)


def test_a_run_under_way_is_shown_as_far_as_half_of_its_agents_are(tmp_path: Path) -> None:
    charts = by_name(charts_of(under_way(tmp_path / "run", pulls=10)))
    assert charts["regret"].series[0].x[-1] == 11.0  # the median of 10 and 12
    assert charts["regret"].series[0].y[9] == pytest.approx(4.0)  # ten pulls of the worse arm
    assert charts["regret"].series[1].label.startswith("lower bound")
    assert "under way" in charts["regret"].note


def test_a_run_under_way_is_held_against_others_on_its_own_streams(tmp_path: Path) -> None:
    place = simulated(tmp_path / "run", agents=2, rounds=40)
    told = {line.label: line for line in by_name(charts_of(place))["regret"].series}
    journal = PullJournal.open(place)
    journal.begin(bytes(8))
    journal.append([(agent, trial, 0, 0) for trial in range(1, 31) for agent in (0, 1)])
    journal.close()
    for name in ("summary.json", "regret.csv", "pulls.npz"):
        (place / name).unlink()
    early = by_name(charts_of(place))["regret"]
    assert "as if every agent made every pull" in early.note
    assert [line.label for line in early.series] == list(told)
    for line in early.series[1:]:
        assert line.y == pytest.approx(told[line.label].y[:30], abs=1e-5)
    (place / "environment.json").write_text(json.dumps({"seed": 8}))
    assert by_name(charts_of(place))["regret"].series[1].y != early.series[1].y, "the environment's seed counts"
    for graph in ("{}", "[" * 9999, '{"nodes": [{"id": 0}], "links": []}'):
        (place / "topology.json").write_text(graph)
        facts = read_facts(place)
        assert facts.left_out or len(facts.references) == 4


def test_an_environment_without_a_launcher_tells_its_arms_and_keeps_its_seed(tmp_path: Path) -> None:
    place = under_way(tmp_path / "run")
    regret = by_name(charts_of(place))["regret"]
    arms = json.loads((place / "manifest.json").read_text())["arms"]
    (place / "manifest.json").unlink()
    (place / "environment.json").write_text(json.dumps({"seed": 424242, "arms": arms}))
    assert by_name(charts_of(place))["regret"].series == regret.series
    assert "424242" not in str(read_facts(place).manifest)


def test_arms_whose_means_nobody_knows_have_shares_and_no_regret(tmp_path: Path) -> None:
    place = simulated(tmp_path / "run")
    manifest = json.loads((place / "manifest.json").read_text())
    (place / "manifest.json").write_text(json.dumps(manifest | {"arms": {"kind": "real", "count": 5}}))
    charts = by_name(charts_of(place))
    chart = charts["share"]
    assert "regret" not in charts
    assert chart.name == "share"
    assert {line.label for line in chart.series} <= {f"arm {number}" for number in range(5)}


def test_a_torn_record_of_a_journal_is_not_there_yet(tmp_path: Path) -> None:
    place = under_way(tmp_path / "run")
    before = charts_of(place)
    with (place / "pulls.journal").open("ab") as file:
        file.write(b"half a rec")
    assert charts_of(place) == before
    with (place / "pulls.journal").open("ab") as file:
        file.write(bytes(22))  # the rest of it, and room that was never used: what is in it is no record
    with pytest.raises(ConfigurationError, match=r"pulls\.journal"):
        charts_of(place)


def test_a_journal_in_the_room_of_a_container_is_found(tmp_path: Path) -> None:
    place = under_way(tmp_path / "run")
    before = charts_of(place)
    (place / "environment").mkdir()
    (place / "pulls.journal").rename(place / "environment" / "pulls.journal")
    assert charts_of(place) == before


def test_a_chart_comes_back_from_json_as_it_was(tmp_path: Path) -> None:
    for chart in charts_of(as_of_a_testbed(tmp_path / "run")):
        assert Chart.from_json(json.loads(json.dumps(chart.as_json(), allow_nan=False))) == chart
    gap = Chart("a", "b", "c", "d", (Series("e", (1.0, 2.0), (math.nan, 3.0)),))
    again = Chart.from_json(json.loads(json.dumps(gap.as_json(), allow_nan=False)))
    assert math.isnan(again.series[0].y[0])


@pytest.mark.parametrize(
    "change",
    [{"series": 7}, {"kind": "pie"}, {"title": None}, {"marks": [{}]}, {"series": [{"label": "a", "x": [1], "y": []}]}],
)
def test_what_is_no_chart_is_refused(change: dict[str, object]) -> None:
    told = Chart("a", "b", "c", "d", ()).as_json()
    with pytest.raises(ValueError, match=r"no |not |needs"):
        Chart.from_json(told | change)


def test_a_long_series_keeps_its_ends_and_a_thousand_points() -> None:
    x = np.arange(50_000.0)
    series = series_of("long", x, np.where(x == 0.0, np.inf, x))
    assert len(series.x) == MOST_POINTS
    assert (series.x[0], series.x[-1], series.last) == (0.0, 49_999.0, 49_999.0)
    assert math.isnan(series.y[0])


def test_many_arms_and_reasons_are_added_up(tmp_path: Path) -> None:
    place = simulated(tmp_path / "run", random_arms=30)
    (place / "reports.json").write_text(
        json.dumps({"reports": [{"agent": 0, "dropped": {f"why {n}": n + 1 for n in range(20)}}]})
    )
    charts = by_name(charts_of(place))
    assert charts["share"].series[-1].label == "the other 22 arms"
    assert charts["dropped"].series[-1].label == "other reasons"
    assert sum(line.y[0] for line in charts["dropped"].series) == 210.0


def test_texts_of_a_hostile_directory_drive_no_terminal(tmp_path: Path) -> None:
    told = json.dumps([chart.as_json() for chart in charts_of(hostile(tmp_path / "run"))], ensure_ascii=False)
    assert "alert(1)" in told  # it is shown, and where it is shown it is escaped
    assert not {"\x1b", "\x07", "\u202e"} & set(told)
    assert MARKUP not in told


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_file_costs_only_what_it_held(tmp_path: Path, seed: int) -> None:
    place = nonsense(tmp_path / "run", np.random.Generator(np.random.Philox(seed)))
    try:
        charts = charts_of(place)
    except ConfigurationError:
        return
    assert all(len(line.x) <= MOST_POINTS for chart in charts for line in chart.series)


def test_pipes_and_links_are_neither_waited_for_nor_followed(tmp_path: Path) -> None:
    facts = read_facts(with_pipes(tmp_path / "run"))
    assert not facts.over
    assert not facts.events
    assert [why.partition(":")[0] for why in facts.left_out] == ["summary.json", "regret.csv"]
    assert charts_of(facts)


def test_a_directory_without_a_run_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no run"):
        charts_of(tmp_path)
    with pytest.raises(ConfigurationError, match="there is no directory"):
        charts_of(tmp_path / "nowhere")


def test_several_runs_share_an_axis_and_tell_how_they_differ(tmp_path: Path) -> None:
    runs = [simulated(tmp_path / name, epsilon=epsilon) for name, epsilon in (("a", 0.5), ("b", 2.0))]
    charts = by_name(compared(runs))
    assert list(charts) == ["regret", "best_arm", "messages_over_time"]
    assert [line.label for line in charts["regret"].series] == ["a", "b"]
    assert dict(differing_settings(runs)) == {"epsilon": ("0.5", "2")}
    more = by_name(compared([*runs, simulated(tmp_path / "c" / "a", agents=6)]))
    assert [line.label for line in more["regret_per_agent"].series] == ["a (1)", "b", "a (3)"]

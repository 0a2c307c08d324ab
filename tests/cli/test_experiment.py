"""agentd experiment writes a figure once, finds its work again, and says plainly what is wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence import until

from agentd.cli import main, progress
from agentd.cli.in_memory import experiment as command
from agentd.core.policy import ALGORITHMS
from agentd.experiment import fig2, figures
from agentd.experiment import report as figure_report
from agentd.experiment.parallel import carry_out
from agentd.runs.regret import group_regret
from agentd.runs.scenario import make_scenario
from agentd.runs.spec import DELTA
from agentd.settings import TestbedSettings
from agentd.simulation.network import run_agents

SMALL = ("--agents", "12", "--edge-probability", "0.4", "--rounds", "40", "--repetitions", "3")


class Cli:
    """The command line, called as a person calls it."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(["experiment", *args])
        out, err = self._capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, out, err

    def summary(self, *args: str) -> dict[str, Any]:
        code, out, err = self(*args, "--json")
        assert (code, err) == (0, "")
        summary: dict[str, Any] = json.loads(out)
        return summary


@pytest.fixture
def painter(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def cli(painter: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Without pictures, which take longer than all the rest."""
    monkeypatch.setattr(figures, "draw", lambda *_, **__: None)
    monkeypatch.setattr(fig2, "draw", lambda *_, **__: None)
    return painter


def numbers_of(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """What must not depend on how the work was shared out."""
    return [{key: value for key, value in series.items() if key != "work_s"} for series in summary["series"]]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("figure", ["fig1a", "fig1b", "fig1c", "fig2"])
def test_one_process_and_two_give_the_same_numbers(cli: Cli, tmp_path: Path, figure: str) -> None:
    one = cli.summary(figure, *SMALL, "--jobs", "1", "--out", str(tmp_path / "one"))
    two = cli.summary(figure, *SMALL, "--jobs", "2", "--out", str(tmp_path / "two"))
    assert numbers_of(one) == numbers_of(two)
    assert one["bounds"] == two["bounds"]
    assert (one["jobs"], two["jobs"]) == (1, 2)
    assert (tmp_path / "one" / f"{figure}.csv").read_bytes() == (tmp_path / "two" / f"{figure}.csv").read_bytes()


def test_the_figure_of_equal_promises_tells_regret_and_traffic_of_each(painter: Cli, tmp_path: Path) -> None:
    code, out, _ = painter("fig2", *SMALL, "--jobs", "1", "--out", str(tmp_path))
    assert code == 0
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    by_name = {series["name"]: series for series in summary["series"]}
    for promise in (0.1, 0.3, 1.0, 3.0):
        sealed, private, alone = (by_name[f"{name}-{promise:g}"] for name in ("sealed", "private-ucb", "dp-ucb-int"))
        assert max(one["composed_epsilon"] for one in (sealed, private, alone)) <= promise
        assert sealed["nominal_epsilon"] == promise
        assert 0 < sealed["messages"] < private["messages"] == by_name["coop-ucb"]["messages"]
        assert sealed["bytes_without_frame_headers"] < sealed["bytes"] < private["bytes"]
        assert alone["messages"] == alone["bytes_without_frame_headers"] == 0
        assert alone["bytes"] == by_name["ucb1"]["bytes"] > 0
    assert by_name["coop-thompson"]["messages"] == by_name["coop-ucb"]["messages"]
    assert f"{by_name['sealed-1']['messages']:,.0f}" in out
    rows = rows_of(tmp_path / "fig2.csv")
    assert [row["composed_epsilon"] for row in rows] == ["0.1", "0.3", "1", "3"] * 3 + ["inf"] * 3
    words = (tmp_path / "fig2.svg").read_text(encoding="utf-8")
    assert words.startswith("<?xml")
    assert (tmp_path / "fig2.png").read_bytes()[:4] == b"\x89PNG"


def test_a_figure_over_rounds_leaves_table_pictures_and_summary(painter: Cli, tmp_path: Path) -> None:
    code, out, _ = painter("fig1a", *SMALL, "--jobs", "1", "--seed", "7", "--epsilon", "0.5", "--out", str(tmp_path))
    assert code == 0
    assert "seeds 7…9: reproducible, not private" in out
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert [series["name"] for series in summary["series"]] == ["private-ucb", "ucb1", "dp-ucb-int", "coop-ucb"]
    assert summary["settings"] == {
        "agents": 12,
        "rounds": 40,
        "repetitions": 3,
        "arms": 5,
        "edge_probability": 0.4,
        "epsilon": 0.5,
        "contamination": 0.001,
    }
    assert (summary["seed"], summary["last_seed"]) == (7, 9)
    assert {"agentd", "numpy", "joblib", "matplotlib"} <= set(summary["versions"])
    assert sum(summary["diameters"].values()) == 3
    for series in summary["series"]:
        assert series["regret_per_agent"] == pytest.approx(series["group_regret"] / 12)
        assert series["group_regret_stderr"] > 0.0
        assert f"{series['group_regret']:,.1f} ± {series['group_regret_stderr']:,.1f}" in out
    private, solo, _, coop = summary["series"]
    assert private["nominal_epsilon"] == 0.5
    assert 0.0 < private["composed_epsilon_at_delta"] < 10.0  # of the schedule, which no arm of a run need come near to
    assert (private["simulated"], private["covers"]) == (True, ALGORITHMS["private-ucb"].covers)
    assert private["delta"] == DELTA
    assert "composed_epsilon" not in coop
    assert solo["gamma"] == "0"
    assert solo["more_than_first"]["group_regret"] == pytest.approx(solo["group_regret"] - private["group_regret"])
    assert [bound["label"] for bound in summary["bounds"]] == ["upper bound of private-ucb", "lower bound of any group"]
    assert (tmp_path / "fig1a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "fig1a.svg").read_text(encoding="utf-8")


def test_the_csv_has_a_row_per_series_and_round(cli: Cli, tmp_path: Path) -> None:
    summary = cli.summary("fig1b", *SMALL, "--jobs", "1", "--out", str(tmp_path))
    rows = rows_of(tmp_path / "fig1b.csv")
    assert list(rows[0]) == ["series", "round", "mean", "stderr", "repetitions"]
    assert len(rows) == 3 * 40
    for series in summary["series"]:
        mine = [row for row in rows if row["series"] == series["name"]]
        assert [int(row["round"]) for row in mine] == list(range(1, 41))
        assert {row["repetitions"] for row in mine} == {"3"}
        assert float(mine[-1]["mean"]) == pytest.approx(series["group_regret"], abs=1e-5)
        assert float(mine[-1]["stderr"]) == pytest.approx(series["group_regret_stderr"], abs=1e-5)
    assert summary["series"][0]["liars"] == 12
    assert summary["series"][2]["liars"] == 0


def test_the_csv_mean_is_the_mean_of_the_kept_repetitions(cli: Cli, tmp_path: Path) -> None:
    cli.summary("fig1b", *SMALL, "--jobs", "1", "--out", str(tmp_path))
    curves = []
    for path in (tmp_path / "parts").iterdir():
        with np.load(path) as part:
            if '"ucb1"' in str(part["description"]):
                curves.append(part["curve"])
    (curve,) = curves
    rows = [row for row in rows_of(tmp_path / "fig1b.csv") if row["series"] == "ucb1"]
    assert [float(row["mean"]) for row in rows] == pytest.approx(curve.mean(axis=0).tolist(), abs=1e-5)
    errors = curve.std(axis=0, ddof=1) / np.sqrt(3)
    assert [float(row["stderr"]) for row in rows] == pytest.approx(errors.tolist(), abs=1e-5)


def test_a_sweep_has_a_row_per_series_and_lifetime(painter: Cli, tmp_path: Path) -> None:
    summary = painter.summary("fig1c", *SMALL, "--jobs", "1", "--out", str(tmp_path))
    longest = max(int(hops) for hops in summary["diameters"])
    assert longest > 1
    rows = rows_of(tmp_path / "fig1c.csv")
    assert list(rows[0]) == ["series", "gamma", "mean", "stderr", "repetitions"]
    for series in summary["series"]:
        mine = [row for row in rows if row["series"] == series["name"]]
        assert [int(row["gamma"]) for row in mine] == list(range(1, longest + 1))
        assert [point["gamma"] for point in series["by_gamma"]] == list(range(1, longest + 1))
        assert [float(row["mean"]) for row in mine] == pytest.approx(
            [point["group_regret"] for point in series["by_gamma"]], abs=1e-5
        )
        assert series["group_regret"] == series["by_gamma"][-1]["group_regret"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "fig1c.csv",
        "fig1c.svg",
        "fig1c.png",
        "summary.json",
        "parts",
    }


def test_many_rounds_are_thinned_and_one_repetition_has_no_error(cli: Cli, tmp_path: Path) -> None:
    flags = ("--agents", "3", "--edge-probability", "1", "--rounds", "1203", "--trials", "1", "--jobs", "1")
    summary = cli.summary("fig1a", *flags, "--out", str(tmp_path))
    rounds = [int(row["round"]) for row in rows_of(tmp_path / "fig1a.csv") if row["series"] == "ucb1"]
    assert len(rounds) == figure_report.POINTS_LIMIT
    assert (rounds[0], rounds[-1]) == (1, 1203)
    assert {row["stderr"] for row in rows_of(tmp_path / "fig1a.csv")} == {""}
    assert summary["series"][0]["group_regret_stderr"] is None
    code, out, _ = cli("fig1a", *flags, "--out", str(tmp_path))
    assert code == 0
    assert "±" not in out.split("series", 1)[1]


def test_a_second_run_does_nothing_again_and_says_so(cli: Cli, tmp_path: Path) -> None:
    flags = ("fig1c", *SMALL, "--jobs", "1", "--out", str(tmp_path))
    first = cli.summary(*flags)
    total = first["units"]["total"]
    assert first["units"] == {"total": total, "resumed": 0, "damaged": 0}
    assert total == len(list((tmp_path / "parts").iterdir()))
    code, out, _ = cli(*flags)
    assert code == 0
    assert f"resumed {total} of {total} units of work" in out


def test_what_is_missing_or_damaged_is_made_again_and_the_numbers_are_the_same(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("fig1a", *SMALL, "--jobs", "1", "--out", str(tmp_path))
    first = cli.summary(*flags)
    made = count_work(monkeypatch)
    missing, damaged, *_ = sorted((tmp_path / "parts").iterdir())
    missing.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-40])
    second = cli.summary(*flags)
    assert len(made) == 2
    assert second["units"] == {"total": 4, "resumed": 2, "damaged": 1}
    assert numbers_of(second) == numbers_of(first)
    third = cli.summary(*flags)
    assert third["units"] == {"total": 4, "resumed": 4, "damaged": 0}


def test_a_damaged_part_is_mentioned(cli: Cli, tmp_path: Path) -> None:
    flags = ("fig1a", *SMALL, "--jobs", "1", "--out", str(tmp_path))
    cli.summary(*flags)
    next((tmp_path / "parts").iterdir()).write_bytes(b"")
    _, out, _ = cli(*flags)
    assert "resumed 3 of 4 units of work" in out
    assert "1 damaged" in out


def test_other_flags_never_use_the_work_of_these(cli: Cli, tmp_path: Path) -> None:
    flags = ("fig1a", *SMALL, "--jobs", "1", "--out", str(tmp_path))
    cli.summary(*flags)
    for change in (("--seed", "1"), ("--edge-probability", "0.5"), ("--rounds", "41")):
        assert cli.summary(*flags, *change)["units"]["resumed"] == 0
    assert cli.summary(*flags, "--contamination", "0.5")["units"]["resumed"] == 4  # there are no liars in this figure


def count_work(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []

    def counted(work: Any, tasks: Iterable[Any], jobs: int) -> Iterator[Any]:
        for done in carry_out(work, tasks, jobs):
            made.append(done)
            yield done

    monkeypatch.setattr(command, "carry_out", counted)
    return made


@pytest.mark.parametrize("how", ["ctrl-c", "sigterm"])
def test_an_interrupt_keeps_what_is_done_and_tells_how_to_go_on(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def interrupted(work: Any, tasks: Iterable[Any], jobs: int) -> Iterator[Any]:
        yield next(iter(carry_out(work, tasks, jobs)))
        if how == "ctrl-c":
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGTERM)

    flags = ("fig1a", *SMALL, "--jobs", "1", "--out", str(tmp_path))
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patched:
        patched.setattr(command, "carry_out", interrupted)
        code, _, err = cli(*flags)
    assert code == 130
    assert len(err.strip().splitlines()) == 1
    assert "the same command goes on" in err
    assert signal.getsignal(signal.SIGTERM) is before
    assert not (tmp_path / "summary.json").exists()
    assert cli.summary(*flags)["units"]["resumed"] == 1


@pytest.mark.system
def test_ctrl_c_on_a_terminal_leaves_no_process_behind(tmp_path: Path) -> None:
    """A terminal sends the signal to everybody in the foreground: parent, workers, helpers of the pool."""
    flags = ("--agents", "60", "--edge-probability", "0.2", "--rounds", "4000", "--repetitions", "40", "--jobs", "2")
    process = subprocess.Popen(
        [sys.executable, "-m", "agentd", "experiment", "fig1b", *flags, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    until(lambda: list(tmp_path.glob("parts/*.npz")) or process.poll() is not None)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert [line for line in err.splitlines() if " of " not in line] == [
        f"interrupted: what is done is kept in {tmp_path / 'parts'}; the same command goes on there"
    ]
    until(lambda: not session_members(process.pid))
    assert not list(tmp_path.glob("parts/*.new"))


def session_members(session: int) -> list[str]:
    """Processes of a session that still run; the dead that nobody has waited for do not count."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _, _, its_session, *_ = rest.split()
        if int(its_session) == session and state not in "ZX":
            found.append(name)
    return found


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("fig9",), "fig9"),
        (("fig1a", "--repetitions", "0"), "--repetitions must be at least 1"),
        (("fig1a", "--trials", "many"), "many"),
        (("fig1a", "--jobs", "0"), "0 is not in the range x>=1"),
        (("fig1a", "--agents", "0"), "--agents"),
        (("fig1a", "--rounds", "0"), "--rounds"),
        (("fig1a", "--epsilon", "0"), "--epsilon"),
        (("fig1a", "--edge-probability", "2"), "--edge-probability"),
        (("fig1b", "--contamination", "-1"), "--contamination"),
        (("fig1a", "--seed", "-1"), "--seed"),
        (("fig1a", "--seed", str(2**64 - 99)), "no room for 100 repetitions"),
        (("fig1a", "--sizzle"), "--sizzle"),
        ((), "fig1a, fig1b, fig1c, fig2"),
    ],
)
def test_flags_that_make_no_sense_are_refused_in_one_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = cli(*flags)
    assert code == 2
    assert out == ""
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_help_lists_the_figures_line_by_line(cli: Cli) -> None:
    code, out, _ = cli("--help")
    assert code == 0
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  fig")]
    assert listed == ["fig1a", "fig1b", "fig1c", "fig2", "fig3", "fig4"]


def test_several_faults_are_named_together(cli: Cli) -> None:
    _, _, err = cli("fig1a", "--trials", "0", "--agents", "0", "--rounds", "0")
    assert all(flag in err for flag in ("--repetitions", "--agents", "--rounds"))


def test_the_last_seed_there_is_can_be_used(cli: Cli, tmp_path: Path) -> None:
    summary = cli.summary("fig1b", *SMALL, "--seed", str(2**64 - 3), "--jobs", "1", "--out", str(tmp_path))
    assert summary["last_seed"] == 2**64 - 1


def test_graphs_that_are_never_connected_are_refused_with_the_cure(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("fig1a", "--agents", "50", "--edge-probability", "0.001", "--out", str(tmp_path))
    assert code == 2
    assert "raise the edge probability" in err


def test_a_place_that_cannot_be_written_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = cli("fig1a", *SMALL, "--out", str(tmp_path / "file"))
    assert code == 78
    assert "--out" in err
    assert len(err.strip().splitlines()) == 1


def test_a_place_that_fails_at_the_end_is_refused_and_the_work_is_kept(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fig1a.csv").mkdir()
    code, _, err = cli("fig1a", *SMALL, "--jobs", "1", "--out", str(tmp_path))
    assert code == 78
    assert str(tmp_path) in err
    (tmp_path / "fig1a.csv").rmdir()
    assert cli.summary("fig1a", *SMALL, "--jobs", "1", "--out", str(tmp_path))["units"]["resumed"] == 4


@pytest.mark.parametrize("package", ["joblib", "matplotlib"])
def test_a_missing_package_is_named_before_any_work(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = cli("fig1a", *SMALL, "--out", str(tmp_path / "new"))
    assert code == 2
    assert package in err
    assert "pip install 'agentd-bandits[analysis]'" in err
    assert not (tmp_path / "new").exists()


def test_results_go_to_figures_by_default_and_variables_stand_in_for_flags(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTD_TRIALS", "2")
    summary = cli.summary("fig1a", *SMALL[:-2], "--jobs", "1")
    assert summary["settings"]["repetitions"] == 2
    assert (tmp_path / "figures" / "fig1a" / "fig1a.csv").exists()


@pytest.mark.parametrize(("figure", "liars"), [("fig1a", 0), ("fig1b", 12)])
def test_a_repetition_is_what_core_agents_do_with_its_seed(cli: Cli, tmp_path: Path, figure: str, liars: int) -> None:
    """The first series of a figure, at repetition 1: the run of `agentd simulate --engine agents` with that seed."""
    cli.summary(figure, *SMALL, "--jobs", "1", "--seed", "70", "--out", str(tmp_path))
    algorithm, arm_range = ("byzantine-ucb", (0.3, 0.7)) if liars else ("private-ucb", (0.0, 1.0))
    settings = TestbedSettings(
        agents=12, edge_probability=0.4, rounds=40, seed=71, algorithm=algorithm, byzantine=liars, arm_range=arm_range
    )
    spec = make_scenario(settings).spec
    expected = group_regret(run_agents(spec).arm, spec.arms.means)
    found = []
    for path in (tmp_path / "parts").iterdir():
        with np.load(path) as part:
            description = json.loads(str(part["description"]))
            mine = description["algorithm"] == algorithm and description["liars"] == bool(liars)
            if mine and 71 in description["seeds"]:
                found.append(part["final"][description["seeds"].index(71)])
    assert found == [expected]


def test_cliques_of_a_power_graph_are_counted() -> None:
    network = command.draw_network(12, 0.4, 77)
    assert command.count_cliques(network, 0) == 12
    assert 1 < command.count_cliques(network, 1) < 12
    assert command.count_cliques(network, network.diameter) == 1


def test_a_log_gets_a_line_every_five_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    lines = progress.Lines("fig1a", 10, clock=lambda: now)
    for done in range(1, 11):
        now = 3.0 * done
        lines.advance()
    assert capsys.readouterr().err.splitlines() == [
        "fig1a: 2 of 10, about 0:24 min left",
        "fig1a: 4 of 10, about 0:18 min left",
        "fig1a: 6 of 10, about 0:12 min left",
        "fig1a: 8 of 10, about 0:06 min left",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.progress("fig1a", 4) as advance:
        advance()
    shown = sys.stderr.getvalue()
    assert "fig1a" in shown
    assert "1/4" in shown


def test_a_terminal_without_rich_gets_lines_and_a_script_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress.progress("fig1a", 4) as advance:
        assert isinstance(getattr(advance, "__self__", None), progress.Lines)
    with progress.progress("fig1a", 4, quiet=True) as advance:
        advance()
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0:00 min"), (75.0, "1:15 min"), (59.7, "1:00 min"), (3600.0, "1:00 h"), (9000.0, "2:30 h")],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text

"""Sweeps: every combination once, the same table to the byte however it came to be, and clear refusals."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from evidence import until

from agentd.cli import cli
from agentd.errors import SettingsError
from agentd.experiment import parallel
from agentd.experiment.parallel import usual_jobs
from agentd.sweeps.combinations import grid
from agentd.sweeps.measuring import COLUMNS, measure
from agentd.sweeps.rows_on_disk import RowStore, write_table
from agentd.sweeps.sweep_picture import draw_sweep
from agentd.sweeps.sweeping import Sweep, carry_out_sweep

SMALL = ("--agents", "4,6", "--edge-probability", "0.8", "--rounds", "30", "--gamma", "1,full", "--repetitions", "3")
CELLS = ("--algorithm", "sealed,coop-thompson,ucb1")


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["sweep", *words])


def rows_of(place: Path) -> list[dict[str, str]]:
    with (place / "sweep.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def base(**changes: Any) -> dict[str, Any]:
    return {"edge_probability": 0.8, "rounds": 20} | changes


def test_every_combination_is_there_once_for_each_repetition(tmp_path: Path) -> None:
    done = run(*SMALL, *CELLS, "--jobs", "1", "--out", str(tmp_path), "--json")
    assert done.exit_code == 0, done.output
    rows = rows_of(tmp_path)
    assert tuple(rows[0]) == COLUMNS
    cells = [(row["agents"], row["gamma"], row["algorithm"], row["repetition"]) for row in rows]
    assert len(cells) == len(set(cells)) == 2 * 2 * 3 * 3
    told = json.loads(done.stdout)
    assert told["varied"] == ["agents", "algorithm", "gamma"]
    assert len(told["combinations"]) == 12
    assert (tmp_path / "sweep.svg").read_text().startswith("<?xml")


def test_a_cell_is_the_run_that_simulate_makes(tmp_path: Path) -> None:
    assert run(*SMALL, *CELLS, "--jobs", "1", "--out", str(tmp_path / "sweep")).exit_code == 0
    row = next(r for r in rows_of(tmp_path / "sweep") if (r["algorithm"], r["agents"]) == ("sealed", "6"))
    flags = ("--agents", "6", "--edge-probability", "0.8", "--rounds", "30", "--gamma", row["gamma"], "--json")
    again = CliRunner().invoke(
        cli, ["simulate", *flags, "--algorithm", "sealed", "--seed", row["seed"], "--run-dir", str(tmp_path / "one")]
    )
    summary = json.loads(again.stdout)
    assert float(row["group_regret"]) == pytest.approx(summary["group_regret"], abs=1e-8)
    assert (int(row["messages"]), int(row["bytes"])) == (summary["messages"], summary["bytes"])
    assert float(row["composed_epsilon"]) == summary["privacy"]["per_agent_epsilon"]
    for column, name in (("alone_per_agent", "alone"), ("lower_bound_per_agent", "lower_bound")):
        assert float(row[column]) == pytest.approx(summary["yardstick"][name]["regret_per_agent"], abs=1e-8)


def test_what_no_arms_are_known_to_beat_and_what_is_too_much_to_play_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (one,) = grid(base(agents=3, reward="beta", algorithm="coop-ucb"), {}, 7)
    assert [row["lower_bound_per_agent"] for row in measure(one, 1)] == [None]
    monkeypatch.setattr("agentd.sweeps.measuring.MOST_WORK", 10)
    assert [row["alone_per_agent"] for row in measure(one, 1)] == [None]


def test_repetitions_meet_the_same_arms_in_every_combination() -> None:
    first, second = grid(base(), {"algorithm": ("sealed", "ucb1")}, 7)
    seeds = [[row["seed"] for row in measure(each, 3)] for each in (first, second)]
    assert seeds[0] == seeds[1] == [7, 8, 9]


@pytest.mark.system
def test_an_interrupted_sweep_goes_on_and_ends_in_the_same_table_to_the_byte(tmp_path: Path) -> None:
    flags = ("--agents", "30,40,50", "--rounds", "300", "--gamma", "1,half,full", "--repetitions", "2")
    command = [sys.executable, "-m", "agentd", "sweep", *flags, *CELLS, "--jobs", "2", "--out"]
    with subprocess.Popen([*command, str(tmp_path / "cut")], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        parts = tmp_path / "cut" / "parts"
        until(lambda: parts.is_dir() and any(parts.iterdir()))
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1].decode()
        assert process.returncode == 130, errors
    assert "the same command goes on there" in errors
    assert not (tmp_path / "cut" / "sweep.csv").exists()
    again = subprocess.run([*command, str(tmp_path / "cut")], capture_output=True, text=True, check=True, timeout=300)
    assert "done before" in again.stdout
    subprocess.run([*command, str(tmp_path / "whole"), "--jobs", "1"], capture_output=True, check=True, timeout=300)
    assert (tmp_path / "cut" / "sweep.csv").read_bytes() == (tmp_path / "whole" / "sweep.csv").read_bytes()


@pytest.mark.parametrize("damage", ["", "[", "[]", "[{}]", "null", '[{"algorithm": 1}]'])
def test_a_damaged_part_is_measured_again(tmp_path: Path, damage: str) -> None:
    sweep = Sweep(grid(base(agents=4), {"algorithm": ("sealed",)}, 1), 2)
    store, measured = RowStore(tmp_path), []
    rows = carry_out_sweep(sweep, store, lambda: measured.append(1))
    (part,) = (tmp_path / "parts").iterdir()
    part.write_text(damage, encoding="utf-8")
    assert carry_out_sweep(sweep, store, lambda: measured.append(1)) == rows
    assert carry_out_sweep(sweep, store, lambda: measured.append(1)) == rows
    assert len(measured) == 2


def test_what_core_agents_must_do_is_said_and_done(tmp_path: Path) -> None:
    flags = ("--agents", "4", "--edge-probability", "1", "--rounds", "20", "--repetitions", "2", "--jobs", "1")
    done = run(*flags, "--algorithm", "sealed,coop-ucb", "--policy", "1=ucb1", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "coop-ucb, sealed: no vectorised twin for this" in done.output
    assert len(rows_of(tmp_path)) == 4


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--agents", "0,4"), "agents 0"),
        (("--agents", "4,x"), "is not a valid integer"),
        (("--algorithm", "sealed,nobody"), "nobody"),
        (("--agents", "4,4"), "names a value twice"),
        (("--agents", "4,6", "--plot", "colour"), "there is no such column"),
        (("--seed", str(2**64 - 1), "--agents", "4"), "leaves no room"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(tmp_path: Path, words: tuple[str, ...], complaint: str) -> None:
    flags = ("--rounds", "5", "--repetitions", "2", "--jobs", "1", "--out", str(tmp_path / "out"))
    done = run(*flags, *words)
    assert done.exit_code != 0
    assert complaint in (done.output + str(done.exception))


def test_a_grid_refuses_settings_that_do_not_exist() -> None:
    with pytest.raises(SettingsError, match="no setting colour"):
        grid({"colour": "red"}, {}, 1)


@pytest.mark.parametrize("axis", ["agents", "algorithm", "gamma"])
def test_a_picture_by_any_axis(tmp_path: Path, axis: str) -> None:
    assert run(*SMALL, *CELLS, "--jobs", "1", "--plot", axis, "--out", str(tmp_path)).exit_code == 0
    assert axis in (tmp_path / "sweep.svg").read_text()


def test_every_column_can_be_an_axis(tmp_path: Path) -> None:
    rows = [row for each in grid(base(agents=4), {"algorithm": ("sealed", "ucb1")}, 1) for row in measure(each, 2)]
    for axis in COLUMNS:
        assert axis in draw_sweep(tmp_path, rows, axis, ("algorithm",)).read_text(encoding="utf-8")


def test_parquet_has_the_rows_of_the_table_and_the_same_types_always(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    types = set()
    for algorithm, seed in (("sealed", 1), ("ucb1", 2**64 - 2)):
        (cell,) = grid(base(agents=4), {"algorithm": (algorithm,)}, seed)
        rows = measure(cell, 2)
        assert write_table(tmp_path, rows) == ["sweep.csv", "sweep.parquet"]
        table = parquet.read_table(tmp_path / "sweep.parquet")
        assert table.to_pylist() == rows
        types.add(str(table.schema))
    assert len(types) == 1


def test_without_joblib_one_process_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usual_jobs() >= 1
    monkeypatch.setattr(parallel, "find_spec", lambda _name: None)
    assert usual_jobs() == 1


@pytest.mark.system
def test_a_policy_that_was_changed_is_measured_again(tmp_path: Path) -> None:
    """The rows of the older one were taken for the newer one's."""
    page = (Path(__file__).parents[2] / "docs" / "writing-a-policy.md").read_text(encoding="utf-8")
    text = page.partition("```python file=greedy.py\n")[2].partition("```")[0]
    command = [sys.executable, "-m", "agentd", "sweep", "--algorithm", "mine.py:EpsilonGreedy", "--agents", "3"]
    command += ["--rounds", "30", "--repetitions", "1", "--jobs", "1", "--out", "out"]
    said, tables = [], []
    for version in (text, text, text.replace("1.645", "0.1")):
        (tmp_path / "mine.py").write_text(version, encoding="utf-8")
        said.append(
            subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=120).stdout
        )
        tables.append((tmp_path / "out" / "sweep.csv").read_bytes())
    assert ["1 done before" in each for each in said] == [False, True, False]
    assert tables[0] == tables[1] != tables[2]

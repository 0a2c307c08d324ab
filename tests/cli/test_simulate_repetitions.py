"""simulate --repetitions: one row for each seed, the same that a run of its own has, and honest means."""

from __future__ import annotations

import csv
import json
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from evidence import until

from agentd.cli import cli
from agentd.sweeps.mean_and_spread import spread_of

SMALL = ("--agents", "5", "--edge-probability", "0.8", "--rounds", "40", "--algorithm", "sealed", "--seed", "3")


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["simulate", *words])


def test_every_repetition_is_the_run_of_its_seed_and_the_mean_is_theirs(tmp_path: Path) -> None:
    told = json.loads(run(*SMALL, "--repetitions", "3", "--run-dir", str(tmp_path / "all"), "--json").stdout)
    regrets = [
        json.loads(run(*SMALL, "--seed", str(seed), "--run-dir", str(tmp_path / str(seed)), "--json").stdout)[
            "regret_per_agent"
        ]
        for seed in (3, 4, 5)
    ]
    with (tmp_path / "all" / "repetitions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["seed"] for row in rows] == ["3", "4", "5"]
    assert [float(row["regret_per_agent"]) for row in rows] == pytest.approx(regrets, abs=1e-8)
    figure = told["figures"]["regret_per_agent"]
    assert figure["mean"] == pytest.approx(statistics.mean(regrets))
    assert figure["standard_deviation"] == pytest.approx(statistics.stdev(regrets))
    assert figure["standard_error"] == pytest.approx(statistics.stdev(regrets) / 3**0.5)
    assert (figure["least"], figure["most"]) == pytest.approx((min(regrets), max(regrets)))
    assert (told["repetitions"], told["seed"], told["last_seed"]) == (3, 3, 5)
    assert json.loads((tmp_path / "all" / "summary.json").read_text(encoding="utf-8"))["figures"] == told["figures"]


def test_people_get_a_table_and_are_told_where_it_is(tmp_path: Path) -> None:
    said = run(*SMALL, "--repetitions", "2", "--run-dir", str(tmp_path / "run")).stdout
    assert said.startswith("2 repetitions of sealed, seeds 3…4\n")
    assert "mean ± s.e." in said
    assert str(tmp_path / "run" / "repetitions.csv") in said


def test_without_a_seed_each_time_is_another(tmp_path: Path) -> None:
    seeds = {
        json.loads(run(*SMALL[:-2], "--repetitions", "2", "--run-dir", str(tmp_path / name), "--json").stdout)["seed"]
        for name in "ab"
    }
    assert len(seeds) == 2


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    assert run(*SMALL, "--repetitions", "0").exit_code == 2
    assert "leave --engine out" in str(run(*SMALL, "--repetitions", "2", "--engine", "agents").exception)
    late = run(*SMALL, "--seed", str(2**64 - 1), "--repetitions", "2")
    assert "no room for 2 repetitions" in str(late.exception)


def test_a_single_value_has_no_spread_and_nothing_has_no_mean() -> None:
    assert spread_of([2.0]) == (2.0, None, None, 2.0, 2.0)
    assert spread_of([None, 1.0, 3.0]) == pytest.approx((2.0, 1.0, 2**0.5, 1.0, 3.0))
    assert spread_of([None]) is None


@pytest.mark.system
def test_an_interrupt_leaves_the_repetitions_that_were_made(tmp_path: Path) -> None:
    flags = ("--agents", "40", "--rounds", "400", "--repetitions", "5000", "--gamma", "1", "--algorithm", "ucb1")
    command = [sys.executable, "-m", "agentd", "simulate", *flags, "--run-dir", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "of 5000" in process.stderr.readline()  # of the progress, which is told after some seconds
        process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted: " in complaint
    made = int(complaint.partition("interrupted: ")[2].partition(" ")[0])
    assert 0 < made < 5000
    assert f"{made} repetitions of ucb1" in said
    until((tmp_path / "run" / "repetitions.csv").is_file)

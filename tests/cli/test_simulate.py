"""agentd simulate: what it says, what it writes, and that it can be repeated."""

from __future__ import annotations

import csv
import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence import until

from agentd import load_run
from agentd.cli import main
from agentd.core.policy import ALGORITHMS
from agentd.runs.regret import group_regret
from topology.graph_files import read

SMALL = ["--agents", "5", "--edge-probability", "0.6", "--rounds", "30", "--random-arms", "3"]
FILES = ["history.jsonl", "manifest.json", "pulls.npz", "regret.csv", "regret.svg", "summary.json", "topology.json"]


class Simulation:
    """One run of the command and the directory it filled."""

    def __init__(self, path: Path, out: str) -> None:
        self.path = path
        self.out = out

    def json(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(
            (self.path / name).read_text(encoding="utf-8"), parse_constant=_no_constant
        )
        return content

    @property
    def pulls(self) -> bytes:
        return (self.path / "pulls.npz").read_bytes()

    def arrays(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        with np.load(self.path / "pulls.npz") as pulls:
            return pulls["arm"], pulls["reward"]


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


class Simulate:
    """Runs the command, each time into a directory of its own."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._path = path
        self._capsys = capsys
        self._runs = 0

    def __call__(self, *flags: str) -> Simulation:
        self._runs += 1
        directory = self._path / f"run-{self._runs}"
        with pytest.raises(SystemExit) as left:
            main(["simulate", *SMALL, "--run-dir", str(directory), *flags])
        out, err = self._capsys.readouterr()
        assert left.value.code == 0, err
        assert err == ""
        return Simulation(directory, out)


@pytest.fixture
def simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Simulate:
    return Simulate(tmp_path, capsys)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("engine", ["agents", "vector"])
def test_the_printed_json_is_the_summary_and_the_summary_keeps_its_promise(
    simulate: Simulate, algorithm: str, engine: str
) -> None:
    run = simulate("--algorithm", algorithm, "--engine", engine, "--json", "--seed", "7")
    summary = run.json("summary.json")
    assert json.loads(run.out, parse_constant=_no_constant) == summary
    assert run.out.count("\n") == 1
    promised = {"algorithm", "agents", "rounds", "gamma", "diameter", "group_regret", "regret_per_agent", "messages"}
    promised |= {"bytes", "dropped", "privacy", "wall_s", "seed", "rounds_made", "interrupted", "settings", "yardstick"}
    promised |= {"honest_regret_per_agent", "diameter_bounds"}
    extra = {"byzantine-ucb": {"estimates_that_fell_back"}, "shielded": {"distrusted"}}.get(algorithm, set())
    assert set(summary) == promised | extra
    assert summary["algorithm"] == algorithm
    assert (summary["agents"], summary["rounds"], summary["seed"]) == (5, 30, 7)
    assert (summary["rounds_made"], summary["interrupted"]) == (30, False)
    assert summary["regret_per_agent"] == pytest.approx(summary["group_regret"] / 5)
    assert summary["dropped"] == {}
    assert (summary["messages"] > 0) == (ALGORITHMS[algorithm].tells is not None)
    assert summary["bytes"] > 0
    assert summary["wall_s"] >= 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_summary_says_what_privacy_was_spent(simulate: Simulate, algorithm: str) -> None:
    enough = ("--rounds", "200") if algorithm == "shielded" else ()  # its first batch, that of its duty, is larger
    words = ("--algorithm", algorithm, "--json", "--epsilon", "0.5", *enough)
    privacy = simulate(*words).json("summary.json")["privacy"]
    assert {"per_agent_epsilon", "delta", "mechanism", "transcript_private"} <= set(privacy)
    assert (privacy["transcript_private"], privacy["simulated"]) == (False, True)
    assert privacy["delta"] == 1e-5
    if ALGORITHMS[algorithm].noised:
        once = ", one release per reward" if algorithm in ("sealed", "shielded") else ""
        assert privacy["mechanism"] == "discrete Laplace" + once
        assert (privacy["per_agent_epsilon"] == 0.5) == (algorithm in ("sealed", "shielded"))
        assert privacy["nominal_epsilon"] == 0.5
        assert 0 < privacy["per_agent_epsilon"] < math.inf
        assert 0 < privacy["epsilon_at_delta"] < math.inf  # of 30 pulls of one arm, which nobody may have made
        assert privacy["releases"] > 0
    else:
        assert privacy["mechanism"] == "none"
        assert privacy["nominal_epsilon"] is None
        assert privacy["per_agent_epsilon"] is None
        assert privacy["releases"] == 0


def test_the_run_directory_is_as_promised(simulate: Simulate) -> None:
    run = simulate("--byzantine", "2", "--seed", "7")
    assert sorted(path.name for path in run.path.iterdir()) == FILES
    arm, reward = run.arrays()
    assert (arm.shape, arm.dtype) == ((5, 30), np.uint16)
    assert (reward.shape, reward.dtype) == ((5, 30), np.int32)
    assert set(np.unique(arm)) <= {0, 1, 2}
    manifest = run.json("manifest.json")
    assert {"created", "runtime", "versions", "settings", "seed", "gamma", "arms", "topology", "liars"} <= set(manifest)
    assert manifest["runtime"] == "simulate/vector"
    assert manifest["seed"] == 7
    assert len(manifest["liars"]) == 2
    assert manifest["settings"]["algorithm"] == "sealed"
    assert {"agentd", "python", "numpy"} <= set(manifest["versions"])
    graph = read(run.path / "topology.json")
    assert graph.nodes == manifest["topology"]["nodes"] == 5
    assert len(graph.edges) == manifest["topology"]["edges"]
    assert run.json("summary.json")["group_regret"] == group_regret(arm, manifest["arms"]["means"])


def test_the_curve_ends_at_the_regret_of_the_summary(simulate: Simulate) -> None:
    run = simulate()
    with (run.path / "regret.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["round"] for row in rows] == [str(number) for number in range(1, 31)]
    assert float(rows[-1]["group_regret"]) == pytest.approx(run.json("summary.json")["group_regret"], abs=1e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_seeded_run_is_the_same_bytes_again_and_in_the_other_engine(simulate: Simulate, algorithm: str) -> None:
    flags = ["--algorithm", algorithm, "--seed", "11", "--byzantine", "1", "--contamination", "0.3"]
    once, again = simulate(*flags), simulate(*flags)
    with_agents = simulate(*flags, "--engine", "agents")
    assert once.pulls == again.pulls == with_agents.pulls
    for name in ("topology.json", "regret.csv", "regret.svg"):
        assert (once.path / name).read_bytes() == (with_agents.path / name).read_bytes()
    summaries = [run.json("summary.json") for run in (once, again, with_agents)]
    for summary in summaries:
        del summary["wall_s"]
    assert summaries[0] == summaries[1] == summaries[2]


def test_the_settings_of_the_manifest_repeat_the_run(simulate: Simulate) -> None:
    first = simulate("--seed", "11", "--reward", "beta", "--gamma", "full")
    settings = first.json("manifest.json")["settings"]
    kept = ("agents", "edge_probability", "rounds", "gamma", "random_arms", "reward", "epsilon", "algorithm", "seed")
    flags = [f"--{name.replace('_', '-')}={settings[name]}" for name in kept]
    assert simulate(*flags).pulls == first.pulls


def test_runs_without_a_seed_differ_and_name_none(simulate: Simulate) -> None:
    one, other = simulate(), simulate()
    assert one.pulls != other.pulls
    for run in (one, other):
        assert run.json("summary.json")["seed"] is None
        assert run.json("manifest.json")["seed"] is None
        assert run.json("manifest.json")["settings"]["seed"] is None
        assert run.json("manifest.json")["privacy_note"].startswith("simulated: ")
        assert run.json("summary.json")["privacy"]["note"].startswith("simulated: ")
        assert "reproducible" not in run.out


def test_a_seeded_run_is_announced_as_reproducible_and_not_private_everywhere(simulate: Simulate) -> None:
    run = simulate("--seed", "3")
    assert "seed 3: reproducible, not private" in run.out
    assert run.json("manifest.json")["privacy_note"].endswith("; reproducible, not private")
    assert run.json("summary.json")["privacy"]["note"].endswith("; reproducible, not private")


def test_a_person_reads_what_ran_and_what_came_of_it(simulate: Simulate) -> None:
    run = simulate("--epsilon", "0.5", "--algorithm", "private-ucb")
    assert run.out.startswith("private-ucb: 5 agents, 3 bernoulli arms, 30 rounds, graph of diameter ")
    for beginning in ("group regret ", "messages ", "privacy ", "took ", f"written to        {run.path}"):
        assert f"\n{beginning}" in run.out
    assert "nominal 0.5" in run.out
    assert "the noised sums, given the sequence of pulls, which itself leaks" in run.out
    assert "dropped" not in run.out


def test_where_nothing_is_noised_nothing_is_said_of_privacy(simulate: Simulate) -> None:
    assert "privacy" not in simulate("--algorithm", "coop-ucb").out


def test_what_agents_dropped_is_shown_by_reason(simulate: Simulate) -> None:
    run = simulate("--engine", "agents", "--byzantine", "5", "--attack", "relay-uniform", "--contamination", "0.9",
                   "--gamma", "full", "--edge-probability", "0.3", "--epsilon", "0.5", "--seed", "5",
                   "--algorithm", "private-ucb")  # fmt: skip
    dropped = run.json("summary.json")["dropped"]
    assert dropped["history"] > 0
    assert f"dropped           history {dropped['history']}" in run.out


def test_redraws_of_the_graph_are_told(simulate: Simulate) -> None:
    run = simulate("--agents", "12", "--edge-probability", "0.15", "--seed", "1")
    redraws = run.json("manifest.json")["topology"]["redraws"]
    assert redraws > 0
    assert f"({redraws} redraws)" in run.out


def test_agents_may_differ_in_their_policy(simulate: Simulate) -> None:
    run = simulate("--engine", "agents", "--policy", "0=ucb1", "--policy", "2=coop-ucb", "--json", "--seed", "2")
    assert run.json("manifest.json")["settings"]["policies"] == {"0": "ucb1", "2": "coop-ucb"}
    # Agent 2 tells exact sums: whatever the others spend, the largest ε of the group has no end.
    assert run.json("summary.json")["privacy"]["per_agent_epsilon"] is None


def test_given_arms_are_the_arms(simulate: Simulate) -> None:
    run = simulate("--arms", "0.9,0.1", "--reward", "uniform")
    assert run.json("manifest.json")["arms"]["means"] == pytest.approx([0.9, 0.1], abs=1e-3)
    assert set(np.unique(run.arrays()[0])) == {0, 1}


def test_the_share_of_estimates_that_fell_back_is_told(simulate: Simulate) -> None:
    """The first estimates stand on a handful of samples, which is too few for the trimmed mean."""
    early = simulate("--algorithm", "byzantine-ucb", "--rounds", "5", "--gamma", "0")
    assert early.json("summary.json")["estimates_that_fell_back"] == 1.0
    late = simulate("--algorithm", "byzantine-ucb", "--rounds", "200", "--seed", "1")
    assert 0.0 < late.json("summary.json")["estimates_that_fell_back"] < 1.0


def test_without_a_name_the_run_goes_below_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["simulate", *SMALL, "--algorithm", "ucb1"])
    (made,) = (tmp_path / "runs").iterdir()
    assert "simulate-ucb1" in made.name
    assert sorted(path.name for path in made.iterdir()) == FILES
    assert "written to" in capsys.readouterr().out


def test_the_table_says_what_sealed_protects(simulate: Simulate) -> None:
    out = simulate("--algorithm", "sealed", "--epsilon", "0.5").out
    assert "ε = 0.5 per reward, against any set of other agents" in out
    assert "r rewards of one person cost r·ε" in out


def test_noise_that_only_processes_draw_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["simulate", "--noise", "opendp"])
    assert left.value.code == 2
    assert "--noise opendp is for agents that are processes" in capsys.readouterr().err


def test_the_result_stands_beside_what_others_would_have_come_to(simulate: Simulate) -> None:
    run = simulate("--algorithm", "sealed", "--seed", "7", "--byzantine", "1")
    yardstick = run.json("summary.json")["yardstick"]
    with (run.path / "regret.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    picture = (run.path / "regret.svg").read_text(encoding="utf-8")
    for name in ("alone", "alone_thompson", "coop_thompson", "lower_bound"):
        regret = yardstick[name]["group_regret"]
        assert f"{regret:,.1f} (" in run.out
        assert float(rows[-1][name]) == pytest.approx(regret, abs=1e-5)
    for words in ("this run", "ucb1, every agent alone", "coop-thompson: every pull", "lower bound of any", "1 liars"):
        assert words in picture
    assert "no agent knows it" in run.out
    assert "settings          5 agents, 3 bernoulli arms, graph of diameter " in run.out


def test_the_settings_that_matter_are_those_that_the_algorithm_reads_or_that_were_turned(simulate: Simulate) -> None:
    settings = simulate("--algorithm", "ucb1").json("summary.json")["settings"]
    assert settings == {"arms": 3, "reward": "bernoulli", "edge_probability": 0.6, "gamma": "half"}
    run = simulate("--algorithm", "coop-ucb", "--sigma", "0.7")
    assert run.json("summary.json")["settings"]["sigma"] == 0.7
    assert "sigma 0.7" in run.out
    assert simulate("--algorithm", "private-ucb").out.count("nominal ε = 1, no seed") == 1
    assert simulate("--algorithm", "sealed").out.count(" ε = 1, no seed") == 1


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("engine", ["agents", "vector"])
def test_an_interrupted_run_reports_the_rounds_that_it_made(tmp_path: Path, engine: str, number: int) -> None:
    place = tmp_path / "run"
    words = ["simulate", *SMALL, "--agents", "2", "--rounds", "2000000", "--engine", engine, "--json"]
    command = [sys.executable, "-m", "agentd", *words, "--run-dir", str(place), "--algorithm", "coop-ucb"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(place.is_dir)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number, err
    assert "stopped before it was done" in err
    summary = json.loads((place / "summary.json").read_text(encoding="utf-8"))
    assert json.loads(out) == summary
    made = summary["rounds_made"]
    assert 0 <= made < summary["rounds"] == 2_000_000
    assert summary["interrupted"] is True
    assert summary["yardstick"]["rounds"] == made
    rows = (place / "regret.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + made
    run = load_run(place)
    assert run.arm.shape == (2, 2_000_000)
    assert len(run.regret) == made
    assert np.isnan(run.reward[:, made:]).all()
    assert (run.arm[:, :made] >= 0).all()

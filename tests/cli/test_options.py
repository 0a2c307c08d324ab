"""Flags, variables and files: who wins, and what a person hears who got one wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentd.cli import main

SMALL = ["--agents", "3", "--edge-probability", "1", "--rounds", "4"]


class Place:
    """The command line, run in a directory of its own."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capsys = capsys

    def run(self, *args: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        with pytest.raises(SystemExit) as left:
            main(list(args))
        out, err = self._capsys.readouterr()
        assert isinstance(left.value.code, int)
        return left.value.code, out, err

    def settings(self, *args: str) -> dict[str, Any]:
        """The settings that a simulation ran with, from its manifest."""
        number = len(list(self.path.glob("run-*")))
        directory = self.path / f"run-{number}"
        code, _, err = self.run("simulate", "--json", "--run-dir", str(directory), *args)
        assert (code, err) == (0, "")
        settings: dict[str, Any] = json.loads((directory / "manifest.json").read_text())["settings"]
        return settings

    def write(self, name: str, text: str) -> str:
        (self.path / name).write_text(text, encoding="utf-8")
        return str(self.path / name)


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, capsys)


def test_a_flag_wins_over_a_variable_a_variable_over_a_file_a_file_over_the_default(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [*SMALL[:4]]
    config = place.write("testbed.toml", "rounds = 5\n")
    assert place.settings(*small)["rounds"] == 1000
    assert place.settings(*small, "--config", config)["rounds"] == 5
    monkeypatch.setenv("AGENTD_ROUNDS", "6")
    assert place.settings(*small, "--config", config)["rounds"] == 6
    assert place.settings(*small, "--config", config, "--rounds", "7")["rounds"] == 7


def test_the_file_itself_may_be_named_by_a_variable(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTD_CONFIG", place.write("testbed.toml", "agents = 3\nedge_probability = 1\nrounds = 5\n"))
    assert place.settings()["rounds"] == 5


def test_a_file_may_set_every_kind_of_flag(place: Place) -> None:
    config = place.write(
        "testbed.toml",
        """
        agents = 4
        edge-probability = 1
        rounds = 5
        gamma = 1
        arms = [0.9, 0.5, 0]
        arm_range = [0.25, 0.75]
        policy = ["1=ucb1", "2=coop-ucb"]
        algorithm = "byzantine-ucb"
        epsilon = 0.5
        engine = "agents"
        seed = 18446744073709551615
        json = true
        """,
    )
    found = place.settings("--config", config)
    expected = {
        "agents": 4,
        "edge_probability": 1.0,
        "rounds": 5,
        "gamma": "1",
        "arms": [0.9, 0.5, 0.0],
        "arm_range": [0.25, 0.75],
        "policies": {"1": "ucb1", "2": "coop-ucb"},
        "algorithm": "byzantine-ucb",
        "epsilon": 0.5,
        "seed": (1 << 64) - 1,
    }
    assert {name: found[name] for name in expected} == expected


def test_a_single_policy_in_a_file_needs_no_list(place: Place) -> None:
    config = place.write("testbed.toml", 'policy = "1=ucb1"\nengine = "agents"\n')
    assert place.settings(*SMALL, "--config", config)["policies"] == {"1": "ucb1"}


def test_variables_are_named_like_the_flags(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTD_POLICY", "1=ucb1 2=coop-ucb")
    monkeypatch.setenv("AGENTD_ENGINE", "agents")
    monkeypatch.setenv("AGENTD_ARM_RANGE", "0.25,0.5")
    monkeypatch.setenv("AGENTD_EDGE_PROBABILITY", "0.9")
    found = place.settings("--agents", "3", "--rounds", "4")
    assert found["policies"] == {"1": "ucb1", "2": "coop-ucb"}
    assert found["arm_range"] == [0.25, 0.5]
    assert found["edge_probability"] == 0.9


def test_json_may_be_asked_for_by_a_variable(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTD_JSON", "1")
    code, out, _ = place.run("simulate", *SMALL, "--run-dir", "here")
    assert code == 0
    assert json.loads(out)["rounds"] == 4


WRONG_FLAGS = [
    (["--frobnicate"], 2, "No such option '--frobnicate'"),
    (["--algorithm", "ucb2"], 2, "'ucb2' is not one of 'ucb1', 'dp-ucb-int', 'coop-ucb', 'coop-thompson'"),
    (["--epsilon", "0"], 2, "--epsilon must be positive"),
    (["--epsilon", "-1"], 2, "--epsilon must be positive"),
    (["--epsilon", "nan"], 2, "--epsilon must be positive"),
    (["--epsilon", "much"], 2, "'much' is not a valid float"),
    (["--gamma", "-1"], 2, "--gamma must be a number of hops ≥ 0, 'half' or 'full', got '-1'"),
    (["--gamma", "some"], 2, "--gamma must be a number of hops"),
    (["--edge-probability", "1.5"], 2, "--edge-probability must be in [0, 1]"),
    (["--contamination", "-0.5"], 2, "--contamination must be a probability in [0, 1]"),
    (["--agents", "0"], 2, "--agents must be in 1…1048576"),
    (["--agents", "3.7"], 2, "'3.7' is not a valid integer"),
    (["--agents", "5000", "--edge-probability", "0.01"], 2, "the diameter of a graph of 5000 agents is not computed"),
    (["--edge-probability", "0"], 2, "error: "),
    (["--rounds", "0"], 2, "--rounds must be in 1…"),
    (["--arms", "0.5,1.5"], 2, "--arms: the mean of arm 1 must be in [0, 1]"),
    (["--arms", "0.5,high"], 2, "'0.5,high' is not a list of numbers like 0.9,0.8,0.5"),
    (["--arms", ""], 2, "is not a list of numbers"),
    (["--random-arms", "0"], 2, "the number of arms must be in 1…1024"),
    (["--arm-range", "0.7,0.3"], 2, "--arm-range must lie within [0, 1], low before high"),
    (["--arm-range", "0.7"], 2, "'0.7' is not a range like 0.3,0.7"),
    (["--reward", "coin"], 2, "'coin' is not one of 'bernoulli', 'beta', 'uniform', 'normal'"),
    (["--attack", "best"], 2, "unknown attack 'best'"),
    (["--byzantine", "4"], 2, "--byzantine must be in 0…3"),
    (["--seed", "-1"], 2, "--seed must be in [0, 2^64)"),
    (["--policy", "ucb1"], 2, "'ucb1' is not of the form 3=ucb1"),
    (["--policy", "²=ucb1"], 2, "is not of the form 3=ucb1"),
    (["--policy", "9" * 5000 + "=ucb1"], 2, "is not of the form 3=ucb1"),
    (["--policy", "7=ucb1"], 2, "--policy names agent 7, but agents are numbered 0…2"),
    (["--policy", "1=ucb2"], 2, "unknown algorithm 'ucb2'"),
    (["--policy", "1=ucb1", "--engine", "vector"], 2, "without --policy overrides; use --engine agents"),
    (
        ["--byzantine", "1", "--attack", "relay-worst", "--engine", "vector"],
        2,
        "cannot corrupt messages on their way; use --engine agents",
    ),
    (["--run-dir"], 2, "Option '--run-dir' requires an argument"),
    (["surplus"], 2, "unexpected extra argument"),
]


def assert_one_line(err: str, sentence: str) -> None:
    assert err.startswith("error: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert sentence in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("flags", "code", "sentence"), WRONG_FLAGS, ids=lambda value: str(value)[:40])
def test_a_wrong_flag_is_told_in_one_line_and_nothing_is_written(
    place: Place, flags: list[str], code: int, sentence: str
) -> None:
    left, out, err = place.run("simulate", *SMALL, *flags)
    assert (left, out) == (code, "")
    assert_one_line(err, sentence)
    assert list(place.path.iterdir()) == []


def test_several_faults_are_told_together(place: Place) -> None:
    _, _, err = place.run("simulate", "--agents", "0", "--epsilon", "0", "--v", "3")
    assert_one_line(err, "--agents must be")
    assert all(flag in err for flag in ("--epsilon", "--v"))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("bad.edges", "0 1\n1 one\n", "bad.edges"),
        ("loop.edges", "0 1\n1 1\n", "line 2 joins node 1 to itself"),
        ("split.edges", "0 1\n2 3\n", "the graph falls into 2 components (0 1; 2 3)"),
        ("bad.json", "{", "bad.json"),
        ("bad.graphml", "<graph", "bad.graphml"),
        ("graph.dot", "graph {}", "no graph format ends in"),
    ],
)
def test_a_topology_file_that_cannot_be_used_is_told_in_one_line(
    place: Place, name: str, content: str, sentence: str
) -> None:
    code, out, err = place.run("simulate", "--rounds", "4", "--topology", place.write(name, content))
    assert (code, out) == (78, "")
    assert_one_line(err, sentence)
    assert [path.name for path in place.path.iterdir()] == [name]


def test_a_topology_file_that_is_not_there_is_told_in_one_line(place: Place) -> None:
    code, out, err = place.run("simulate", "--topology", "no-such.edges")
    assert (code, out) == (78, "")
    assert_one_line(err, "cannot read no-such.edges")


def test_a_topology_file_decides_who_there_is(place: Place) -> None:
    ring = place.write("ring.edges", "\n".join(f"{node} {(node + 1) % 30}" for node in range(30)) + "\n")
    found = place.settings("--topology", ring, "--rounds", "3", "--byzantine", "25")
    assert found["agents"] == 30
    code, _, err = place.run("simulate", "--topology", ring, "--rounds", "3", "--byzantine", "31")
    assert code == 2
    assert_one_line(err, "ring.edges has 30 agents: --byzantine must be in 0…30")


@pytest.mark.parametrize("where", ["file/below", "file", "full", "/proc/no-such-place"])
def test_a_run_directory_that_cannot_be_used_is_told_in_one_line(place: Place, where: str) -> None:
    place.write("file", "")
    (place.path / "full").mkdir()
    place.write("full/thesis.tex", "do not lose me")
    code, out, err = place.run("simulate", *SMALL, "--run-dir", where)
    assert (code, out) == (78, "")
    assert_one_line(err, "--run-dir")


@pytest.mark.parametrize(
    ("content", "code", "sentence"),
    [
        ("agents = ", 78, "cannot read the configuration"),
        ("agnets = 3", 78, "testbed.toml, line 1: agnets is nothing that agentd simulate knows; did you mean agents?"),
        ("config = 'other.toml'", 78, "line 1: config is nothing that agentd simulate knows"),
        ("policies = ['1=ucb1']", 78, "line 1: policies is nothing that agentd simulate knows"),
        ("agents = 3.7", 78, "testbed.toml, line 1: agents: '3.7' is not a valid integer"),
        ("\n# a comment\nagents = true", 78, "testbed.toml, line 3: agents: 'True' is not a valid integer"),
        ("agents = [3]", 78, "agents: takes one value, not a list"),
        ("agents = {number = 3}", 78, "agents: takes a value, not a table"),
        ("arms = ['high', 0.5]", 78, "'high,0.5' is not a list of numbers"),
        ("arms = [[0.5]]", 78, "takes no table and no list within another"),
        ("arm-range = [0.5]", 78, "is not a range like 0.3,0.7"),
        ("policy = [1]", 78, "'1' is not of the form 3=ucb1"),
        ("algorithm = 'ucb2'", 78, "'ucb2' is not one of"),
        ("epsilon = nan", 78, "testbed.toml, line 1: --epsilon must be positive"),
        ("json = 'perhaps'", 78, "is not a valid boolean"),
    ],
)
def test_a_file_is_held_to_what_flags_are_held_to(place: Place, content: str, code: int, sentence: str) -> None:
    config = place.write("testbed.toml", content + "\n")
    left, out, err = place.run("simulate", "--edge-probability", "1", "--config", config)
    assert (left, out) == (code, "")
    assert_one_line(err, sentence)


@pytest.mark.parametrize("name", ["no-such.toml", "."])
def test_a_file_that_cannot_be_read_is_told_in_one_line(place: Place, name: str) -> None:
    code, out, err = place.run("simulate", "--config", name)
    assert (code, out) == (78, "")
    assert_one_line(err, "cannot read the configuration")


def test_a_file_that_is_no_text_is_told_in_one_line(place: Place) -> None:
    (place.path / "noise.toml").write_bytes(b"\xff\xfe\x00")
    code, _, err = place.run("simulate", "--config", "noise.toml")
    assert code == 78
    assert_one_line(err, "cannot read the configuration noise.toml")


def test_a_wrong_variable_is_told_by_its_name(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTD_ROUNDS", "many")
    code, out, err = place.run("simulate")
    assert (code, out) == (78, "")
    assert_one_line(err, "AGENTD_ROUNDS: 'many' is not a valid integer")


def test_who_types_the_name_alone_is_shown_the_help(place: Place) -> None:
    code, out, err = place.run()
    assert (code, err) == (0, "")
    assert out.startswith("Usage: agentd")
    assert "simulate" in out

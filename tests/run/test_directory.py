"""The run directory: where it may be, and what it keeps of a run."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from agentd.errors import ConfigurationError
from agentd.runs.directory import RunDirectory, finite
from agentd.runs.regret import NOT_PULLED, regret_curve

ARM = np.array([[0, 1, 1], [1, 0, NOT_PULLED]], dtype=np.uint16)
REWARD = np.array([[0, 5, 9], [7, 0, -1]], dtype=np.int32)
MEANS = (0.9, 0.4)


def test_a_new_directory_is_made_with_all_that_leads_to_it(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path / "a" / "b", "run")
    assert directory.path == tmp_path / "a" / "b"
    assert directory.path.is_dir()


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    assert RunDirectory.create(str(tmp_path), "run").path == tmp_path


def test_without_a_name_each_run_gets_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = RunDirectory.create(None, "simulate-ucb1"), RunDirectory.create(None, "simulate-ucb1")
    assert one.path != other.path
    assert one.path.parent == Path("runs")
    assert "simulate-ucb1" in one.path.name


def test_a_place_that_holds_something_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("do not lose me")
    with pytest.raises(ConfigurationError, match=r"is not empty; name a new one with --run-dir"):
        RunDirectory.create(tmp_path, "run")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", ["file", "file/below", "/proc/no/such/place"])
def test_a_place_that_cannot_be_made_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot use .* as run directory: .*; name another with --run-dir"):
        RunDirectory.create(tmp_path / name, "run")


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests as root may write everywhere, so the answer of the system is replaced."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigurationError, match="not writable") as fault:
        RunDirectory.create(tmp_path, "run")
    assert fault.value.exit_code == 78


def test_json_has_no_infinities_and_keeps_letters(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_json("summary.json", {"ε": float("inf"), "deep": [1, (float("nan"), {"x": -float("inf")})], "n": 2})
    text = (tmp_path / "summary.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"ε": None, "deep": [1, [None, {"x": None}]], "n": 2}
    assert "ε" in text
    assert text.endswith("}\n")


def test_what_is_finite_stays_as_it_is() -> None:
    assert finite({"a": [1, 2.5, "x", None, True]}) == {"a": [1, 2.5, "x", None, True]}


def test_pulls_come_back_as_they_were(tmp_path: Path) -> None:
    RunDirectory(tmp_path).write_pulls(ARM, REWARD)
    with np.load(tmp_path / "pulls.npz") as pulls:
        assert sorted(pulls) == ["arm", "reward"]
        assert pulls["arm"].dtype == np.uint16
        assert pulls["reward"].dtype == np.int32
        assert np.array_equal(pulls["arm"], ARM)
        assert np.array_equal(pulls["reward"], REWARD)


def test_the_same_pulls_give_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("one", "other"):
        directory = RunDirectory.create(tmp_path / name, "run")
        directory.write_pulls(ARM, REWARD)
        written.append((directory.path / "pulls.npz").read_bytes())
    assert written[0] == written[1]


def test_regret_is_written_as_a_table_and_a_picture(tmp_path: Path) -> None:
    curve = RunDirectory(tmp_path).write_regret(ARM, MEANS, "Group regret", [(2, "agent 1 down")])
    assert curve.tolist() == regret_curve(ARM, MEANS).tolist()
    with (tmp_path / "regret.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["round", "group_regret"], ["1", "0.500000"], ["2", "1.000000"], ["3", "1.500000"]]
    picture = ElementTree.parse(tmp_path / "regret.svg").getroot()  # noqa: S314 - our own file
    assert picture.tag.endswith("svg")
    assert "agent 1 down" in (tmp_path / "regret.svg").read_text(encoding="utf-8")


def test_nothing_half_written_is_left_behind(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_json("manifest.json", {})
    directory.write_pulls(ARM, REWARD)
    directory.write_regret(ARM, MEANS, "Group regret")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "manifest.json",
        "pulls.npz",
        "regret.csv",
        "regret.svg",
    ]

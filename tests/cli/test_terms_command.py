"""agentd terms: make and show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentd.cli import cli
from agentd.core.terms import Clock, PolicyTerms
from agentd.errors import SettingsError
from agentd.terms_file import read_terms_file
from agentd.wire.terms_digest import digest


def invoke(*words: str) -> Result:
    return CliRunner().invoke(cli, ["terms", *words])


def made(tmp_path: Path, *words: str) -> Path:
    path = tmp_path / "terms.json"
    done = invoke("make", *words, "--out", str(path))
    assert done.exit_code == 0, done.output
    return path


def test_what_the_flags_say_is_agreed_on(tmp_path: Path) -> None:
    words = ["--agents", "5", "--arms", "3", "--rounds", "10", "--gamma", "1", "--policy", "3=ucb1", "--epsilon", "0.5"]
    terms = read_terms_file(made(tmp_path, *words))
    assert (terms.arms, terms.horizon, terms.lifetime, terms.clock, terms.interval_us) == (3, 10, 1, Clock.LOCKSTEP, 0)
    assert terms.policies == (
        PolicyTerms("sealed", 4, 0.5, None, ((0, 2), (4, 4))),
        PolicyTerms("ucb1", 0, None, None, ((3, 3),)),
    )
    assert terms.start_ms > 0
    assert terms.left_open() == ()


def test_the_run_is_always_a_fresh_one_and_the_beacon_may_be_repeated(tmp_path: Path) -> None:
    first, second, third = (
        read_terms_file(made(tmp_path, "--agents", "2", "--arms", "2", *seed))
        for seed in (["--seed", "7"], ["--seed", "7"], [])
    )
    assert first.beacon == second.beacon != third.beacon
    assert first.run != second.run


def test_ids_may_be_any(tmp_path: Path) -> None:
    terms = read_terms_file(
        made(tmp_path, "--ids", "7,0-2,65535", "--arms", "2", "--clock", "free", "--interval", "0.25")
    )
    assert list(terms.ids()) == [0, 1, 2, 7, 65_535]
    assert (terms.clock, terms.interval_us) == (Clock.FREE, 250_000)


def test_without_a_file_they_are_printed(tmp_path: Path) -> None:
    done = invoke("make", "--agents", "2", "--arms", "2")
    path = tmp_path / "printed.json"
    path.write_text(done.stdout, encoding="utf-8")
    assert list(read_terms_file(path).ids()) == [0, 1]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--arms", "2"], "either --agents or --ids"),
        (["--arms", "2", "--agents", "2", "--ids", "1"], "either --agents or --ids"),
        (["--arms", "0", "--agents", "0", "--seed", "-1"], "--agents must be .*--arms must be .*--seed must be"),
        (["--arms", "2", "--agents", "2", "--epsilon", "0", "--v", "2"], "--epsilon must be .*--v must"),
        (["--arms", "2", "--agents", "2", "--policy", "5=ucb1"], "--policy names agent 5, who does not take part"),
        (["--arms", "2", "--agents", "2", "--policy", "1=magic"], "unknown algorithm 'magic'"),
        (["--arms", "2", "--ids", ",".join(str(2 * n) for n in range(1025))], "break the protocol: ids: shape"),
    ],
    ids=range(7),
)
def test_flags_that_make_no_sense_are_refused(words: list[str], complaint: str) -> None:
    done = invoke("make", *words)
    assert isinstance(done.exception, SettingsError)
    with pytest.raises(SettingsError, match=complaint):
        raise done.exception


@pytest.mark.parametrize("ids", ["", "a", "3-1", "1-2-3", "-1", "65536", "1,,2", "٣"])
def test_ids_that_are_none_are_refused(ids: str) -> None:
    done = invoke("make", "--arms", "2", "--ids", ids)
    assert done.exit_code == 2
    assert "is not an id or a range of ids" in done.output


def test_a_table_shows_what_is_agreed_on_and_the_digest(tmp_path: Path) -> None:
    path = made(tmp_path, "--agents", "5", "--arms", "3", "--policy", "3=ucb1")
    lines = invoke("show", str(path)).output.splitlines()
    assert lines[0] == f"digest     {digest(read_terms_file(path))}"
    assert "rounds     no end" in lines
    assert "agents     0…2, 4: sealed, ε 1" in lines
    assert lines[-1] == "agents     3: ucb1"


def test_what_is_open_is_said(tmp_path: Path) -> None:
    path = made(tmp_path, "--agents", "1", "--arms", "3")
    plain = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(plain | {"policies": [], "lifetime": None, "clock": None}), encoding="utf-8")
    expected = "invented origins, bodies of other kinds, other lifetimes, trials of the future"
    lines = invoke("show", str(path)).output.splitlines()
    assert lines[-2:] == ["agents     whoever comes", f"open run: agents cannot refuse {expected}"]
    shown = json.loads(invoke("show", str(path), "--json").output)
    assert shown["cannot_refuse"] == expected.split(", ")
    assert shown["digest"] == digest(read_terms_file(path))

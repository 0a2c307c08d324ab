"""agentd audit as a person types it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from agentd.audit.matrix import matrix
from agentd.audit.planted_faults import FAULTS
from agentd.cli.audit import audit
from agentd.errors import SettingsError


def run(*flags: str) -> tuple[int, str]:
    result = CliRunner().invoke(audit, list(flags), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert isinstance(result.return_value, int)
    return result.return_value, result.stdout


@pytest.mark.usefixtures("repeatable_noise")
def test_a_sound_algorithm_holds_and_the_report_says_what_was_looked_at() -> None:
    code, said = run("--runs", "100", "--processes", "1", "--no-adversary", "--seed", "3")
    assert code == 0
    assert said.startswith("holds: sealed, K = 2, ε = 1, no adversary")
    for family in ("counts", "arms", "values", "differences", "low bits", "times"):
        assert f"\n{family}" in said


def test_a_planted_fault_ends_with_1_and_names_the_event() -> None:
    code, said = run("--runs", "200", "--processes", "2", "--fault", "no-noise", "--no-adversary", "--json")
    found = json.loads(said)
    assert code == 1
    assert found["verdict"] == "violated"
    assert found["p"] < 1e-6
    assert found["findings"][0]["event"]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--epsilon", "0"), "--epsilon must be positive"),
        (("--arms", "1"), "--arms must be in 2"),
        (("--runs", "3"), "--runs must be at least"),
        (("--processes", "0"), "must be positive"),
        (("--seed", "-1"), "--seed must be in"),
        (("--fault", "no-noise", "--algorithm", "private-ucb"), "leave --algorithm out"),
    ],
)
def test_senseless_flags_are_refused_before_anything_runs(flags: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        run(*flags)


def test_the_matrix_holds_every_fault_and_sealed_in_every_situation() -> None:
    entries = matrix(1.0, 0)
    assert {entry.case.fault for entry in entries if entry.case.fault} == set(FAULTS)
    sound = [entry.case for entry in entries if not entry.violated]
    assert {(case.arms, case.adversary, case.restart) for case in sound} == {
        *((arms, adversary, False) for arms in (2, 5) for adversary in (False, True)),
        (2, True, True),
    }


@pytest.mark.usefixtures("repeatable_noise")
def test_the_matrix_says_what_is_not_as_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 200 runs half the noise is not found yet: the table says so and the exit code too."""
    some = [entry for entry in matrix(1.0, 5) if entry.name in {"no-noise", "half-noise", "sealed, K = 2"}]
    monkeypatch.setattr("agentd.cli.audit.matrix", lambda epsilon, seed: some)
    code, said = run("--all", "--runs", "200", "--processes", "1")
    head, none, half, sealed = said.splitlines()
    assert code == 1
    assert head.split()[:2] == ["expected", "verdict"]
    assert none.split()[:3] == ["no-noise", "violated", "violated"]
    assert half.endswith("← NOT AS EXPECTED")
    assert sealed.startswith("sealed, K = 2")
    assert "NOT AS EXPECTED" not in none + sealed
    code, said = run("--all", "--runs", "200", "--processes", "1", "--json")
    assert [entry["as_expected"] for entry in json.loads(said)["entries"]] == [True, False, True]
    assert code == 1

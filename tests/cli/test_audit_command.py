"""agentd audit as a person types it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from agentd.audit.matrix import Coupled, couplings, matrix, sources
from agentd.audit.planted_faults import COUPLED, FAULTS, SOURCE_FAULTS
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
    code, said = run("--runs", "200", "--processes", "1", "--no-adversary", "--seed", "3")
    assert code == 0
    assert said.startswith("holds: sealed, K = 2, ε = 1, no adversary")
    assert "so many runs can refute an ε up to 1.71" in said
    for family in ("counts", "arms", "values", "differences", "low bits", "fields", "frames", "times"):
        assert f"\n{family}" in said


def test_a_planted_fault_ends_with_1_and_names_the_event() -> None:
    code, said = run("--runs", "200", "--processes", "2", "--fault", "no-noise", "--no-adversary", "--json")
    found = json.loads(said)
    assert code == 1
    assert found["verdict"] == "violated"
    assert found["p"] < 1e-6
    assert found["findings"][0]["event"]


@pytest.mark.usefixtures("repeatable_noise")
def test_a_claim_that_the_runs_cannot_refute_ends_with_3_and_names_the_ceiling() -> None:
    flags = ("--epsilon", "8", "--fault", "no-noise", "--no-adversary", "--runs", "100", "--processes", "1")
    code, said = run(*flags, "--seed", "3")
    assert code == 3
    assert said.startswith("cannot tell: sealed, K = 2, ε = 8")
    assert "--sampler" in said
    code, said = run(*flags, "--seed", "3", "--json")
    assert (code, json.loads(said)["verdict"]) == (3, "cannot tell")
    assert json.loads(said)["ceiling"] == pytest.approx(0.93, abs=0.01)


def test_the_noise_that_no_runs_can_refute_is_refuted_exactly() -> None:
    assert run("--sampler")[0] == 0
    code, said = run("--sampler", "--fault", "no-noise")
    assert code == 1
    assert said.splitlines()[1].startswith("draw 1, of arm")
    assert json.loads(run("--sampler", "--fault", "half-noise-later", "--json")[1])["verdict"] == "differs"


def test_a_coupling_says_how_much_it_could_have_seen() -> None:
    code, said = run("--coupling", "--worlds", "10", "--seed", "5", "--processes", "1")
    assert code == 0
    assert said.startswith("identical: sealed, worlds 0…9 of seed 5\n")
    assert "0 of 10 differ\nwithout any shift: " in said


def test_what_differs_is_named_with_the_way_to_see_it_again() -> None:
    code, said = run("--coupling", "--worlds", "10", "--seed", "5", "--processes", "1", "--fault", "logged-reward")
    assert code == 1
    (first,) = [line for line in said.splitlines() if line.startswith("first in world ")]
    (again,) = [line for line in said.splitlines() if line.startswith("again: agentd audit ")]
    code, said = run(*again.removeprefix("again: agentd audit ").split(), "--processes", "1")
    assert code == 1
    assert first in said.splitlines()


def test_an_algorithm_that_does_not_claim_it_is_expected_to_differ() -> None:
    for name, why in (("private-ucb", "follows from raw rewards"), ("dp-ucb-int", "what the ledger adds up")):
        code, said = run("--coupling", "--worlds", "15", "--seed", "5", "--processes", "1", "--algorithm", name)
        assert code == 1
        assert f"expected: {name} does not claim a private transcript" in said
        assert why in said


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--epsilon", "0"), "--epsilon must be positive"),
        (("--arms", "1"), "--arms must be in 2"),
        (("--runs", "3"), "--runs must be at least"),
        (("--processes", "0"), "must be positive"),
        (("--seed", "-1"), "--seed must be in"),
        (("--fault", "no-noise", "--algorithm", "private-ucb"), "leave --algorithm out"),
        (
            ("--algorithm", "sealedd"),
            "no algorithm 'sealedd'; those that claim privacy are dp-ucb-int, private-ucb, sealed",
        ),
        (("--algorithm", "ucb1"), "ucb1 claims no privacy"),
        (("--algorithm", "dp-ucb-int"), "audit it with --coupling"),
        (("--worlds", "5"), "about --coupling"),
        (("--coupling", "--worlds", "0"), "--worlds must be positive"),
        (("--coupling", "--all"), "choose one"),
        (("--sampler", "--fault", "raw-choices"), "the source of noise has no raw-choices"),
    ],
)
def test_senseless_flags_are_refused_before_anything_runs(flags: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        run(*flags)


def test_the_matrix_holds_every_fault_and_sealed_in_every_situation() -> None:
    entries = matrix(1.0, 0)
    by_coupling = {coupled.fault for coupled in couplings() if coupled.expected == "differs"}
    assert {entry.case.fault for entry in entries if entry.case.fault} | by_coupling >= set(FAULTS)
    assert by_coupling >= set(COUPLED)
    assert {fault for fault, expected in sources() if expected == "differs"} == set(SOURCE_FAULTS)
    sound = [entry.case for entry in entries if entry.expected == "holds"]
    assert {(case.arms, case.adversary, case.restart) for case in sound} == {
        *((arms, adversary, False) for arms in (2, 5) for adversary in (False, True)),
        (2, True, True),
    }
    assert [entry.case.epsilon for entry in entries if entry.expected == "cannot tell"] == [8.0]


@pytest.mark.usefixtures("repeatable_noise")
def test_the_matrix_says_what_is_not_as_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 200 runs half the noise is not found yet: the table says so and the exit code too."""
    some = [entry for entry in matrix(1.0, 5) if entry.name in {"no-noise", "half-noise", "sealed, K = 2"}]
    monkeypatch.setattr("agentd.cli.audit.matrix", lambda epsilon, seed: some)
    monkeypatch.setattr("agentd.cli.audit.couplings", lambda: [Coupled("sealed", "sealed", None, 5, "identical")])
    code, said = run("--all", "--runs", "200", "--processes", "1", "--seed", "5")
    lines = said.splitlines()
    assert code == 1
    assert [line.split("  ")[0] for line in lines if "expected     verdict" in line] == [
        *("the noise, exactly", "statistics", "coupling"),
    ]
    places = {line[:28].strip(): line for line in lines}
    assert places["no-noise"].split()[1:3] == ["violated", "violated"]
    assert [name for name, line in places.items() if line.endswith("← NOT AS EXPECTED")] == ["half-noise"]
    code, said = run("--all", "--runs", "200", "--processes", "1", "--seed", "5", "--json")
    found = json.loads(said)["entries"]
    assert [entry["name"] for entry in found if not entry["as_expected"]] == ["half-noise"]
    assert {entry["by"] for entry in found} == {"the noise, exactly", "statistics", "coupling"}
    assert code == 1

"""A budget below what the first release costs is refused before anything runs, with the figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from agentd.cli import cli

AGENT = ("--id", "1", "--listen", "tcp://127.0.0.1:1", "--environment", "tcp://127.0.0.1:2", "--state", "state")
TESTBED = ("--agents", "3", "--edge-probability", "1", "--rounds", "20")
VERBS = {
    "agent": AGENT,
    "up": ("up", *TESTBED, "--run-dir", "run"),
    "compose": ("compose", *TESTBED),
    "manifests": ("manifests", "kubernetes", *TESTBED),
}
TOO_SMALL = [
    (("--algorithm", "sealed", "--epsilon", "1", "--epsilon-budget", "0.5"), "sealed costs (ε = 1,"),
    (("--algorithm", "sealed", "--epsilon", "1", "--epsilon-budget", "0.999999"), "sealed costs (ε = 1,"),
    (("--algorithm", "private-ucb", "--epsilon", "1", "--epsilon-budget", "0.9"), "private-ucb costs (ε = 1,"),
    (("--algorithm", "dp-ucb-int", "--epsilon", "0.25", "--epsilon-budget", "0.4"), "dp-ucb-int costs (ε = 0.466517,"),
]


@pytest.mark.parametrize(("words", "said"), TOO_SMALL)
@pytest.mark.parametrize("verb", VERBS)
def test_it_is_refused_with_what_it_would_take(
    verb: str, words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, [*VERBS[verb], *words])
    told = str(result.exception) + result.output
    assert getattr(result.exception, "exit_code", result.exit_code) == 2
    assert f"is less than the first release of {said}" in told
    assert "or a smaller --epsilon" in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", ["compose", "manifests"])
def test_a_budget_for_one_release_is_enough(verb: str) -> None:
    for algorithm, epsilon, budget in (("sealed", "0.3", "0.3"), ("private-ucb", "1", "1"), ("sealed", "1", "7")):
        words = ("--algorithm", algorithm, "--epsilon", epsilon, "--epsilon-budget", budget)
        assert CliRunner().invoke(cli, [*VERBS[verb], *words]).exit_code == 0


def test_of_several_algorithms_each_must_be_able_to_say_something() -> None:
    words = ("--algorithm", "sealed", "--epsilon", "0.5", "--policy", "1=private-ucb", "--epsilon-budget", "0.6")
    result = CliRunner().invoke(cli, [*VERBS["compose"], *words])
    assert "first release of private-ucb costs" in str(result.exception) + result.output


@pytest.mark.parametrize("verb", [("simulate",), ("terms", "make", "--arms", "2")])
def test_who_spends_nothing_has_no_budget(verb: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, [*verb, "--agents", "2", "--epsilon-budget", "1"])
    assert result.exit_code == 2
    assert "No such option" in result.output + str(result.exception)

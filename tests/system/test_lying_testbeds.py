"""Liars who make up what they say, as processes over sockets: the same to the byte as in memory, by either engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_testbeds import PATIENT, agentd, agentd_json, end_all, here_json

from agentd.core.attacks import FIXED

pytestmark = [pytest.mark.system, pytest.mark.slow]

OFTEN = ("promote-worst", "both", "mixed", "count-inflation")
ONCE = [("shielded", "mixed", 2)]
"""`make test-long` runs four attacks with three seeds each."""
SMALL = ("--agents", "6", "--edge-probability", "0.5", "--rounds", "60", "--byzantine", "2")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    end_all()


def cases() -> list[object]:
    every = [(name, attack, seed) for name in ("sealed", "shielded") for attack in OFTEN for seed in (1, 2, 3)]
    return [pytest.param(*case, marks=() if case in ONCE else pytest.mark.long) for case in every]


@pytest.mark.parametrize(("algorithm", "attack", "seed"), cases())
def test_processes_tell_the_lies_that_are_simulated(place: Path, algorithm: str, attack: str, seed: int) -> None:
    agree(place, *SMALL, "--algorithm", algorithm, "--attack", attack, "--seed", str(seed))


@pytest.mark.long
@pytest.mark.parametrize("attack", ["demote-best", "inversion", "edge"])
def test_one_liar_of_twenty_is_the_same_over_sockets(place: Path, attack: str) -> None:
    one = ("--agents", "20", "--edge-probability", "0.3", "--rounds", "100", "--byzantine", "1", "--seed", "7000")
    agree(place, *one, "--algorithm", "shielded", "--attack", attack)


def agree(place: Path, *flags: str) -> None:
    """Run it three times."""
    honest = []
    for name, run, verb in (
        ("up", agentd_json, ("up", *PATIENT)),
        *((engine, here_json, ("simulate", "--engine", engine)) for engine in ENGINES),
    ):
        summary = run(*verb, *flags, "--run-dir", str(place / name))
        honest.append((summary["honest_regret_per_agent"], summary["messages"], summary["dropped"]))
    assert honest[0] == honest[1] == honest[2]
    pulls = [(place / name / "pulls.npz").read_bytes() for name in ("up", *ENGINES)]
    assert pulls[0] == pulls[1] == pulls[2]


ENGINES = ("agents", "vector")


def test_who_would_have_to_know_everything_is_refused(place: Path) -> None:
    refused = agentd("up", *SMALL, "--attack", "adaptive-bury", "--run-dir", str(place / "run"), code=None)
    assert refused.returncode == 2
    assert "it runs in memory only: agentd simulate, agentd experiment" in refused.stderr
    assert not (place / "run").exists()


def test_an_agent_by_itself_is_not_told_what_the_arms_pay() -> None:
    assert set(OFTEN) <= set(FIXED)
    shown = " ".join(agentd("agent", "--help").stdout.split())
    assert "--arm-means" in shown

"""Agents killed at every edge between draw, commit and send; a hundred times each by hand, a few times here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TIMES = 2
EDGES = 9
NEVER = (
    "releases noised twice",
    "trial numbers reused",
    "trials pulled with two arms",
    "ledger below what was sent",
    "new incarnations",
    "other deaths",
)


def deaths(*flags: str) -> dict[str, Any]:
    """What the harness counted; in a process of its own, because it forks."""
    script = Path(__file__).parent / "crash_points.py"
    done = subprocess.run(
        [sys.executable, str(script), "--times", str(TIMES), *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.system
@pytest.mark.parametrize("algorithm", ["private-ucb", "sealed"])
def test_whenever_an_agent_dies_nothing_is_noised_twice(algorithm: str) -> None:
    found = deaths("--algorithm", algorithm)
    assert found["deaths"] == TIMES * EDGES
    assert {name: found[name] for name in NEVER} == dict.fromkeys(NEVER, 0)
    assert found["draws"] > found["releases"] >= found["releases sent"] > 0  # some draws died unseen


@pytest.mark.system
def test_an_agent_that_sends_before_it_commits_would_be_caught() -> None:
    found = deaths("--sends-first")
    assert found["releases noised twice"] > 0
    assert found["ledger below what was sent"] > 0

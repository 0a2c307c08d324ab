"""Agents killed at every edge between draw, commit and send: a few times each, a hundred times in make test-long."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FEW = 2
MANY = 100
EDGES = 10
LOSING = 4
"""Edges between the pull and the end of the commit."""
NEVER = (
    "releases noised twice",
    "trial numbers reused",
    "trials pulled with two arms",
    "ledger below what was sent",
    "other deaths",
)


def deaths(times: int, *flags: str) -> dict[str, Any]:
    """What the harness counted; in a process of its own, because it forks."""
    script = Path(__file__).parent / "crash_points.py"
    done = subprocess.run(
        [sys.executable, str(script), "--times", str(times), *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=250 + 10 * times,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.system
@pytest.mark.parametrize("times", [FEW, pytest.param(MANY, marks=[pytest.mark.long, pytest.mark.timeout(1500)])])
@pytest.mark.parametrize("algorithm", ["private-ucb", "sealed"])
def test_whenever_an_agent_dies_nothing_is_noised_twice(algorithm: str, times: int) -> None:
    found = deaths(times, "--algorithm", algorithm)
    assert found["deaths"] == times * EDGES
    assert {name: found[name] for name in NEVER} == dict.fromkeys(NEVER, 0)
    assert found["rounds lost"] == times * LOSING
    made = found["releases"] - found["possible releases"]
    assert found["draws"] > made >= found["releases sent"] > 0  # some draws died unseen
    assert found["releases"] >= found["draws"]  # and all were charged


@pytest.mark.system
def test_an_agent_that_sends_before_it_commits_would_be_caught() -> None:
    found = deaths(FEW, "--sends-first")
    assert found["releases noised twice"] > 0
    assert found["ledger below what was sent"] > 0

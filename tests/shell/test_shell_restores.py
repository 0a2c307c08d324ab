"""Agents started from copies of their state that are one round old: some in make test, a thousand in make test-long."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FEW = 40
MANY = 1000
NEVER = (
    "noised twice",
    "ledger below what was released",
    "trial numbers reused",
    "pulls asked for again",
    "not what is in the sums",
    "deaths that were not planned",
)


def restores(times: int, *flags: str) -> dict[str, Any]:
    """What the harness counted; in a process of its own, because it forks."""
    script = Path(__file__).parent / "restores.py"
    done = subprocess.run(
        [sys.executable, str(script), "--times", str(times), *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=250 + 2 * times,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.system
@pytest.mark.parametrize("times", [FEW, pytest.param(MANY, marks=[pytest.mark.long, pytest.mark.timeout(2500)])])
@pytest.mark.parametrize("algorithm", ["private-ucb", "dp-ucb-int", "sealed"])
def test_whichever_copy_is_restored_nothing_is_noised_twice(algorithm: str, times: int) -> None:
    found = restores(times, "--algorithm", algorithm)
    assert found["restores"] == times
    assert {name: found[name] for name in NEVER} == dict.fromkeys(NEVER, 0)
    assert found["restores between rounds"] > times / 5
    assert found["in doubt"] > times / 2
    assert found["in doubt about all arms"] > times / 5
    assert found["releases"] > times / 5


@pytest.mark.system
@pytest.mark.parametrize("algorithm", ["private-ucb", "sealed"])
def test_an_agent_that_makes_the_lost_round_again_would_be_caught(algorithm: str) -> None:
    """As it was up to 49aef1d."""
    found = restores(FEW // 2, "--algorithm", algorithm, "--fault", "makes the round again")
    assert found["noised twice"] > 0
    assert found["ledger below what was released"] > 0
    assert found["trial numbers reused"] > 0


@pytest.mark.system
def test_an_agent_that_skips_the_lost_round_and_keeps_its_batch_would_be_caught() -> None:
    found = restores(FEW, "--algorithm", "sealed", "--fault", "keeps the batch")
    assert found["noised twice"] > 0
    assert found["ledger below what was released"] > 0

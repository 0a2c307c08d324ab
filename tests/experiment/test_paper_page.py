"""docs/paper.md: its numbers are computed anew, its commands run, and its tables held against what comes out."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from pages import blocks_of, run, text_of

from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, intend, make_policy
from agentd.core.privacy.calibrate import composed, nominal_private
from agentd.core.privacy.series import ReleaseSeries

PAGE = text_of("docs/paper.md")
(COMMANDS,) = [block.commands for block in blocks_of("docs/paper.md", "console")]
TABLES = re.findall(r"^\| `(claims/\w+)` \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE)
V = 1.1


def literal_series(epsilon: float, pulls: int) -> list[int]:
    """Error 2: the update series with the paper's exponent v on the right."""
    thresholds, since = [], 0.0
    for x in range(1, pulls + 1):
        since += x ** (-V / 2)
        if since >= 1.0 / (epsilon * x**V):
            thresholds.append(x)
            since = 0.0
    return thresholds


def test_the_errors_numbers_are_computed() -> None:
    literal = literal_series(0.1, 1000)
    corrected = ReleaseSeries(0.1, V).thresholds(1000)
    assert f"releases {len(literal)} times in 1,000 pulls and costs {composed(literal):.1f}" in PAGE
    assert f"corrected, {len(corrected)} times and {composed(corrected):.2f}" in PAGE
    assert ", ".join(map(str, corrected[:5])) + ", …" in PAGE
    one = composed(ReleaseSeries(1.0, V).thresholds(1000))
    assert f"nominal 1 composes to {one:.1f} and nominal 0.1 to {composed(corrected):.2f}" in PAGE
    assert f"a composed ε of 1 takes nominal {nominal_private(1.0, 1000):.2g}" in PAGE


@pytest.mark.parametrize(("reward", "counts"), [(1, [1, 2]), (0, [2, 1])])
def test_one_reward_decides_what_private_ucb_tells_of_its_pulls(reward: int, counts: list[int]) -> None:
    policy = make_policy("private-ucb", PolicySettings(arms=2, epsilon=1.0), 0)
    pulled = [0, 0]
    for trial in (1, 2, 3):
        arm = policy.choose(trial)
        intent = intend(policy, trial, arm)
        if intent.noise is not None:
            intent.noise.draw(_NoNoise())
        policy.observe(intent, reward * UNIT if arm == 1 else UNIT // 2, 0)
        pulled[arm] += 1
    assert pulled == counts
    assert f"({counts[0]}, {counts[1]})" in PAGE


class _NoNoise:
    def draw(self, arm: int, scale: int) -> int:
        return 0


@pytest.mark.slow
@pytest.mark.system
def test_the_tables_are_what_the_commands_give(tmp_path: Path) -> None:
    run(COMMANDS, tmp_path)
    assert len(TABLES) == len(COMMANDS)
    for place, rows in TABLES:
        with (tmp_path / place / "sweep.csv").open(newline="", encoding="utf-8") as file:
            measured = list(csv.DictReader(file))
        for row in rows.splitlines():
            _is_so(row, measured)


def _is_so(row: str, measured: list[dict[str, str]]) -> None:
    """Within three standard errors: an algorithm that gets better by a hair need not be written down anew."""
    names = re.findall(r"`([^`]+)`", row)[0].split()
    wanted = dict(name.split("=") for name in names)
    regret = [float(one["regret_per_agent"]) for one in measured if all(one[key] == wanted[key] for key in wanted)]
    assert len(regret) == 10, row
    said, error = map(float, re.findall(r"([\d.]+) ± ([\d.]+)", row)[0])
    assert abs(np.mean(regret) - said) <= 3 * error, row
    assert np.std(regret, ddof=1) / np.sqrt(len(regret)) == pytest.approx(error, rel=1.0), row

"""docs/algorithms.md: its command runs, and the row that it makes is the one that is printed."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from pages import blocks_of, run, text_of

PAGE = text_of("docs/algorithms.md")
((COMMAND,),) = [block.commands for block in blocks_of("docs/algorithms.md", "console")]
(ROW,) = re.findall(r"^\| \[0, 1\] \| 200 \|(.*)\|$", PAGE, flags=re.MULTILINE)


def test_the_command_works(tmp_path: Path) -> None:
    run([f"{COMMAND} --repetitions 1 --agents 20 --edge-probability 0.3 --rounds 50"], tmp_path)
    assert len(measured(tmp_path)) == 3


@pytest.mark.long
def test_the_row_is_what_the_command_gives(tmp_path: Path) -> None:
    run([COMMAND], tmp_path)
    printed = re.findall(r"→ ([\d.]+) ± ([\d.]+) \([\d.]+ → ([\d.]+)\)", ROW)
    for regrets, (mean, error, largest) in zip(measured(tmp_path).values(), printed, strict=True):
        assert len(regrets) == 40
        spread = np.std(regrets, ddof=1) / np.sqrt(len(regrets))
        assert (f"{np.mean(regrets):.2f}", f"{spread:.2f}", f"{max(regrets):.1f}") == (mean, error, largest)


def measured(place: Path) -> dict[float, list[float]]:
    """The regrets per agent of a sweep, by ε."""
    found: dict[float, list[float]] = {}
    with (place / "table" / "sweep.csv").open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table):
            found.setdefault(float(row["epsilon"]), []).append(float(row["regret_per_agent"]))
    return dict(sorted(found.items()))

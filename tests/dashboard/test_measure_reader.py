"""The measuring of what a reader costs: its arithmetic, and that both readers read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from browsers import needs_chromium
from measure_reader import rounds_per_s, summary, trial_at

REACHED = {100: 10.0, 200: 11.0, 300: 13.0}
SCRIPT = Path(__file__).parent / "measure_reader.py"


def test_a_moment_between_two_that_are_known_lies_straight_between_them() -> None:
    assert [trial_at(REACHED, moment) for moment in (10.0, 10.5, 11.0, 12.0)] == [100, 150, 200, 250]
    assert rounds_per_s(REACHED, 10.5, 12.0) == pytest.approx(100 / 1.5)


@pytest.mark.parametrize("moment", [9.9, 13.0, 99.0])
def test_nothing_is_made_up_outside_of_what_is_known(moment: float) -> None:
    with pytest.raises(ValueError, match="nothing is known"):
        trial_at(REACHED, moment)


def test_the_mean_of_the_ratios_has_the_error_of_a_mean() -> None:
    told = summary([(100.0, 90.0), (100.0, 100.0), (200.0, 220.0)])
    assert (told["pairs"], told["ratio"]) == (3, 1.0)
    assert told["standard_error"] == pytest.approx(0.1 / 3**0.5, abs=1e-4)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("flags", [(), pytest.param(("--browser",), marks=needs_chromium)])
def test_a_reader_reads_in_every_window_in_which_it_is_to(flags: tuple[str, ...]) -> None:
    words = [sys.executable, str(SCRIPT), *flags, "--agents", "4", "--edges", "0.8", "--pairs", "2", "--window", "3"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["pairs"] == 2
    assert told["bytes_read"] > 0
    assert told["events_read"] >= 2
    assert told["rounds_per_s_with"] > 0

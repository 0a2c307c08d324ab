"""A skipped test is told of, and in CI it needs an excuse that is true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from skips import MUST_BE_EXCUSED, is_excused

SKIPS = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_skipped(number):
    pytest.skip("nobody feels like it")

def test_done():
    pass
"""


@pytest.mark.system
@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(("strict", "code"), [({}, 0), ({MUST_BE_EXCUSED: "1"}, 1)])
def test_a_run_tells_what_it_skipped_and_fails_without_an_excuse(
    tmp_path: Path, workers: str, strict: dict[str, str], code: int
) -> None:
    (tmp_path / "test_it.py").write_text(SKIPS)
    command = [sys.executable, "-m", "pytest", "-p", "skips", "-n", workers, "--rootdir", str(tmp_path), str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != MUST_BE_EXCUSED}
    tests = Path(__file__).parent
    # The project first: tests/deploy is no package, but found before one that is installed in place.
    environment |= {"PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests)])} | strict
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert "   3 nobody feels like it" in said
    complaint = "ERROR: this machine could run what was skipped, or nobody said when not: nobody feels like it"
    assert (complaint in said) == bool(strict)


def test_an_excuse_must_be_known_and_true() -> None:
    excuses = {"the moon is full": lambda: True, "it rains": lambda: False}
    assert is_excused("not today: the moon is full", excuses)
    assert not is_excused("not today: it rains", excuses)
    assert not is_excused("not today", excuses)

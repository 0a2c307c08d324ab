"""Helpers of the system tests: agentd as a person runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from evidence import PATIENCE_S

from agentd.cli import cli

AGENTD = [sys.executable, "-m", "agentd"]
PATIENT = ("--round-timeout", "60")
"""On a busy machine a round may take long; one that goes on without a neighbour is no longer the simulation's."""

CONTRACT = {
    "manifest.json",
    "topology.json",
    "plan.json",
    "pulls.npz",
    "regret.csv",
    "regret.svg",
    "summary.json",
    "testbed.json",
    "logs",
}
"""What every run directory of a testbed holds."""


def agentd(*args: str, code: int | None = 0, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run agentd to its end."""
    done = subprocess.run([*prefix, *AGENTD, *args], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


def agentd_json(*args: str, code: int | None = 0) -> Any:
    """What agentd prints with --json: one line of JSON and nothing else."""
    done = agentd(*args, "--json", code=code)
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def here_json(*args: str) -> Any:
    """The same in this process, for what is not what a test is about: an interpreter takes half a second to start."""
    done = CliRunner().invoke(cli, [*args, "--json"])
    assert done.exit_code == 0, f"{done.output}{done.exception}"
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def end_all() -> None:
    """End whatever testbed is left of a test."""
    CliRunner().invoke(cli, ["down", "--all"])


def start(*args: str) -> subprocess.Popen[str]:
    """Start agentd in a process group of its own, as a shell does."""
    return subprocess.Popen(
        [*AGENTD, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )


def read_json(path: Path) -> Any:
    """A JSON file that may not be there yet."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def pids_of(run_dir: Path) -> list[int]:
    """The processes that a testbed wrote down."""
    return [child["pid"] for child in read_json(run_dir / "testbed.json")["children"].values()]


def nothing_runs(pids: list[int]) -> bool:
    """Whether all of them have ended."""
    return not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

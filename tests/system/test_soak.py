"""A short soak of real processes: everything happens, everything heals; and a policy that leaks is found out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.system, pytest.mark.slow]

LEAKING = """
import threading

from agentd.core.policy import sealed

kept = []
choose = sealed.Sealed.choose


def grow():
    while not threading.Event().wait(0.1):  # five megabytes a second, however slow rounds are
        kept.append(bytearray(b"x" * 500_000))


def leak(self, *arguments):
    if not kept:
        kept.append(threading.Thread(target=grow, daemon=True))
        kept[0].start()
    return choose(self, *arguments)


sealed.Sealed.choose = leak
"""


def soak(place: Path, *flags: str, plugin: str | None = None) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "agentd", "soak", "--json", "--run-dir", str(place / "run"), *flags]
    more = {}
    if plugin is not None:
        (place / "leaking.py").write_text(plugin, encoding="utf-8")
        more = {"AGENTD_PLUGINS": "leaking", "PYTHONPATH": str(place)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env=os.environ | more)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_everything_happens_heals_and_is_counted_once(tmp_path: Path) -> None:
    code, report = soak(tmp_path, "--agents", "6", "--edge-probability", "0.5", "--for", "20s", "--seed", "3")
    assert code == 0, report
    assert report["passed"]
    assert report["wrong"] == []
    assert set(report["happened"]) >= {"kill", "loss", "delay", "partition"}
    assert report["pulls"] > 6 * 100
    assert (tmp_path / "run" / "samples.csv").read_text().count("\n") == report["samples"] + 1
    picture = (tmp_path / "run" / "soak.svg").read_text()
    assert len(re.findall("<svg ", picture)) == 6, "five panels in one"
    assert json.loads((tmp_path / "run" / "soak.json").read_text())["passed"]


def test_a_leak_is_found(tmp_path: Path) -> None:
    flags = ("--agents", "3", "--edge-probability", "1", "--for", "10s", "--faults", "loss")
    code, report = soak(tmp_path, *flags, plugin=LEAKING)
    memory = next(each for each in report["findings"] if each["what"] == "memory of an agent grows")
    assert (code, memory["held"]) == (1, False), report

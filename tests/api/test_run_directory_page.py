"""docs/run-directory.md names every file and every field that a run leaves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import blocks_of, run, text_of

from agentd.core.grid import UNIT

pytestmark = pytest.mark.system

PAGE = text_of("docs/run-directory.md")
NAMED = set(re.findall(r"`([^`\s]+)`", PAGE))
OPEN_ENDED = {"versions", "settings", "dropped", "blamed", "parameters"}
"""What holds names of its own: packages, flags, reasons."""


def fields_of(content: Any) -> Iterator[str]:
    if isinstance(content, list):
        for each in content:
            yield from fields_of(each)
    elif isinstance(content, dict):
        for name, value in content.items():
            yield name
            if name not in OPEN_ENDED:
                yield from fields_of(value)


@pytest.mark.parametrize("verb", ["simulate", "up"])
def test_every_file_and_field_is_named(tmp_path: Path, verb: str) -> None:
    flags = ("--agents", "3", "--edge-probability", "1", "--rounds", "30", "--run-dir", str(tmp_path / "run"), "--json")
    command = [sys.executable, "-m", "agentd", verb, "--algorithm", "sealed", *flags]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    for path in (tmp_path / "run").iterdir():
        assert path.name in NAMED or f"{path.name}/" in NAMED or f"{path.name}/agent-N/" in NAMED, path.name
    for name in ("manifest.json", "summary.json"):
        content = json.loads((tmp_path / "run" / name).read_text())
        assert set(fields_of(content)) <= NAMED, name
    if verb == "up":
        assert set(fields_of(json.loads((tmp_path / "run" / "status.json").read_text()))) <= NAMED


def test_the_unit_of_rewards_is_the_one_that_is_said() -> None:
    assert f"divide by `{UNIT}`" in PAGE


def test_the_loading_example_works(tmp_path: Path) -> None:
    (block,) = blocks_of("docs/run-directory.md")
    assert block.language == "python"
    (tmp_path / "example.py").write_text(block.text, encoding="utf-8")
    assert run([f"{sys.executable} example.py"], tmp_path).strip()

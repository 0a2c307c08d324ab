"""Every block of docs/library.md is run, in order, in one directory, as a stranger would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|console)(?: file=(\S+))?\n(.*?)```", PAGE, flags=re.DOTALL)


def test_every_block_works(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    assert len(BLOCKS) >= 6
    for number, (language, file, text) in enumerate(BLOCKS):
        if file:
            (tmp_path / file).write_text(text, encoding="utf-8")
            continue
        if language == "python":
            script = tmp_path / f"block_{number}.py"
            script.write_text(text, encoding="utf-8")
            command = [sys.executable, str(script)]
        else:
            lines = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
            command = ["bash", "-ec", "\n".join(lines)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def test_the_policies_of_the_page_are_short() -> None:
    policies = {file: text for _, file, text in BLOCKS if file}
    assert set(policies) == {"greedy.py", "poll.py"}
    for text in policies.values():
        for each in re.split(r"^(?=class )", text, flags=re.MULTILINE)[1:]:
            assert len([line for line in each.splitlines() if line.strip()]) <= 38

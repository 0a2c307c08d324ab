"""It is installed as agentd-bandits: "agentd" belongs to somebody else on PyPI, and no hint may name it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from agentd.errors import DISTRIBUTION, install_with

ROOT = Path(__file__).parent.parent
ABOUT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRA = re.compile(r"\b(agentd[\w-]*)\[([a-z,]+)\]")
ASKED = re.compile(r"install_with\(['\"](\w+)['\"]\)")


def sources() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    return [ROOT / name for name in listed if name.endswith((".py", ".md", ".toml", ".yml", "Dockerfile", "Makefile"))]


def test_the_distribution_is_the_one_of_pyproject() -> None:
    assert ABOUT["name"] == DISTRIBUTION
    assert install_with("ui") == "pip install 'agentd-bandits[ui]'"


def test_the_command_and_the_import_name_are_as_before() -> None:
    assert ABOUT["scripts"] == {"agentd": "agentd.__main__:main"}


def test_every_extra_that_is_named_anywhere_is_one_of_this_distribution() -> None:
    if not (files := sources()):
        pytest.skip("only a checkout knows its files")
    texts = {path: path.read_text(encoding="utf-8") for path in files if path.is_file()}
    named = [(path, *found) for path, text in texts.items() for found in EXTRA.findall(text)]
    asked = [(path, DISTRIBUTION, extra) for path, text in texts.items() for extra in ASKED.findall(text)]
    assert len(named) > 3
    assert len(asked) > 5
    wrong = [
        (path.name, name, extras)
        for path, name, extras in named + asked
        if name != DISTRIBUTION or not set(extras.split(",")) <= set(ABOUT["optional-dependencies"])
    ]
    assert not wrong

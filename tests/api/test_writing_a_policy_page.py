"""Every block of docs/writing-a-policy.md is run, in order, in one directory, as a stranger would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import blocks_of, run_all

pytestmark = pytest.mark.system

BLOCKS = blocks_of("docs/writing-a-policy.md", "python", "console")


def test_every_block_works(tmp_path: Path) -> None:
    assert len(BLOCKS) >= 4
    run_all(BLOCKS, tmp_path)


def test_the_policies_of_the_page_are_short() -> None:
    policies = {block.file: block.text for block in BLOCKS if block.file}
    assert set(policies) == {"greedy.py", "poll.py"}
    for text in policies.values():
        for each in re.split(r"^(?=class )", text, flags=re.MULTILINE)[1:]:
            assert len([line for line in each.splitlines() if line.strip()]) <= 38

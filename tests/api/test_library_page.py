"""Every block of docs/library.md is run, in order, in one directory, as a stranger would."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import blocks_of, run_all

pytestmark = pytest.mark.system

BLOCKS = blocks_of("docs/library.md")


def test_every_block_works(tmp_path: Path) -> None:
    assert len(BLOCKS) >= 4
    run_all(BLOCKS, tmp_path)

"""A plug-in's claim is unproven until this user's audit found it to hold, and again as soon as its file is another."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.core.policy import ALGORITHMS, Algorithm
from agentd.runs.proofs import ENOUGH_WORLDS, has_passed, record_pass

MODULE = """
from agentd.core.bodies import SEALED
from agentd.core.policy import Algorithm
from agentd.core.policy.sealed import Sealed


def make(settings, own, coins):
    return Sealed(settings, own, coins)


MINE = Algorithm("mine", "", SEALED, True, True, make, disjoint=True)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield tmp_path
    sys.modules.pop("proofs_mine", None)


def loaded(home: Path, text: str = MODULE) -> Algorithm:
    path = home / "proofs_mine.py"
    path.write_text(text, encoding="utf-8")
    found = importlib.util.spec_from_file_location("proofs_mine", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["proofs_mine"] = module
    found.loader.exec_module(module)
    mine: Algorithm = module.MINE
    return mine


def test_it_counts_once_it_passed_in_enough_worlds(home: Path) -> None:
    mine = loaded(home)
    assert not record_pass(mine, ENOUGH_WORLDS - 1)
    assert not has_passed(mine)
    assert record_pass(mine, ENOUGH_WORLDS)
    assert has_passed(mine)
    assert (home / "state" / "agentd" / "coupled.json").stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_changed_since_is_unproven_again(home: Path) -> None:
    record_pass(loaded(home), ENOUGH_WORLDS)
    assert not has_passed(loaded(home, MODULE + "\n# one line more\n"))
    assert has_passed(loaded(home)), "and as it was it still holds"


def test_ours_need_no_record_and_who_claims_nothing_gets_none() -> None:
    assert has_passed(ALGORITHMS["sealed"])
    assert not record_pass(ALGORITHMS["sealed"], ENOUGH_WORLDS)
    assert not record_pass(ALGORITHMS["private-ucb"], ENOUGH_WORLDS)
    assert not has_passed(ALGORITHMS["private-ucb"])


@pytest.mark.parametrize("content", ["", "[", "[]", '{"a"', "null"])
def test_a_damaged_record_proves_nothing(home: Path, content: str) -> None:
    mine = loaded(home)
    record_pass(mine, ENOUGH_WORLDS)
    (home / "state" / "agentd" / "coupled.json").write_text(content, encoding="utf-8")
    assert not has_passed(mine)
    assert record_pass(mine, ENOUGH_WORLDS)
    assert has_passed(mine)

"""SECURITY.md promises nothing without a test: those it names are there, and every promise names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(test_\w+)`", PAGE)))
FILES = sorted(set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE)))
OPEN = "What is not protected"


def names_of_all_tests() -> set[str]:
    """The names of all tests, wherever they are."""
    names: set[str] = set()
    for place in (ROOT / "tests").rglob("test_*.py"):
        tree = ast.parse(place.read_text(encoding="utf-8"))
        names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return names


def promises() -> list[str]:
    """Paragraphs that begin in bold type, of all sections but those that say what is not protected."""
    sections = [part for part in PAGE.split("\n## ") if not part.startswith(OPEN)]
    return [one for part in sections for one in part.split("\n\n") if one.startswith("**")]


def test_every_test_that_the_page_names_is_there() -> None:
    assert set(NAMED) <= names_of_all_tests()
    assert len(NAMED) > 40


def test_every_file_of_tests_that_the_page_names_is_there() -> None:
    assert [place for place in FILES if not (ROOT / place).is_file()] == []


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: promise.strip("*").partition("**")[0][:40])
def test_every_promise_names_a_test(promise: str) -> None:
    assert re.search(r"`test_\w+`", promise)

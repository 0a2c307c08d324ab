"""docs/architecture.md draws the imports there are, and names files and definitions that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from test_architecture import ROOT, SOURCES, imports_of, is_ours, module_of, tree_of

from agentd.cli import VERBS

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
HOUSE, DEPLOY = re.findall(r"```mermaid\n(.*?)```", PAGE, flags=re.DOTALL)
WALK = PAGE.partition("## The walk of one reward")[2]

Arrows = set[tuple[str, str]]


def node_of(module: str) -> str:
    """The part of the first picture that a module belongs to: its package, or itself where it stands by itself."""
    package, _, below = module.partition(".")
    return below.partition(".")[0] if package == "agentd" else package


def room_of(module: str) -> str:
    """The part of the second picture that a module belongs to: its room in deploy, if it is in one."""
    package, _, below = module.partition(".")
    return below.partition(".")[0] if package == "deploy" else ""


def drawn(arrow: str, picture: str = HOUSE) -> Arrows:
    lines = re.findall(rf"^    (\w+) {re.escape(arrow)} (.+)$", picture, flags=re.MULTILINE)
    return {(importer, imported) for importer, targets in lines for imported in targets.split(" & ")}


def real(part_of: Callable[[str], str]) -> Arrows:
    """Imports between parts; what is in agentd/__init__.py itself, the version, is of no part."""
    pairs = {
        (part_of(module_of(path)), part_of(name)) for path in SOURCES for name in filter(is_ours, imports_of(path))
    }
    return {(importer, imported) for importer, imported in pairs if importer != imported and importer and imported}


def test_the_arrows_are_the_real_imports() -> None:
    assert drawn("-->") == real(node_of)
    assert drawn("-->", DEPLOY) == real(room_of)


def test_the_dotted_arrows_are_what_the_verbs_load() -> None:
    assert drawn("-.->") == {("cli", node_of(place)) for place, _ in VERBS.values()} - {("cli", "cli")}


def test_every_package_and_module_is_in_the_pictures() -> None:
    for picture, part_of in ((HOUSE, node_of), (DEPLOY, room_of)):
        there = {part_of(module_of(path)) for path in SOURCES} - {""}
        assert {name for pair in drawn("-->", picture) for name in pair} == there


def named() -> list[tuple[str, list[str]]]:
    """Each file of the walk with the definitions named after it."""
    found = re.findall(r"`([\w/]+\.\w+)`(?:\s+\(((?:`[\w.]+`(?:, )?)+)\))?", WALK)
    return [(path, re.findall(r"`([\w.]+)`", names)) for path, names in found]


def definitions_of(path: Path) -> set[str]:
    """What a file defines: `function`, `Class`, `Class.method`."""
    found: set[str] = set()
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
            found |= {f"{node.name}.{part.name}" for part in getattr(node, "body", ()) if hasattr(part, "name")}
    return found


@pytest.mark.parametrize(("path", "names"), named())
def test_what_the_walk_names_is_there(path: str, names: list[str]) -> None:
    assert (ROOT / path).is_file(), f"{path} is gone"
    missing = set(names) - definitions_of(ROOT / path) if names else set()
    assert not missing, f"{path} does not define {sorted(missing)}"


def test_the_walk_names_many_files() -> None:
    assert len({path for path, _ in named()}) > 15
    assert sum(len(names) for _, names in named()) > 20


def test_folders_that_the_page_names_are_there() -> None:
    for folder in re.findall(r"`((?:agentd|topology|deploy)/\w+)`", PAGE):
        assert (ROOT / folder).is_dir(), folder

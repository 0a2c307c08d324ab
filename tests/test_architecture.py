"""The rules of the house: who may import whom, and that the core stays pure."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import click
import pytest

from agentd.cli import VERBS

ROOT = Path(__file__).parent.parent
SOURCES = sorted(path for package in ("agentd", "topology", "deploy") for path in (ROOT / package).rglob("*.py"))

ALLOWED = {
    "agentd.core": {"agentd.core"},
    "agentd.wire": {"agentd.core", "agentd.wire", "agentd.errors"},
    "agentd.environment": {
        "agentd.core",
        "agentd.wire",
        "agentd.environment",
        "agentd.errors",
        "agentd.run.directory",
        "agentd.shell.health",
        "agentd.shell.json_log",
    },
    "agentd.shell": {"agentd.core", "agentd.wire", "agentd.shell", "agentd.errors", "agentd.settings"},
    "agentd.audit": {
        "agentd.core",
        "agentd.wire",
        "agentd.audit",
        "agentd.errors",
        "agentd.interrupts",
        "agentd.settings",
        "agentd.shell.state.journal",
        "agentd.shell.state.keeper",
    },
    "agentd.simulate": {
        "agentd.core",
        "agentd.wire",
        "agentd.simulate",
        "agentd.environment",
        "agentd.errors",
        "agentd.interrupts",
    },
    "topology": {"topology"},
}
"""For each layer, the packages of ours that it may import."""

IMPURE = {
    "asyncio", "datetime", "io", "logging", "msgpack", "msgspec", "multiprocessing", "os", "pathlib", "random",
    "secrets", "signal", "socket", "sqlite3", "structlog", "subprocess", "sys", "tempfile", "threading", "time", "uuid",
    "zmq",
}  # fmt: skip
"""What would let time, files, the network or global chance into the core."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            of_agentd = [f"agentd.{alias.name}" for alias in node.names] if node.module == "agentd" else []
            names += of_agentd or [node.module or ""]
    return names


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def is_ours(name: str) -> bool:
    return name.partition(".")[0] in {"agentd", "topology", "deploy"}


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_imports_go_one_way(path: Path) -> None:
    module = module_of(path)
    layer = next((layer for layer in ALLOWED if module == layer or module.startswith(layer + ".")), None)
    if layer is None:
        return
    for name in filter(is_ours, imports_of(path)):
        assert any(name == allowed or name.startswith(allowed + ".") for allowed in ALLOWED[layer]), (
            f"{module} must not import {name}"
        )


@pytest.mark.parametrize("path", [p for p in SOURCES if "core" in p.parts], ids=module_of)
def test_the_core_is_pure(path: Path) -> None:
    found = {name.partition(".")[0] for name in imports_of(path)} & IMPURE
    assert not found, f"{module_of(path)} must stay pure, but imports {sorted(found)}"


def test_agents_are_put_together_in_one_place() -> None:
    calls = [(module_of(path), node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    makers = {m for m, node in calls if isinstance(node, ast.Call) and ast.unparse(node.func) == "Agent"}
    assert makers == {"agentd.core.assembly"}


def test_nobody_reaches_through_an_agent_for_what_its_turn_tells() -> None:
    """What was released, what must be on disk and what may be sent come from the turn, in this order."""
    for path in (path for path in SOURCES if "core" not in path.parts):
        attributes = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Attribute)]
        reached = [ast.unparse(node) for node in attributes if node.attr in {"prepared", "snapshot"}]
        assert not reached, f"{module_of(path)} reaches for {reached}"


def test_only_the_command_line_reaches_for_topology_and_deploy() -> None:
    for path in SOURCES:
        module = module_of(path)
        if module.startswith("agentd.") and not module.startswith(("agentd.cli", "agentd.cli")):
            reached = [n for n in imports_of(path) if n.partition(".")[0] in {"topology", "deploy"}]
            assert not reached, f"{module} imports {reached}"


def test_msgpack_is_imported_in_one_place_only() -> None:
    users = [module_of(path) for path in SOURCES if any(n.startswith(("msgpack", "msgspec")) for n in imports_of(path))]
    assert users == ["agentd.wire.codec"]


def test_the_core_draws_nothing_from_numpys_global_generator() -> None:
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("np.random."):
                assert node.attr in {"Generator", "Philox"}, f"{module_of(path)} uses np.random.{node.attr}"


SHARED_NAMES = {
    "sealed": "the algorithm, and the body that it says",
}
"""The names that several modules have, and why."""


def test_no_two_modules_share_a_name_for_different_things() -> None:
    """A verb may be named after what it shows; so the command line counts only among itself."""
    modules = [path for path in SOURCES if path.stem not in {"__init__", "__main__"}]
    for verbs in (True, False):
        names = Counter(path.stem for path in modules if ("cli" in path.parts) == verbs)
        shared = {name for name, count in names.items() if count > 1}
        assert shared - SHARED_NAMES.keys() == set(), "give each its own name, or say why it is one thing"
    assert {path.stem for path in modules} >= SHARED_NAMES.keys()


def test_every_package_is_installed() -> None:
    """A package that is not listed is missed only where agentd is installed from a wheel, as in the image."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    there = {module_of(path.parent) for path in SOURCES}
    assert sorted(listed) == sorted(there)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_of_the_command_line_exists(verb: str) -> None:
    module, _, name = VERBS[verb][0].partition(":")
    assert isinstance(getattr(importlib.import_module(module), name), click.Command)


TESTS = sorted((ROOT / "tests").rglob("*.py"))
CLOCK = re.compile(r"\btime\.(?:monotonic|time|perf_counter|process_time|thread_time)(?:_ns)?\b|\bdatetime\.now\b")
SLEEP = re.compile(r"\bsleep\((?!0\))")
READERS = {
    "evidence.py",  # for all others
    "test_import_budget.py",  # inside the process that is measured
    "test_link_faults.py",  # what publishing costs one thread, not the process
    "test_testbed_faults.py",  # how soon an agent that was asked for is back, by the clock of its log
}
"""The tests that read a clock."""


def test_tests_wait_for_evidence_and_never_for_time() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in TESTS}
    assert {name for name, text in texts.items() if CLOCK.search(text)} <= READERS, "wait with evidence.until"
    assert not [name for name, text in texts.items() if SLEEP.search(text)], "name what shows it: evidence.until"

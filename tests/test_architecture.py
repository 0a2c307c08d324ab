"""The rules of the house: who may import whom, and that the core stays pure."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import click
import pytest

from agentd.cli import VERBS

ROOT = Path(__file__).parent.parent
SOURCES = sorted(path for package in ("agentd", "topology", "deploy") for path in (ROOT / package).rglob("*.py"))

RULES = {
    "agentd": (),
    "agentd.__main__": ("agentd.cli",),
    "agentd.addresses": (),
    "agentd.errors": (),
    "agentd.files": ("agentd.errors",),
    "agentd.untrusted": (),
    "agentd.fork_server": (),
    "agentd.hangups": (),
    "agentd.interrupts": (),
    "agentd.listeners": (),
    "agentd.plugins": ("agentd.core.policy", "agentd.errors"),
    "agentd.quantities": (),
    "agentd.settings": (
        *("agentd.addresses", "agentd.core.*", "agentd.errors", "agentd.keys.keying", "agentd.real_arms.kinds"),
        "agentd.watching",
    ),
    "agentd.watching": ("agentd.addresses", "agentd.core.policy"),
    "agentd.terms_file": ("agentd.core", "agentd.wire", "agentd.errors", "agentd.files", "agentd.untrusted"),
    "agentd.keys": (
        *("agentd.addresses", "agentd.core", "agentd.core.policy", "agentd.errors", "agentd.files", "agentd.untrusted"),
    ),
    "agentd.core": (
        *("agentd.core.attacks", "agentd.core.attacks.basis", "agentd.core.bodies", "agentd.core.policy"),
        *("agentd.core.privacy", "agentd.core.signed", "agentd.core.trust"),
    ),
    "agentd.core.attacks": (
        *("agentd.core", "agentd.core.attacks.adaptive", "agentd.core.attacks.basis", "agentd.core.bodies"),
        "agentd.core.privacy",
    ),
    "agentd.core.attacks.adaptive": ("agentd.core.attacks.basis",),
    "agentd.core.attacks.basis": ("agentd.core", "agentd.core.bodies"),
    "agentd.core.bodies": ("agentd.core", "agentd.core.privacy"),
    "agentd.core.estimate": ("agentd.core",),
    "agentd.core.policy": (
        *("agentd.core", "agentd.core.bodies", "agentd.core.estimate", "agentd.core.privacy"),
        "agentd.core.policy.remembered",
    ),
    "agentd.core.policy.remembered": ("agentd.core",),
    "agentd.core.privacy": ("agentd.core",),
    "agentd.core.rounds": ("agentd.core", "agentd.core.trust"),
    "agentd.core.signed": ("agentd.core", "agentd.core.bodies"),
    "agentd.core.trust": ("agentd.core", "agentd.core.bodies"),
    "agentd.wire": ("agentd.core.*", "agentd.errors"),
    "agentd.shell": (
        *("agentd.core.*", "agentd.wire", "agentd.shell.alone", "agentd.shell.doors", "agentd.shell.state"),
        *("agentd.errors", "agentd.files", "agentd.settings", "agentd.terms_file", "agentd.untrusted"),
        *("agentd.shell.attendance", "agentd.shell.signing", "agentd.shell.watch", "agentd.hangups", "agentd.keys"),
    ),
    "agentd.shell.attendance": (
        *("agentd.core.*", "agentd.wire", "agentd.shell", "agentd.shell.alone", "agentd.shell.state"),
        *("agentd.shell.signing", "agentd.shell.watch", "agentd.errors", "agentd.settings"),
    ),
    "agentd.shell.host": (
        *("agentd.wire", "agentd.shell", "agentd.shell.attendance", "agentd.shell.doors", "agentd.shell.state"),
        *("agentd.errors", "agentd.hangups", "agentd.settings"),
    ),
    "agentd.shell.alone": (
        *("agentd.core.*", "agentd.wire", "agentd.shell", "agentd.shell.state", "agentd.real_arms"),
        *("agentd.addresses", "agentd.errors", "agentd.settings"),
    ),
    "agentd.shell.doors": (
        *("agentd.addresses", "agentd.errors", "agentd.listeners", "agentd.shell.json_log", "agentd.shell.resolve"),
        *("agentd.keys", "agentd.wire.topics"),
    ),
    "agentd.shell.state": (
        *("agentd.core.*", "agentd.wire", "agentd.shell.json_log"),
        *("agentd.errors", "agentd.files", "agentd.settings", "agentd.untrusted"),
    ),
    "agentd.shell.signing": (
        *("agentd.core.*", "agentd.wire", "agentd.shell", "agentd.shell.doors", "agentd.keys"),
        *("agentd.errors", "agentd.files"),
    ),
    "agentd.shell.watch": (
        *("agentd.core.*", "agentd.shell", "agentd.shell.state"),
        *("agentd.errors", "agentd.settings", "agentd.untrusted", "agentd.watching"),
    ),
    "agentd.real_arms": ("agentd.core", "agentd.errors"),
    "agentd.plot": ("agentd.errors", "agentd.files"),
    "agentd.runs": (
        *("agentd.core.*", "agentd.errors", "agentd.files", "agentd.plot", "agentd.settings", "agentd.untrusted"),
        *("agentd.quantities", "topology"),
    ),
    "agentd.runs.history": ("agentd.core", "agentd.runs", "agentd.files", "agentd.untrusted"),
    "agentd.environment": (
        *("agentd.core", "agentd.core.trust", "agentd.wire", "agentd.runs", "agentd.runs.history"),
        *(
            "agentd.shell.agreement",
            "agentd.shell.doors",
            "agentd.shell.health",
            "agentd.shell.json_log",
            "agentd.shell.watch",
        ),
        "agentd.hangups",
        *("agentd.addresses", "agentd.errors", "agentd.files", "agentd.terms_file", "agentd.untrusted"),
        *("agentd.core.policy", "agentd.keys", "agentd.real_arms", "agentd.watching"),
    ),
    "agentd.cluster": ("agentd.addresses", "agentd.errors", "agentd.plugins", "agentd.untrusted"),
    "agentd.simulation": (
        *("agentd.core.*", "agentd.wire", "agentd.runs", "agentd.runs.history", "agentd.errors", "topology.shells"),
    ),
    "agentd.experiment": (
        "agentd.cluster",
        *("agentd.core.*", "agentd.runs", "agentd.plot", "agentd.simulation"),
        *("agentd.errors", "agentd.files", "agentd.interrupts", "agentd.plugins"),
    ),
    "agentd.charts": (
        *("agentd.core", "agentd.core.policy", "agentd.environment.pull_journal", "agentd.plot", "agentd.runs"),
        *("agentd.experiment.played_beside", "agentd.experiment.theory", "agentd.errors", "agentd.quantities"),
        *("agentd.runs.history", "agentd.shell.state.reader", "agentd.untrusted"),
    ),
    "agentd.dashboard": (
        *(
            "agentd.charts",
            "agentd.core",
            "agentd.core.policy",
            "agentd.core.trust",
            "agentd.environment.pull_journal",
            "agentd.runs",
            "agentd.runs.history",
        ),
        *("agentd.shell.link_faults", "agentd.shell.state.reader", "agentd.errors", "agentd.untrusted"),
    ),
    "agentd.sweeps": (
        "agentd.cluster",
        *("agentd.runs", "agentd.simulation", "agentd.plot", "agentd.experiment.parallel", "agentd.experiment.theory"),
        *("agentd.errors", "agentd.files", "agentd.plugins", "agentd.settings", "agentd.untrusted"),
    ),
    "agentd.api": (
        *("agentd.core.*", "agentd.wire", "agentd.runs", "agentd.simulation", "agentd.sweeps", "agentd.charts"),
        *("agentd.experiment.played_beside", "agentd.errors", "agentd.plugins", "agentd.settings", "agentd.untrusted"),
    ),
    "agentd.audit": (
        *("agentd.core.*", "agentd.wire", "agentd.shell.state"),
        *("agentd.errors", "agentd.interrupts", "agentd.plugins", "agentd.settings"),
    ),
    "agentd.audit.coupling": (
        *("agentd.audit", "agentd.core.*", "agentd.wire", "agentd.errors", "agentd.settings", "agentd.shell.state"),
        *("agentd.shell.drive", "agentd.shell.json_log", "agentd.shell.link", "agentd.shell.transport"),
        "agentd.shell.watch.agent_view",
    ),
    "agentd.bench": (
        *("agentd.core.*", "agentd.wire", "agentd.shell.doors", "agentd.shell.sockets", "agentd.runs"),
        *("agentd.environment", "agentd.simulation", "agentd.errors", "agentd.fork_server", "agentd.listeners"),
        "agentd.untrusted",
    ),
    "agentd.check": (
        *("agentd.check.*", "agentd.core.*", "agentd.environment", "agentd.shell.*"),
        *("agentd.errors", "agentd.interrupts", "agentd.wire"),
    ),
    "agentd.check.oracle": ("agentd.check.world", "agentd.core.*"),
    "agentd.check.scene": (
        *("agentd.check", "agentd.check.oracle", "agentd.core.*", "agentd.wire", "agentd.shell.*", "agentd.runs"),
        *("agentd.environment", "agentd.errors", "agentd.settings"),
    ),
    "agentd.cli": ("agentd.*", "deploy.*", "topology"),
    "agentd.cli.configuration": ("agentd.*",),
    "agentd.cli.in_memory": ("agentd.*", "topology"),
    "agentd.cli.keys": ("agentd.*", "deploy.containers", "deploy.devices"),
    "agentd.cli.testbed": ("agentd.*", "deploy.*"),
    "agentd.cli.watching": ("agentd.*", "deploy.*", "topology"),
    "deploy": (),
    "deploy.plan": (
        *("agentd.core", "agentd.core.policy", "agentd.runs", "agentd.errors", "agentd.settings", "agentd.terms_file"),
        "agentd.untrusted",
    ),
    "deploy.kubernetes": (
        *(
            "deploy.plan",
            "agentd.addresses",
            "agentd.core.policy",
            "agentd.runs",
            "agentd.errors",
            "agentd.settings",
            "agentd.terms_file",
        ),
    ),
    "deploy.soak": (
        *("deploy.chaos", "deploy.plan", "deploy.testbed", "agentd.environment", "agentd.plot", "agentd.runs"),
        *("agentd.shell.state.reader", "agentd.simulation", "agentd.errors", "agentd.quantities"),
    ),
    "deploy.testbed": (
        *("deploy.plan", "topology", "agentd.core.*", "agentd.wire", "agentd.runs", "agentd.environment"),
        *("agentd.shell.state.reader", "agentd.errors", "agentd.files", "agentd.settings", "agentd.untrusted"),
        *("agentd.experiment.played_beside", "agentd.interrupts", "agentd.quantities"),
    ),
    "deploy.local": (
        *("deploy.plan", "deploy.testbed", "agentd.core.*", "agentd.wire", "agentd.shell.*", "agentd.environment"),
        *("agentd.runs", "agentd.errors", "agentd.fork_server", "agentd.listeners", "agentd.plugins"),
        *("agentd.files", "agentd.quantities", "agentd.settings", "agentd.terms_file", "agentd.untrusted"),
        "agentd.keys",
    ),
    "deploy.containers": (
        *("deploy.plan", "deploy.testbed", "deploy.local", "agentd.runs", "agentd.runs.history", "agentd.environment"),
        "agentd.keys",
        *("agentd.errors", "agentd.files", "agentd.plugins", "agentd.settings", "agentd.untrusted"),
    ),
    "deploy.devices": (
        *("deploy.containers", "deploy.plan", "agentd.core", "agentd.addresses", "agentd.errors", "agentd.files"),
        *("agentd.keys", "agentd.settings", "agentd.untrusted"),
    ),
    "deploy.chaos": (
        *("deploy.plan", "deploy.testbed", "agentd.runs", "agentd.shell.link_faults"),
        *("agentd.errors", "agentd.files"),
    ),
    "topology": (),
}
"""What each package, and each module that stands beside them, may import beyond itself: modules, packages without those
inside them, or, with a star, with them. Everybody may know the version."""

MOST_MODULES = 15
"""At the top of one folder, so that it can be read as a table of contents."""

IMPURE = {
    "asyncio", "datetime", "io", "logging", "msgpack", "msgspec", "multiprocessing", "os", "pathlib", "random",
    "secrets", "signal", "socket", "sqlite3", "structlog", "subprocess", "sys", "tempfile", "threading", "time", "uuid",
    "zmq",
}  # fmt: skip
"""What would let time, files, the network or global chance into the core."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path) for path in SOURCES}
PACKAGES = {module_of(path) for path in SOURCES if path.name == "__init__.py"}


@cache
def imports_of(path: Path) -> list[str]:
    """Every module that is imported, wherever in the file, also where it is for its types only."""
    names: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names += [name if name in MODULES else node.module or "" for name in inside]
    return names


def is_ours(name: str) -> bool:
    return name.partition(".")[0] in {"agentd", "topology", "deploy"}


def place_of(module: str) -> str:
    """The package that holds a module; beside the packages of agentd, the module itself."""
    package = module if module in PACKAGES else module.rpartition(".")[0]
    return module if package == "agentd" else package


def allows(rule: str, name: str) -> bool:
    if rule.endswith(".*"):
        return f"{name}.".startswith(rule.removesuffix("*")) and name != "agentd"
    return rule in (name, place_of(name))


def test_every_package_has_a_rule() -> None:
    assert {place_of(module) for module in MODULES} | PACKAGES == set(RULES)


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_imports_go_one_way(path: Path) -> None:
    module = module_of(path)
    for name in filter(is_ours, imports_of(path)):
        if name != "agentd":  # which holds the version only
            rules = (place_of(module), *RULES[place_of(module)])
            assert any(allows(rule, name) for rule in rules), f"{module} must not import {name}"


def room_of(module: str) -> str:
    """The folder right below agentd or deploy that a module is in; topology is one by itself."""
    return ".".join(module.split(".")[: 1 if module.startswith("topology") else 2])


def ring(pairs: set[tuple[str, str]]) -> list[str]:
    """Names that import each other in a ring, if any do."""
    order: TopologicalSorter[str] = TopologicalSorter()
    for importer, imported in pairs:
        order.add(importer, imported)
    try:
        order.prepare()
    except CycleError as fault:
        return list(fault.args[1])
    return []


def imported_pairs() -> set[tuple[str, str]]:
    return {(module_of(path), name) for path in SOURCES for name in imports_of(path) if name in MODULES - {"agentd"}}


def test_no_folders_stand_in_a_ring() -> None:
    """Imports for types only count: they too are what one has to know to read the other."""
    pairs = {(room_of(importer), room_of(imported)) for importer, imported in imported_pairs()}
    assert not ring({(importer, imported) for importer, imported in pairs if importer != imported})


def test_no_rooms_inside_a_room_stand_in_a_ring() -> None:
    inner = PACKAGES - {"agentd", "deploy", "topology"} - {room_of(module) for module in MODULES}
    pairs = {(place_of(importer), place_of(imported)) for importer, imported in imported_pairs()}
    assert not ring({pair for pair in pairs if set(pair) <= inner and pair[0] != pair[1]})


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_a_folder_has_few_modules_at_its_top(package: str) -> None:
    there = [module for module in MODULES - PACKAGES if module.rpartition(".")[0] == package]
    assert len(there) <= MOST_MODULES, f"{package} needs rooms: {sorted(there)}"


@pytest.mark.parametrize("path", [p for p in SOURCES if "core" in p.parts], ids=module_of)
def test_the_core_is_pure(path: Path) -> None:
    found = {name.partition(".")[0] for name in imports_of(path)} & IMPURE
    assert not found, f"{module_of(path)} must stay pure, but imports {sorted(found)}"


def test_agents_are_put_together_in_one_place() -> None:
    makers = {
        module_of(path)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Agent"
    }
    assert makers == {"agentd.core.assembly"}


def test_nobody_reaches_through_an_agent_for_what_its_turn_tells() -> None:
    """What was released, what must be on disk and what may be sent come from the turn, in this order."""
    for path in (path for path in SOURCES if "core" not in path.parts):
        attributes = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Attribute)]
        reached = [ast.unparse(node) for node in attributes if node.attr in {"prepared", "snapshot"}]
        assert not reached, f"{module_of(path)} reaches for {reached}"


TOPOLOGY_IS_ASKED_BY = {"agentd.runs.scenario", "agentd.runs.spec", "agentd.simulation.sparse_spread"}


def test_only_the_command_line_reaches_for_deploy_and_only_what_makes_or_spreads_runs_for_topology() -> None:
    """Graphs come in by the scenario; who is how far from whom, where that is no table any more, is topology's."""
    for path in SOURCES:
        module, names = module_of(path), imports_of(path)
        if module.startswith("agentd.") and not module.startswith("agentd.cli"):
            assert not [name for name in names if name.startswith("deploy")], module
            reaches = any(name.startswith("topology") for name in names)
            assert not reaches or module in TOPOLOGY_IS_ASKED_BY, module


def test_only_the_program_itself_imports_the_command_line() -> None:
    users = {module_of(path) for path in SOURCES if any(name.startswith("agentd.cli") for name in imports_of(path))}
    assert {user for user in users if not user.startswith("agentd.cli")} == {"agentd.__main__"}


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
    "terms": "what a run is agreed on, and its place on the wire",
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
    "coming_back.py",  # when each frame was seen, to tell how long an agent was out of step
    "evidence.py",  # for all others
    "mirrors.py",  # when each frame passes a wire, inside the process that captures them
    "pressed_ring.py",  # rounds per second before an attack and during it
    "pressing_neighbour.py",  # attacks by being late
    "test_import_budget.py",  # inside the process that is measured
    "test_link_faults.py",  # what publishing costs one thread, not the process
    "test_testbed_faults.py",  # how soon an agent that was asked for is back, by the clock of its log
}
"""The tests that read a clock."""


def test_tests_wait_for_evidence_and_never_for_time() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in TESTS}
    readers = {name for name, text in texts.items() if CLOCK.search(text)}
    by_hand = {name for name in readers if name.startswith("measure_")}  # programs that tell how long things take
    assert readers - by_hand <= READERS, "wait with evidence.until"
    assert not [name for name, text in texts.items() if SLEEP.search(text)], "name what shows it: evidence.until"

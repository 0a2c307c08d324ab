"""Every metric, found where the code makes it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from agentd.shell.watch.metrics_page import PREFIX
from generate.site_map import ROOT
from generate.text import code, plain, table

MAKERS = {"gauge": "gauge", "gauges": "gauge", "counter": "counter", "counters": "counter", "Figure": "gauge"}
"""The functions of `agentd/shell/watch/snapshot.py` that make a figure, and the kind of what they make."""
PLACES = {
    "agentd/shell/watch/snapshot.py": "both",
    "agentd/shell/watch/web_pages.py": "both",
    "agentd/shell/watch/agent_view.py": "an agent",
    "agentd/environment/live_status.py": "an environment",
}


class Metric(NamedTuple):
    """What /metrics has a line for."""

    name: str
    kind: str
    label: str
    of: str
    about: str


def metrics() -> list[Metric]:
    """All of them, in the order of the code; a place that nobody has listed is named by its file."""
    found: dict[str, Metric] = {}
    for path in sorted((ROOT / "agentd").rglob("*.py")):
        place = str(path.relative_to(ROOT))
        text = path.read_text(encoding="utf-8")
        if "watch.snapshot" in text or place in PLACES:
            for one in _made_in(ast.parse(text), PLACES.get(place, place)):
                found.setdefault(f"{one.name} {one.of}", one)
    return list(found.values())


def _made_in(tree: ast.Module, of: str) -> Iterator[Metric]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in MAKERS:
                kind = MAKERS[call.func.id]
                label = _text(call.args[2]) if call.func.id.endswith("s") else ""
                ending = "_total" if kind == "counter" else ""
                for name, about in _told(call, function):
                    yield Metric(f"{PREFIX}{name}{ending}", kind, label, of, about)


def _told(call: ast.Call, function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Name and meaning of what a call makes: written there, or in a table of its function, key by key."""
    first, second = call.args[:2]
    if _text(first):
        yield _text(first), _text(second)
    for table_of in [node for node in ast.walk(function) if isinstance(node, ast.Dict) and not _text(first)]:
        for key, value in zip(table_of.keys, table_of.values, strict=True):
            if isinstance(first, ast.Name | ast.Starred) and isinstance(value, ast.Tuple) and _text(value.elts[0]):
                yield _text(value.elts[0]), _text(value.elts[1])
            elif isinstance(first, ast.JoinedStr) and key is not None and _text(value):
                yield _text(first.values[0]) + _text(key), _text(value)


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def page() -> str:
    """The table; what stands beside it in docs/watching.md says what is left out, and why."""
    rows = [
        [code(one.name), one.kind, code(one.label), one.of, plain(one.about)]
        for one in sorted(metrics(), key=lambda one: (one.of, one.name))
    ]
    intro = (
        "# Metrics\n\nMade from the code: what `/metrics` of an agent or an environment can have. [Watching agents]"
        "(watching.md) says how to ask for it, who may, and what is left out on purpose.\n\n"
    )
    return intro + table(["metric", "kind", "label", "of", "what it says"], rows)

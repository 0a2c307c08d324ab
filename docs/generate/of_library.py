"""The names of the library, with what each says about itself."""

from __future__ import annotations

import inspect
import re
from typing import Any

import agentd
from generate.text import paragraphs


def page() -> str:
    """Every name that `from agentd import …` gives."""
    names = [name for name in vars(agentd)["__all__"] if not name.startswith("_")]
    intro = (
        "# Library names\n\nMade from the code: what `from agentd import …` gives. [The library](library.md) shows how "
        "they are used, and [write a policy](writing-a-policy.md) how an algorithm of your own is; every block is run "
        "by a test.\n"
    )
    return "\n".join([intro, *(_entry(name, getattr(agentd, name)) for name in names)])


def _entry(name: str, value: Any) -> str:
    if not callable(value):
        return f"## {name}\n\nA constant: `{value!r}`.\n"
    about = paragraphs(inspect.getdoc(value) or "")
    methods = "".join(_method(part, found) for part, found in _public(value)) if inspect.isclass(value) else ""
    return f"## {name}\n\n```python\n{name}{_signature(value)}\n```\n\n{about}{methods}\n"


def _public(cls: type) -> list[tuple[str, Any]]:
    return [
        (name, value)
        for name, value in vars(cls).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, property))
        and inspect.getdoc(value)
    ]


def _method(name: str, value: Any) -> str:
    shown = f".{name}" if isinstance(value, property) else " ".join(f".{name}{_signature(value)}".split())
    about = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return f"\n- `{shown}`: {paragraphs(about).strip()}"


def _wrapped(signature: str) -> str:
    """One line for each parameter, where it would not fit a page."""
    if len(signature) <= 70:
        return signature
    inside, _, after = signature.removeprefix("(").rpartition(")")
    lines = re.sub(r", (?=\*{0,2}\w+[:=,]|\*,|\*{1,2}\w+)", ",\n    ", inside)  # commas between parameters only
    return f"(\n    {lines},\n){after}"


def _signature(value: Any) -> str:
    try:
        written = re.sub(
            r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value))
        )  # annotations are text in our code
        return _wrapped(re.sub(r"^\(self(, )?", "(", written))
    except (TypeError, ValueError):
        return "(message)"  # an exception that adds nothing to Exception

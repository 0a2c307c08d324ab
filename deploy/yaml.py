"""Plain values as YAML, for people to read: mappings and lists in blocks, long texts as they are.

Strings are quoted as JSON quotes them, which YAML reads the same way: no NO that means false, no 1e3 that is a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_RESERVED = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def to_yaml(documents: Sequence[Mapping[str, Any]]) -> str:
    """A stream of documents."""
    return "".join("---\n" + "".join(f"{line}\n" for line in _mapping(document)) for document in documents)


def _mapping(values: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        yield from _entry(f"{_scalar(key)}:", value)


def _entry(head: str, value: Any) -> Iterator[str]:
    """`head` and a value: beside it where it is short, below it where it is not."""
    if isinstance(value, Mapping) and value:
        yield head
        yield from (f"  {line}" for line in _mapping(value))
    elif isinstance(value, list) and value:
        yield head
        for item in value:
            yield from _item(item)
    elif isinstance(value, str) and _is_block(value):
        yield f"{head} |"
        yield from (f"  {line}" for line in value.removesuffix("\n").split("\n"))
    else:
        yield f"{head} {_scalar(value)}"


def _item(item: Any) -> Iterator[str]:
    if isinstance(item, Mapping) and item:
        lines = list(_mapping(item))
        yield f"- {lines[0]}"
        yield from (f"  {line}" for line in lines[1:])
    else:
        yield f"- {_scalar(item)}"


def _is_block(text: str) -> bool:
    """Whether a text can stand as it is: several lines, one newline at its end, nothing that YAML would bend."""
    body = text.removesuffix("\n")
    plain = all(line == line.rstrip() and line.isprintable() for line in body.split("\n"))
    return text != body and plain and not body.startswith((" ", "\n")) and not body.endswith("\n") and bool(body)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return json.dumps(value, ensure_ascii=False)

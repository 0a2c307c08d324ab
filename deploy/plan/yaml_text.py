"""Plain values as YAML that people like to read; every program that reads YAML reads the same values back.

Pure and deterministic. Only what our documents hold: mappings, lists, strings (files as blocks of lines), whole numbers
and booleans.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"(?:[A-Za-z/]|\.{1,2}/|--?[A-Za-z])[\w./=:,-]*(?<!:)", re.ASCII)
_MEANS_SOMETHING_ELSE = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"}
_ANCHOR = "common"


def to_yaml(value: Mapping[str, Any]) -> str:
    """A document of its own."""
    return "".join(f"{line}\n" for line in _mapping(value, ""))


def to_yaml_stream(documents: Sequence[Mapping[str, Any]]) -> str:
    """Documents one after the other, as kubectl takes them."""
    return "".join(f"---\n{to_yaml(document)}" for document in documents)


def with_common_part(document: Mapping[str, Any], group: str, name: str) -> str:
    """The document with what all members of `group` have in common written once, under `name`, and merged into each."""
    members: Mapping[str, Mapping[str, Any]] = document[group]
    first, *others = members.values()
    shared = {key: value for key, value in first.items() if others and all(o.get(key) == value for o in others)}
    if not shared:
        return to_yaml(document)
    head = {key: value for key, value in document.items() if key == "version"}
    lines = [*_mapping(head, ""), f"{name}: &{_ANCHOR}", *_mapping(shared, "  "), "", f"{group}:"]
    for member, content in members.items():
        own = {key: value for key, value in content.items() if key not in shared}
        lines += [f"  {_scalar(member)}:", f"    <<: *{_ANCHOR}", *_mapping(own, "    ")]
    rest = {key: value for key, value in document.items() if key not in (group, *head)}
    return "".join(f"{line}\n" for line in [*lines, "", *_mapping(rest, "")])


def _mapping(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, item in value.items():
        yield from _entry(f"{indent}{_scalar(key)}:", item, indent)


def _entry(start: str, item: Any, indent: str) -> Iterator[str]:
    if isinstance(item, Mapping) and item:
        yield start
        yield from _mapping(item, indent + "  ")
    elif _is_list(item) and item:
        yield start
        for one in item:
            yield from _list_item(one, indent + "  ")
    elif isinstance(item, str) and _is_block(item):
        yield f"{start} |"
        yield from (f"{indent}  {line}" if line else "" for line in item.removesuffix("\n").split("\n"))
    else:
        yield f"{start} {_scalar(item)}"


def _list_item(item: Any, indent: str) -> Iterator[str]:
    if isinstance(item, Mapping) and item:
        first, *rest = _mapping(item, indent + "  ")
        yield f"{indent}- {first.lstrip()}"
        yield from rest
    else:
        yield f"{indent}- {_scalar(item)}"


def _scalar(value: Any) -> str:
    """As it stands where nothing else could be meant; in JSON, which is YAML too, otherwise."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _MEANS_SOMETHING_ELSE:
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_block(text: str) -> bool:
    """Whether a text of lines can stand as it is: nothing in it, or at its ends, that YAML would bend."""
    body = text.removesuffix("\n")
    plain = all(line == line.rstrip() and line.isprintable() for line in body.split("\n"))
    return text != body and plain and bool(body) and not body.startswith((" ", "\n")) and not body.endswith("\n")


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)

"""Values from a run directory for a page: short, flat, and text without what drives a terminal.

The page puts text into the document as text and never as markup; this bounds how much of it there is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentd.untrusted import printable, read_json_in

LONGEST_TEXT = 300
MOST_ENTRIES = 200
DEEPEST = 4
_LARGEST = 2**53
"""Whole numbers beyond it are no numbers to JavaScript."""


def tamed(value: Any, depth: int = 0) -> Any:
    """The value with every text cut and made printable, and with few entries."""
    if isinstance(value, (Mapping, list, tuple)):
        return "…" if depth >= DEEPEST else _tamed_inside(value, depth + 1)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):  # booleans, too
        return value if abs(value) < _LARGEST else str(value)[:40]
    return None if value is None else _short(str(value))


def _tamed_inside(value: Mapping[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> Any:
    if isinstance(value, Mapping):
        return {_short(str(key)): tamed(item, depth) for key, item in list(value.items())[:MOST_ENTRIES]}
    return [tamed(item, depth) for item in value[:MOST_ENTRIES]]


def _short(text: str) -> str:
    return printable(text[:LONGEST_TEXT]) + ("…" if len(text) > LONGEST_TEXT else "")


def read_object(place: Path, name: str) -> dict[str, Any]:
    """The object in a JSON file of a run directory; empty where there is none that can be read."""
    try:
        content = read_json_in(place, name)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}

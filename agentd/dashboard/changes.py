"""What differs between two states of a page, so that only this is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of `after` that `before` lacks or has otherwise; objects are compared inside, lists as wholes.

    Nothing is ever taken away from a state: what is gone is null in the one after.
    """
    told = {}
    for key, value in after.items():
        was = before.get(key)
        if isinstance(value, Mapping) and isinstance(was, Mapping):
            if inner := changes(was, value):
                told[key] = inner
        elif key not in before or was != value:
            told[key] = value
    return told

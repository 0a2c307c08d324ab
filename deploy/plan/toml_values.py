"""Plain values as a TOML file that `--config` reads. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def to_toml(values: Mapping[str, Any]) -> str:
    """One key per line; what is None is left out."""
    return "".join(f"{key} = {_value(value)}\n" for key, value in values.items() if value is not None)


def _value(value: Any) -> str:
    """A value as TOML writes it; strings, lists and booleans are as in JSON, numbers as Python writes them."""
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)

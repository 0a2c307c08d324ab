"""JSON of which every value can be meant in one way only: nothing twice, no fractions, exact keys. Pure.

Complaints name keys of the file and never values: one of them may be a secret.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from agentd.untrusted import require_few

KEY_BYTES = 32


def strict_json(content: bytes) -> Any:
    """What a text says; ValueError, in few words, where it is none or says something twice."""
    require_few(content)
    try:
        return json.loads(
            content.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number, parse_float=_no_number
        )
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8") from None
    except json.JSONDecodeError as fault:
        raise ValueError(f"it is not JSON (line {fault.lineno})") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def exactly(data: Any, keys: tuple[str, ...], what: str) -> dict[str, Any]:
    """An object with these keys and no others."""
    if not isinstance(data, dict):
        raise ValueError(f"{what} must be a JSON object")
    if missing := [key for key in keys if key not in data]:
        raise ValueError(f"{what} must have {', '.join(missing)}")
    if len(data) > len(keys):
        raise ValueError(f"{what} must have {', '.join(keys)} and nothing else")
    return {key: data[key] for key in keys}


def key_bytes(value: Any, name: str, length: int = KEY_BYTES) -> bytes:
    """The bytes that hexadecimal digits in lower case say, none of them all zeros."""
    try:
        if type(value) is str and len(value) == 2 * length and value == value.lower() and value.isalnum():
            found = bytes.fromhex(value)
            if any(found):
                return found
    except ValueError:
        pass
    raise ValueError(f"{name} must be {2 * length} hexadecimal digits in lower case, and not all zeros")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it says something twice")
    return found


def _no_number(_text: str) -> NoReturn:
    raise ValueError("it holds a number that is not whole")

"""The bytes of terms, and the digest by which two who hold them know that they hold the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from agentd.core.terms import IdRange, Terms
from agentd.wire.codec import encode_plain
from agentd.wire.terms import FIELDS, POLICY_FIELDS, write_terms


def terms_bytes(terms: Terms) -> bytes:
    """The array as it stands inside a welcome: there is only one way to write it."""
    return encode_plain(write_terms(terms))


def digest(terms: Terms) -> str:
    """64 hexadecimal digits."""
    return hashlib.sha256(terms_bytes(terms)).hexdigest()


def difference(ours: Terms, theirs: Terms) -> str | None:
    """The first thing in which terms differ, in words; None where they are the same."""
    for field, own, other in zip(FIELDS, write_terms(ours), write_terms(theirs), strict=True):
        if own == other:
            continue
        return (
            _policy_difference(own, other) if field == "policies" else f"{field} is {_shown(own)}, not {_shown(other)}"
        )
    return None


def _policy_difference(ours: list[Any], theirs: list[Any]) -> str:
    for own, other in zip(ours, theirs, strict=False):
        for field, mine, given in zip(POLICY_FIELDS, own, other, strict=True):
            if mine != given:
                return f"{field} of agents from {own[-1][0][0]} on is {_shown(mine)}, not {_shown(given)}"
    return f"there are {len(ours)} policies, not {len(theirs)}"


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return ranges_text([(first, last) for first, last in value])
    return "open" if value is None or value == "" else f"{value}"


def ranges_text(ranges: Sequence[IdRange]) -> str:
    """As in 0…4, 7."""
    return ", ".join(f"{first}" if first == last else f"{first}…{last}" for first, last in ranges)

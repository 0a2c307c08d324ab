"""Terms as a JSON object in a file: the second of their carriers, for operators who do not leave them to a welcome.

They are public, so anybody may read the file. Whoever reads it does not trust it: it may be long, deep or no file at
all, and everything in it is held to the rules of the wire.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from agentd.core.terms import Clock, Terms
from agentd.errors import ConfigurationError, PeerError
from agentd.files import PUBLIC, replace_text
from agentd.untrusted import read_named
from agentd.wire.frame import Reason
from agentd.wire.terms import POLICY_FIELDS, read_terms, write_terms

FORMAT = 1
MAX_FILE_BYTES = 256 << 10
"""Far more than the longest terms take, however they are indented."""

_KEYS = ("format", "run", "arms", "horizon", "lifetime", "clock", "interval_us", "start_ms", "beacon", "policies")
_CLOCKS = {None: Clock.OPEN, "lockstep": Clock.LOCKSTEP, "free": Clock.FREE}
_NAMES = {clock: name for name, clock in _CLOCKS.items()}
_WHAT_IS_WRONG = {
    Reason.TYPE: "is of another type than it must be",
    Reason.RANGE: "is out of range",
    Reason.LENGTH: "has another length than it must have",
    Reason.SHAPE: "has another form than it must have, or too many entries",
}


def read_terms_file(path: str | Path, *, or_draft: bool = False) -> Terms:
    """The terms that a file holds; ConfigurationError, in one line, where it holds none.

    A draft has no id yet (zeros); it is for an environment, which then draws one.
    """
    try:
        return _read(_content(path), or_draft)
    except OSError as fault:
        _refuse(path, fault.strerror or str(fault))
    except RecursionError:
        _refuse(path, "it is nested too deeply")
    except UnicodeDecodeError:
        _refuse(path, "it is not text in UTF-8")
    except json.JSONDecodeError as fault:
        _refuse(path, f"it is not JSON: {fault}")
    except ValueError as fault:
        _refuse(path, str(fault))


def read_terms_text(text: str) -> Terms:
    """The terms or the draft in a text, which says itself what others have in a file."""
    try:
        return _read(text, or_draft=True)
    except (ValueError, RecursionError) as fault:
        _refuse("--terms", str(fault))


def write_terms_file(path: str | Path, terms: Terms) -> None:
    """Put terms into a file, all of them or nothing."""
    try:
        replace_text(Path(path), terms_text(terms), mode=PUBLIC)
    except OSError as fault:
        raise ConfigurationError(f"cannot write {path}: {fault.strerror}; name another place") from None


def terms_text(terms: Terms) -> str:
    """What stands in the file."""
    return json.dumps(terms_to_json(terms), indent=2) + "\n"


def _read(text: str, or_draft: bool) -> Terms:
    if len(text) > MAX_FILE_BYTES:
        raise ValueError(f"it is longer than {MAX_FILE_BYTES} bytes")
    terms = terms_from_json(json.loads(text, object_pairs_hook=_once, parse_constant=_no_number))
    if not (terms.drawn or or_draft):
        raise ValueError("it is a draft without a run's id, which only an environment completes")
    return terms


def terms_to_json(terms: Terms) -> dict[str, Any]:
    """Plain values, named as people would name them."""
    run, arms, horizon, lifetime, _, interval, start, beacon, policies = write_terms(terms)
    return {
        "format": FORMAT,
        "run": run.hex(),
        "arms": arms,
        "horizon": horizon,
        "lifetime": lifetime,
        "clock": _NAMES[terms.clock],
        "interval_us": interval,
        "start_ms": start,
        "beacon": beacon.hex(),
        "policies": [dict(zip(POLICY_FIELDS, policy, strict=True)) for policy in policies],
    }


def terms_from_json(data: Any) -> Terms:
    """The terms that `terms_to_json` described; ValueError, naming the key, where it cannot be."""
    values = _exactly(data, _KEYS, "the terms")
    if type(values["format"]) is not int or values["format"] != FORMAT:
        raise ValueError(f"its format is {values['format']!r:.40}, and this program knows {FORMAT}")
    clock, policies = values["clock"], values["policies"]
    if clock is not None and (type(clock) is not str or clock not in _CLOCKS):
        raise ValueError(f"clock must be null, lockstep or free, got {clock!r:.40}")
    if type(policies) is not list:
        raise ValueError("policies must be a list")
    raw = [
        _binary(values["run"], "run"),
        *(values[key] for key in ("arms", "horizon", "lifetime")),
        int(_CLOCKS[clock]),
        *(values[key] for key in ("interval_us", "start_ms")),
        _binary(values["beacon"], "beacon"),
        [_policy(policy) for policy in policies],
    ]
    try:
        return read_terms(raw)
    except PeerError as fault:
        field = str(fault).partition(":")[0]
        raise ValueError(f"{field} {_WHAT_IS_WRONG[Reason(fault.reason)]}") from None


def _policy(data: Any) -> list[Any]:
    values = _exactly(data, POLICY_FIELDS, "a policy")
    return [*(values | {key: _fraction(values[key]) for key in ("epsilon", "v")}).values()]


def _fraction(value: Any) -> Any:
    """1 is what people write for 1.0."""
    try:
        return float(value) if type(value) is int else value
    except OverflowError:
        return math.inf


def _exactly(data: Any, keys: tuple[str, ...], what: str) -> dict[str, Any]:
    """The values of these keys in this order, if there are no others."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{what} must be a JSON object")
    if missing := [key for key in keys if key not in data]:
        raise ValueError(f"{what} must have {', '.join(missing)}")
    if unknown := sorted(set(data) - set(keys)):
        raise ValueError(f"{what} must not have {unknown[0]!r:.40}")
    return {key: data[key] for key in keys}


def _binary(value: Any, key: str) -> bytes:
    try:
        if type(value) is str and value.isalnum():  # fromhex passes over blanks, and then two files would be one run
            return bytes.fromhex(value)
    except ValueError:
        pass
    raise ValueError(f"{key} must be hexadecimal digits, got {value!r:.40}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it says something twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")


def _content(path: str | Path) -> str:
    """At most so much of a file as terms can have; nobody waits for a pipe."""
    return read_named(path, MAX_FILE_BYTES).decode("utf-8")


def _refuse(path: str | Path, why: str) -> NoReturn:
    raise ConfigurationError(f"cannot take the terms in {path}: {why}; make them anew with agentd terms make") from None

"""Terms as the array of section 5 of PROTOCOL.md, and back.

Values only; bytes are made and read by `codec`. Whatever somebody sends, reading ends in terms within all limits or in
`PeerError(reason)`, whose message names the field.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from agentd.core.message import MAX_AGENT_ID, MAX_ARMS, MAX_LIFETIME, MAX_TRIAL
from agentd.core.terms import BEACON_BYTES, RUN_BYTES, Clock, IdRange, PolicyTerms, Terms
from agentd.errors import PeerError
from agentd.wire.frame import Reason

MAX_POLICIES = 64
MAX_ID_RANGES = 1024
"""Over all policies."""
MAX_ALGORITHM_CHARS = 32
MAX_TAG = 255
MAX_TIME = (1 << 53) - 1
MAX_TERMS_BYTES = 11 << 10
"""What the limits above come to: a welcome has room for all terms that there can be."""

FIELDS = ("run", "arms", "horizon", "lifetime", "clock", "interval", "start", "beacon", "policies")
POLICY_FIELDS = ("algorithm", "tag", "epsilon", "v", "ids")

_Rule = Callable[[Any, str], Any]
"""Turns what was read into the value of a field, or raises PeerError; the text is the field's name."""


def read_terms(raw: Any) -> Terms:
    """The terms that an array says."""
    values = _fields(raw, "terms", _RULES)
    terms = Terms(
        run=values["run"],
        arms=values["arms"],
        horizon=values["horizon"],
        lifetime=values["lifetime"],
        clock=Clock(values["clock"]),
        interval_us=values["interval"],
        start_ms=values["start"],
        beacon=values["beacon"],
        policies=values["policies"],
    )
    if terms.interval_us and terms.clock is not Clock.FREE:
        _refuse(Reason.RANGE, "interval")  # two ways to say the same would be two digests
    return terms


def write_terms(terms: Terms) -> list[Any]:
    """The array that says these terms; those that `read_terms` would refuse are a fault of the caller."""
    raw = [
        terms.run,
        terms.arms,
        terms.horizon,
        terms.lifetime,
        int(terms.clock),
        terms.interval_us,
        terms.start_ms,
        terms.beacon,
        [
            [policy.algorithm, policy.tag, policy.epsilon, policy.v, [list(pair) for pair in policy.ids]]
            for policy in terms.policies
        ],
    ]
    try:
        read_terms(raw)
    except PeerError as error:
        raise ValueError(f"these terms break the protocol: {error}") from error
    return raw


def _refuse(reason: Reason, field: str) -> NoReturn:
    raise PeerError(reason, f"{field}: {reason}")


def _fields(raw: Any, name: str, rules: dict[str, _Rule]) -> dict[str, Any]:
    if type(raw) is not list or len(raw) != len(rules):
        _refuse(Reason.SHAPE, name)
    return {field: rule(value, field) for (field, rule), value in zip(rules.items(), raw, strict=True)}


def _binary(length: int) -> _Rule:
    def read(raw: Any, field: str) -> bytes:
        if type(raw) is not bytes:
            _refuse(Reason.TYPE, field)
        return raw if len(raw) == length else _refuse(Reason.LENGTH, field)

    return read


def _whole(low: int, high: int) -> _Rule:
    def read(raw: Any, field: str) -> int:
        if type(raw) is not int:
            _refuse(Reason.TYPE, field)
        return raw if low <= raw <= high else _refuse(Reason.RANGE, field)

    return read


def _between(low: float, high: float) -> _Rule:
    """Excluding both; no NaN is between anything."""

    def read(raw: Any, field: str) -> float:
        if type(raw) is not float:
            _refuse(Reason.TYPE, field)
        return raw if low < raw < high else _refuse(Reason.RANGE, field)

    return read


def _or_nil(rule: _Rule) -> _Rule:
    return lambda raw, field: None if raw is None else rule(raw, field)


def _algorithm(raw: Any, field: str) -> str:
    if type(raw) is not str:
        _refuse(Reason.TYPE, field)
    # It ends up in logs and terminals; and a character that is one byte keeps the longest terms short.
    fine = len(raw) <= MAX_ALGORITHM_CHARS and raw.isascii() and raw.isprintable()
    return raw if fine else _refuse(Reason.RANGE, field)


_id = _whole(0, MAX_AGENT_ID)


def _ids(raw: Any, field: str) -> tuple[IdRange, ...]:
    if type(raw) is not list or len(raw) > MAX_ID_RANGES or any(type(e) is not list or len(e) != 2 for e in raw):
        _refuse(Reason.SHAPE, field)
    ranges = tuple((_id(first, field), _id(last, field)) for first, last in raw)
    if not ranges or any(first > last for first, last in ranges) or not _apart(ranges, gap=1):
        _refuse(Reason.RANGE, field)
    return ranges


def _apart(ranges: Sequence[IdRange], *, gap: int) -> bool:
    """Whether each begins so far behind the end of the one before that as many ids are between them."""
    return all(after[0] - before[1] > gap for before, after in itertools.pairwise(ranges))


def _policies(raw: Any, field: str) -> tuple[PolicyTerms, ...]:
    if type(raw) is not list or len(raw) > MAX_POLICIES:
        _refuse(Reason.SHAPE, field)
    policies = tuple(PolicyTerms(**_fields(one, field, _POLICY_RULES)) for one in raw)
    every = sorted(_ranges(policies))
    if len(every) > MAX_ID_RANGES or not _apart(every, gap=0):
        _refuse(Reason.RANGE, field)
    return policies


def _ranges(policies: Sequence[PolicyTerms]) -> Iterator[IdRange]:
    return (pair for policy in policies for pair in policy.ids)


_POLICY_RULES: dict[str, _Rule] = dict(
    zip(
        POLICY_FIELDS,
        (
            _algorithm,
            _or_nil(_whole(0, MAX_TAG)),
            _or_nil(_between(0.0, math.inf)),
            _or_nil(_between(1.0, 1.5)),
            _ids,
        ),
        strict=True,
    )
)
_RULES: dict[str, _Rule] = dict(
    zip(
        FIELDS,
        (
            _binary(RUN_BYTES),
            _whole(1, MAX_ARMS),
            _whole(0, MAX_TRIAL),
            _or_nil(_whole(0, MAX_LIFETIME)),
            _whole(min(Clock), max(Clock)),
            _whole(0, MAX_TIME),
            _whole(0, MAX_TIME),
            _binary(BEACON_BYTES),
            _policies,
        ),
        strict=True,
    )
)

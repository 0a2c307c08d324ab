"""What agents and the environment service say to each other. PROTOCOL.md says what each field means.

Values only; bytes are made and read by `codec`. Every message is an array [version, type, field, …] whose fields stand
in the order of the dataclass; `_FIELDS` holds the rule of each, and one rule serves both directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NoReturn

from agentd.core.grid import UNIT
from agentd.core.message import MAX_AGENT_ID, MAX_ARMS, MAX_INCARNATION, MAX_TRIAL
from agentd.errors import PeerError
from agentd.wire.frame import RUN_BYTES, VERSION, Reason

MAX_ENVIRONMENT_BYTES = 8 << 10
MAX_COUNT = (1 << 53) - 1
MAX_REASONS = 32
MAX_REASON_CHARS = 32
MAX_TEXT_CHARS = 200
MICRO = 1_000_000
"""Units of `Report.epsilon_micro` in an ε of 1."""


class Refusal(IntEnum):
    """Why the environment refuses; the numbers are on the wire, so they are only ever appended."""

    VERSION = 1
    MALFORMED = 2
    UNKNOWN_AGENT = 3
    ARM_OUT_OF_RANGE = 4
    TRIAL_CONFLICT = 5
    """The same trial was pulled with another arm."""
    TRIAL_OUT_OF_ORDER = 6
    RUN_OVER = 7
    DUPLICATE_AGENT = 8
    """Another connection already speaks for this agent."""


@dataclass(frozen=True, slots=True)
class Hello:
    """An agent introduces itself; answered by `Welcome`."""

    agent: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class Welcome:
    """All that an agent may know of the bandit; nothing about its means."""

    run: bytes
    arms: int
    low: float
    high: float
    horizon: int
    next_trial: int


@dataclass(frozen=True, slots=True)
class Pull:
    """An agent pulls an arm; answered by `Reward`, and asked again, by the same one."""

    agent: int
    trial: int
    arm: int


@dataclass(frozen=True, slots=True)
class Reward:
    """What the pull paid, as an integer on the grid."""

    trial: int
    arm: int
    reward: int


@dataclass(frozen=True, slots=True)
class Report:
    """An agent's own counters, each a total since its start; answered by `Noted`."""

    agent: int
    trial: int
    messages: int
    bytes: int
    dropped: tuple[tuple[str, int], ...]
    epsilon_micro: int
    done: bool


@dataclass(frozen=True, slots=True)
class Noted:
    """The report of this trial was taken."""

    trial: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Is anybody there? Answered by `Pong`."""


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping: the service is there."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The run has not begun, because so many agents are missing; ask for this trial again a little later."""

    trial: int
    missing: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The environment did not do what was asked, and says why."""

    code: Refusal
    text: str


Request = Hello | Pull | Report | Ping
Reply = Welcome | Reward | Noted | Pong | Refused | Wait
EnvironmentMessage = Request | Reply

_Rule = Callable[[Any], Any]
"""Turns what msgpack read into the value of a field, or raises PeerError."""


def _refuse(reason: Reason) -> NoReturn:
    raise PeerError(reason)


def _whole(low: int, high: int) -> _Rule:
    def read(raw: Any) -> int:
        if type(raw) is not int:
            _refuse(Reason.TYPE)
        return raw if low <= raw <= high else _refuse(Reason.RANGE)

    return read


def _text(limit: int) -> _Rule:
    def read(raw: Any) -> str:
        if type(raw) is not str:
            _refuse(Reason.TYPE)
        # Printable: these strings end up in logs and terminals, where control characters do harm.
        return raw if len(raw) <= limit and raw.isprintable() else _refuse(Reason.RANGE)

    return read


def _run(raw: Any) -> bytes:
    if type(raw) is not bytes:
        _refuse(Reason.TYPE)
    return raw if len(raw) == RUN_BYTES else _refuse(Reason.LENGTH)


def _bound(raw: Any) -> float:
    return raw if type(raw) is float else _refuse(Reason.TYPE)


_reason_name, _reason_count = _text(MAX_REASON_CHARS), _whole(0, MAX_COUNT)


def _dropped(raw: Any) -> tuple[tuple[str, int], ...]:
    if type(raw) is not list or len(raw) > MAX_REASONS:
        _refuse(Reason.SHAPE)
    if any(type(pair) is not list or len(pair) != 2 for pair in raw):
        _refuse(Reason.SHAPE)
    pairs = tuple((_reason_name(name), _reason_count(count)) for name, count in raw)
    return pairs if len(dict(pairs)) == len(pairs) else _refuse(Reason.RANGE)


_flag = _whole(0, 1)
_code = _whole(min(Refusal), max(Refusal))
_agent, _arm, _count = _whole(0, MAX_AGENT_ID), _whole(0, MAX_ARMS - 1), _whole(0, MAX_COUNT)
_trial, _trial_or_none, _next_trial = _whole(1, MAX_TRIAL), _whole(0, MAX_TRIAL), _whole(1, MAX_TRIAL + 1)

_FIELDS: dict[int, tuple[type[EnvironmentMessage], tuple[_Rule, ...]]] = {
    1: (Hello, (_agent, _whole(0, MAX_INCARNATION))),
    2: (Welcome, (_run, _whole(1, MAX_ARMS), _bound, _bound, _trial_or_none, _next_trial)),
    3: (Pull, (_agent, _trial, _arm)),
    4: (Reward, (_trial, _arm, _whole(0, UNIT))),
    5: (
        Report,
        (_agent, _trial_or_none, _count, _count, _dropped, _count, lambda raw: bool(_flag(raw))),
    ),
    6: (Noted, (_trial_or_none,)),
    7: (Ping, ()),
    8: (Pong, ()),
    9: (Refused, (lambda raw: Refusal(_code(raw)), _text(MAX_TEXT_CHARS))),
    10: (Wait, (_trial, _count)),
}
"""Type number → class and rules; the numbers are on the wire, so they are only ever appended."""
_TYPE_OF = {cls: number for number, (cls, _) in _FIELDS.items()}


FREQUENT: dict[type[EnvironmentMessage], tuple[tuple[int, int], ...]] = {
    Pull: ((0, MAX_AGENT_ID), (1, MAX_TRIAL), (0, MAX_ARMS - 1)),
    Reward: ((1, MAX_TRIAL), (0, MAX_ARMS - 1), (0, UNIT)),
}
"""The two messages of every trial: whole numbers only, in these ranges."""


def read_fields(fields: list[Any]) -> EnvironmentMessage:
    """The message that an array [version, type, field, …] says; the caller has checked the version."""
    if len(fields) < 2:
        _refuse(Reason.SHAPE)
    number = fields[1]
    if type(number) is not int:
        _refuse(Reason.TYPE)
    if number not in _FIELDS:
        _refuse(Reason.TAG)
    cls, rules = _FIELDS[number]
    if len(fields) != 2 + len(rules):
        _refuse(Reason.SHAPE)
    message = cls(*(rule(raw) for rule, raw in zip(rules, fields[2:], strict=True)))
    if type(message) is Welcome and not 0.0 < message.high - message.low < math.inf:
        _refuse(Reason.RANGE)  # rewards are divided by the difference; no NaN and no infinity passes this
    return message


def type_number(cls: type[EnvironmentMessage]) -> int:
    """What stands for this kind of message on the wire."""
    return _TYPE_OF[cls]


def values_of(message: EnvironmentMessage) -> list[Any]:
    """The values of its fields; `astuple` copies deeply and takes longer than all the rest."""
    return [getattr(message, name) for name in type(message).__slots__]


def write_fields(message: EnvironmentMessage) -> list[Any]:
    """The array that says this message; one that `read_fields` would refuse is a fault of the caller."""
    fields = [VERSION, type_number(type(message)), *map(_plain, values_of(message))]
    try:
        read_fields(fields)
    except PeerError as error:
        raise ValueError(f"{message} breaks the protocol: {error}") from error
    return fields


def _plain(value: Any) -> Any:
    """A field as msgpack writes it: no bool, no enum, no tuple."""
    if type(value) is bool or type(value) is Refusal:
        return int(value)
    if type(value) is tuple:
        return [list(pair) for pair in value]
    return value

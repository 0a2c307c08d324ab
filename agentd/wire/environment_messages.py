"""What agents and the environment service say to each other. PROTOCOL.md says what each field means.

Values only; bytes are made and read by `codec`. Every message is an array [version, type, field, …] whose fields stand
in the order of the dataclass; `_FIELDS` holds the rule of each, and one rule serves both directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, NoReturn

from agentd.core.grid import UNIT
from agentd.core.message import MAX_AGENT_ID, MAX_ARMS, MAX_INCARNATION, MAX_TRIAL, TOKEN_BYTES
from agentd.core.terms import Terms
from agentd.core.trust.blame import Blame, Why
from agentd.core.trust.regard import UNTOLD, Regard
from agentd.errors import PeerError
from agentd.wire.frame import VERSION, Reason
from agentd.wire.terms import read_terms, write_terms

MAX_ENVIRONMENT_BYTES = 8 << 10
MAX_WELCOME_BYTES = 16 << 10
MAX_LIVES = 64
MAX_BLAMES = 16
MAX_REGARDS = 64
MAX_COUNT = (1 << 53) - 1
MAX_REASONS = 32
MAX_REASON_CHARS = 32
MAX_TEXT_CHARS = 200
NO_TOKEN = bytes(TOKEN_BYTES)
"""Where keys hold the seats."""
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
    """No longer used: seats are held by secrets, whatever connection they come from."""
    WRONG_TOKEN = 9
    """The seat has another token, or the operator's secret is another."""
    OLD_INCARNATION = 10
    """The incarnation is not the newest of this agent."""


Life = tuple[int, int]
"""An agent and the incarnation that it changed to."""


@dataclass(frozen=True, slots=True)
class Hello:
    """An agent introduces itself, and takes its seat if that is free; answered by `Welcome`."""

    agent: int
    token: bytes = field(repr=False)
    incarnation: int | None
    """None: it kept no state, or does not trust it, and is given a new one."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """All that an agent may know of the bandit; nothing about its means."""

    terms: Terms
    low: float
    high: float
    next_trial: int
    incarnation: int
    age_ms: int
    """Of the run."""
    round: int = 0
    """That the run is in, as far as enough agents have said; 0: nobody yet, or there are no rounds."""

    @property
    def run(self) -> bytes:
        return self.terms.run

    @property
    def arms(self) -> int:
        return self.terms.arms

    @property
    def horizon(self) -> int:
        return self.terms.horizon


class Pull(NamedTuple):
    """An agent pulls an arm; answered by `Reward`, and asked again, by the same one, until it is committed.

    A tuple, and so is `Reward`: there is one of each in every trial, and tuples are made fastest.
    """

    agent: int
    token: bytes
    trial: int
    arm: int
    committed: int
    """The last trial that will never be asked for again."""

    def __repr__(self) -> str:
        """Without the token."""
        return f"Pull(agent={self.agent}, trial={self.trial}, arm={self.arm}, committed={self.committed})"


class Reward(NamedTuple):
    """What the pull paid, as an integer on the grid."""

    trial: int
    arm: int
    reward: int


@dataclass(frozen=True, slots=True)
class Report:
    """An agent's own counters, each a total since its start; answered by `Noted`."""

    agent: int
    token: bytes = field(repr=False)
    trial: int
    """It is committed."""
    messages: int
    bytes: int
    dropped: tuple[tuple[str, int], ...]
    epsilon_micro: int
    done: bool
    returns: int
    """How many changes of incarnations the agent knows."""
    round: int = 0
    """That the agent is in; 0: before the first, or there are no rounds."""
    blames: tuple[Blame, ...] = ()
    """What it holds against its neighbours."""
    regards: tuple[Regard, ...] = ()
    """How it sees them."""


@dataclass(frozen=True, slots=True)
class Noted:
    """The report of this trial was taken; and what the agent did not know of the others' lives."""

    trial: int
    returns: int
    """How many changes of incarnations it knows after these."""
    lives: tuple[Life, ...] = ()
    round: int = 0
    """As in `Welcome`."""


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


@dataclass(frozen=True, slots=True)
class Release:
    """The operator frees the seat of an agent whose token is lost; answered by `Released`."""

    agent: int
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Released:
    """The seat is free; its next holder begins with this trial."""

    agent: int
    next_trial: int


Request = Hello | Pull | Report | Ping | Release
Reply = Welcome | Reward | Noted | Pong | Refused | Wait | Released
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


def _token(raw: Any) -> bytes:
    if type(raw) is not bytes:
        _refuse(Reason.TYPE)
    return raw if len(raw) == TOKEN_BYTES else _refuse(Reason.LENGTH)


def _bound(raw: Any) -> float:
    return raw if type(raw) is float else _refuse(Reason.TYPE)


_reason_name, _reason_count = _text(MAX_REASON_CHARS), _whole(0, MAX_COUNT)


def _dropped(raw: Any) -> tuple[tuple[str, int], ...]:
    pairs = tuple((_reason_name(name), _reason_count(count)) for name, count in _pairs(raw, MAX_REASONS))
    return pairs if len(dict(pairs)) == len(pairs) else _refuse(Reason.RANGE)


def _pairs(raw: Any, limit: int) -> list[list[Any]]:
    if type(raw) is not list or len(raw) > limit:
        _refuse(Reason.SHAPE)
    return raw if all(type(pair) is list and len(pair) == 2 for pair in raw) else _refuse(Reason.SHAPE)


def _lives(raw: Any) -> tuple[Life, ...]:
    lives = tuple((_agent(agent), _incarnation(life)) for agent, life in _pairs(raw, MAX_LIVES))
    return lives if len(dict(lives)) == len(lives) else _refuse(Reason.RANGE)


def _blames(raw: Any) -> tuple[Blame, ...]:
    if type(raw) is not list or len(raw) > MAX_BLAMES:
        _refuse(Reason.SHAPE)
    if not all(type(blame) is list and len(blame) == 3 for blame in raw):
        _refuse(Reason.SHAPE)
    blames = tuple(Blame(_agent(agent), Why(_why(why)), _count(times)) for agent, why, times in raw)
    told = {(blame.neighbour, blame.why) for blame in blames}
    return blames if len(told) == len(blames) else _refuse(Reason.RANGE)


def _regards(raw: Any) -> tuple[Regard, ...]:
    if type(raw) is not list or len(raw) > MAX_REGARDS:
        _refuse(Reason.SHAPE)
    if not all(type(regard) is list and len(regard) == 4 for regard in raw):
        _refuse(Reason.SHAPE)
    regards = tuple(
        Regard(_agent(agent), _trial_or_none(behind), _count(frames), _trust(trust))
        for agent, behind, frames, trust in raw
    )
    return regards if len({regard.neighbour for regard in regards}) == len(regards) else _refuse(Reason.RANGE)


def _incarnation_or_nil(raw: Any) -> int | None:
    return None if raw is None else _incarnation(raw)


_flag = _whole(0, 1)
_trust = _whole(0, UNTOLD)
_code = _whole(min(Refusal), max(Refusal))
_why = _whole(min(Why), max(Why))
_agent, _arm, _count = _whole(0, MAX_AGENT_ID), _whole(0, MAX_ARMS - 1), _whole(0, MAX_COUNT)
_incarnation: _Rule = _whole(0, MAX_INCARNATION)
_trial, _trial_or_none, _next_trial = _whole(1, MAX_TRIAL), _whole(0, MAX_TRIAL), _whole(1, MAX_TRIAL + 1)

_FIELDS: dict[int, tuple[type[EnvironmentMessage], tuple[_Rule, ...]]] = {
    1: (Hello, (_agent, _token, _incarnation_or_nil)),
    2: (Welcome, (read_terms, _bound, _bound, _next_trial, _incarnation, _count, _trial_or_none)),
    3: (Pull, (_agent, _token, _trial, _arm, _trial_or_none)),
    4: (Reward, (_trial, _arm, _whole(0, UNIT))),
    5: (
        Report,
        (
            *(_agent, _token, _trial_or_none, _count, _count, _dropped, _count, lambda raw: bool(_flag(raw)), _count),
            *(_trial_or_none, _blames, _regards),
        ),
    ),
    6: (Noted, (_trial_or_none, _count, _lives, _trial_or_none)),
    7: (Ping, ()),
    8: (Pong, ()),
    9: (Refused, (lambda raw: Refusal(_code(raw)), _text(MAX_TEXT_CHARS))),
    10: (Wait, (_trial, _count)),
    11: (Release, (_agent, _token)),
    12: (Released, (_agent, _next_trial)),
}
"""Type number → class and rules; the numbers are on the wire, so they are only ever appended."""
_TYPE_OF = {cls: number for number, (cls, _) in _FIELDS.items()}


FREQUENT: dict[type[Pull] | type[Reward], tuple[tuple[int, int] | int, ...]] = {
    Pull: ((0, MAX_AGENT_ID), TOKEN_BYTES, (1, MAX_TRIAL), (0, MAX_ARMS - 1), (0, MAX_TRIAL)),
    Reward: ((1, MAX_TRIAL), (0, MAX_ARMS - 1), (0, UNIT)),
}
"""The two messages of every trial: whole numbers in these ranges, and so many bytes."""


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
    if isinstance(message, tuple):
        return list(message)
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
    if type(value) in (bool, Refusal, Why):
        return int(value)
    if type(value) is tuple:
        return [list(map(_plain, row)) for row in value]
    if type(value) is Terms:
        return write_terms(value)
    return value

"""Faults that an operator injects into the links of a testbed: cuts, delay, loss; and who is to lie.

They are injected in the agent's own link, when a frame is heard, so they need no privileges and are the same for
processes on one machine and for containers. Every agent of a testbed reads the same small file,

    {"cuts": ["0-3|4-7"], "delay_ms": {"3": 50.0}, "loss": {"3": 0.1}, "liars": "3"}

and looks for a newer one about once a second. A cut drops every frame between its sides; delay and loss of an agent
befall what it hears and what is heard from it. Liars, where any are named, lie in everything that they tell, as the
testbed's attack says. An agent whose settings name no such file never comes here.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentd.core.message import MAX_AGENT_ID

MAX_FILE_BYTES = 1 << 16
MAX_CUTS = 16
MAX_SIDES = 64
MAX_DELAY_MS = 60_000.0
_MAX_DIGITS = len(str(MAX_AGENT_ID))

Side = frozenset[int]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What befalls the frames between two agents."""

    cut: bool = False
    delay_s: float = 0.0
    loss: float = 0.0

    def __bool__(self) -> bool:
        return self.cut or self.delay_s > 0.0 or self.loss > 0.0


@dataclass(frozen=True, slots=True)
class LinkFaults:
    """Everything that is injected into the links of a testbed now."""

    cuts: tuple[tuple[Side, ...], ...] = ()
    delay_ms: Mapping[int, float] = field(default_factory=dict)
    loss: Mapping[int, float] = field(default_factory=dict)
    liars: Side = frozenset()

    def between(self, one: int, other: int) -> Disturbance:
        """What befalls frames between two agents; where both suffer, the worse of it."""
        return Disturbance(
            cut=any(_side_of(one, sides) != _side_of(other, sides) for sides in self.cuts if _both(one, other, sides)),
            delay_s=max(self.delay_ms.get(one, 0.0), self.delay_ms.get(other, 0.0)) / 1000.0,
            loss=max(self.loss.get(one, 0.0), self.loss.get(other, 0.0)),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "cuts": [sides_text(sides) for sides in self.cuts],
            "delay_ms": {str(agent): ms for agent, ms in sorted(self.delay_ms.items())},
            "loss": {str(agent): rate for agent, rate in sorted(self.loss.items())},
            **({"liars": agents_text(self.liars)} if self.liars else {}),
        }

    @classmethod
    def from_json(cls, data: Any) -> LinkFaults:
        """Read the content of a file; raises ValueError for anything else than what `to_json` gives."""
        match data:
            case {"cuts": list(cuts), "delay_ms": dict(delay), "loss": dict(loss), **rest} if rest.keys() <= {"liars"}:
                if len(cuts) > MAX_CUTS or not all(isinstance(cut, str) for cut in cuts):
                    raise ValueError(f"cuts are at most {MAX_CUTS} texts like '0-3|4-7'")
                return cls(
                    cuts=tuple(parse_sides(cut) for cut in cuts),
                    delay_ms={_agent(a): _within(ms, MAX_DELAY_MS, "a delay in ms") for a, ms in delay.items()},
                    loss={_agent(a): _within(rate, 1.0, "a rate of loss") for a, rate in loss.items()},
                    liars=_liars(rest.get("liars")),
                )
        raise ValueError("expected cuts, delay_ms and loss")


def _liars(told: object) -> Side:
    if told is None:
        return frozenset()
    if not isinstance(told, str):
        raise ValueError("liars are a text like '0-3,7'")
    return parse_agents(told)


def parse_sides(text: str) -> tuple[Side, ...]:
    """`0-3|4-7`: two sides or more that no agent belongs to twice; raises ValueError with what is wrong."""
    sides = tuple(parse_agents(side) for side in text.split("|"))
    if not 2 <= len(sides) <= MAX_SIDES:
        raise ValueError(f"{_short(text)} is not a cut like 0-3|4-7: it has {len(sides)} sides")
    seen: set[int] = set()
    for side in sides:
        if both := seen & side:
            raise ValueError(f"agent {min(both)} is on two sides of {_short(text)}")
        seen |= side
    return sides


def parse_agents(text: str) -> Side:
    """`0-3,7`: agents by their numbers; raises ValueError with what is wrong."""
    return frozenset(agent for item in text.split(",") for agent in _range(item.strip(), text))


def agents_text(agents: Iterable[int]) -> str:
    """The shortest text that `parse_agents` reads as these."""
    runs: list[list[int]] = []
    for agent in sorted(agents):
        if runs and agent == runs[-1][1] + 1:
            runs[-1][1] = agent
        else:
            runs.append([agent, agent])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def sides_text(sides: Iterable[Side]) -> str:
    """The text that `parse_sides` reads as these."""
    return "|".join(agents_text(side) for side in sides)


def read_faults(path: str | os.PathLike[str]) -> LinkFaults:
    """The faults that a file asks for, none where there is no file; raises ValueError where it cannot be trusted.

    Whoever can write into a run directory must not be able to stall an agent: no pipe is waited for, and no more is
    read than a file of this kind ever holds.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return LinkFaults()
    except OSError as fault:
        raise ValueError(fault.strerror) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a file")
        content = os.read(descriptor, MAX_FILE_BYTES + 1)
    except OSError as fault:
        raise ValueError(fault.strerror) from None
    finally:
        os.close(descriptor)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"it is longer than {MAX_FILE_BYTES} bytes")
    try:
        return LinkFaults.from_json(json.loads(content))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _range(item: str, text: str) -> Iterator[int]:
    low, dash, high = item.partition("-")
    if not _is_number(low) or (dash and not _is_number(high)):
        raise ValueError(f"{_short(text)} does not name agents like 0-3,7")
    first, last = int(low), int(high or low)
    if first > last or last > MAX_AGENT_ID:
        raise ValueError(f"{_short(item)} is no range of agents: they are numbered 0…{MAX_AGENT_ID}, low before high")
    yield from range(first, last + 1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _agent(text: str) -> int:
    if not _is_number(text) or int(text) > MAX_AGENT_ID:
        raise ValueError(f"{_short(text)} is not the number of an agent")
    return int(text)


def _within(value: object, most: float, what: str) -> float:
    if type(value) not in (int, float) or not 0.0 <= float(value) <= most:  # type: ignore[arg-type] # NaN fails too
        raise ValueError(f"{what} is a number in 0…{most:g}")
    return float(value)  # type: ignore[arg-type]


def _both(one: int, other: int, sides: Iterable[Side]) -> bool:
    return _side_of(one, sides) is not None and _side_of(other, sides) is not None


def _side_of(agent: int, sides: Iterable[Side]) -> int | None:
    return next((number for number, side in enumerate(sides) if agent in side), None)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "…")

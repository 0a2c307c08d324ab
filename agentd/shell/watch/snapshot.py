"""What was last published of a process, as values that nobody changes: all that threads which serve it ever touch.

The event loop takes a snapshot of its objects about once a second and puts it on the board; whoever serves it takes
the board's word. Handing over one reference needs no lock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Labels = tuple[str, ...]


class Figure(NamedTuple):
    """One figure, as Prometheus knows it: a name, and a value for each set of labels."""

    name: str
    help: str
    samples: tuple[tuple[Labels, float], ...]
    labels: Labels = ()
    kind: Literal["gauge", "counter"] = "gauge"


def gauge(name: str, about: str, value: float) -> Figure:
    """A figure without labels that goes up and down."""
    return Figure(name, about, (((), float(value)),))


def gauges(name: str, about: str, label: str, values: Iterable[tuple[object, float]]) -> Figure:
    """The same for each value of one label."""
    return Figure(name, about, tuple(((str(key),), float(value)) for key, value in values), (label,))


def counter(name: str, about: str, value: float) -> Figure:
    """A figure without labels that only grows."""
    return Figure(name, about, (((), float(value)),), kind="counter")


def counters(name: str, about: str, label: str, values: Mapping[str, int]) -> Figure:
    """The same for each value of one label."""
    return Figure(name, about, tuple(((key,), float(n)) for key, n in sorted(values.items())), (label,), "counter")


class Observed(NamedTuple):
    """What there is to see at one moment."""

    figures: tuple[Figure, ...]
    status: Mapping[str, Any]
    """The same and more, by name; for JSON."""
    unready: str = ""
    """Why it is not ready; empty: it is."""


NOTHING_YET = Observed((), {}, "it has not begun")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was seen, and when."""

    figures: tuple[Figure, ...]
    status: bytes
    """JSON."""
    state: str
    unready: str
    taken_s: float
    """Monotonic."""
    fresh_s: float
    """How long whoever took it means it to hold."""

    def is_fresh(self, now_s: float) -> bool:
        """Whether the loop that takes snapshots still turns."""
        return now_s - self.taken_s <= self.fresh_s


def taken(about: Mapping[str, Any], state: str, observed: Observed, fresh_s: float) -> Snapshot:
    """A snapshot of what was observed just now."""
    said = {**about, "state": state, "ready": not observed.unready, "why": observed.unready, **observed.status}
    status = json.dumps(said, allow_nan=False, ensure_ascii=True).encode() + b"\n"
    info = Figure("info", "Who this is.", ((tuple(map(str, about.values())), 1.0),), tuple(about))
    ready = gauge("ready", "1 if it takes part, and nobody whom it waits for is missing.", not observed.unready)
    return Snapshot((info, ready, *observed.figures), status, state, observed.unready, time.monotonic(), fresh_s)


class Board:
    """Holds the newest snapshot: one writer, any number of readers."""

    __slots__ = ("newest",)

    def __init__(self) -> None:
        self.newest: Snapshot | None = None

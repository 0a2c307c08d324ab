"""Events that tell two inputs apart: chosen on one half of the runs, tested on the other.

A distinguisher is a family of features. On the first half it looks for the event, of the form "this number is at least,
at most or exactly so much", that would prove most. On the second half, which it has not seen, that one event is counted
and tested. What is proved therefore holds whatever the search was; with several distinguishers each gets its share of
the confidence (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentd.audit.bound import epsilon_bound, p_value
from agentd.audit.features import Column

Table = NDArray[np.float64]

_THRESHOLDS = 128
"""Of a feature that are tried at most: quantiles of what occurred."""
_CAUTION = 4.0
"""Standard errors by which events are compared, so that rare ones do not win by luck."""
CONFIDENCE = 0.95
"""Of the ε that is reported beside a verdict."""


@dataclass(frozen=True, slots=True)
class Event:
    """A statement about a transcript that is true or not."""

    column: int
    relation: str
    threshold: float
    likely: int
    """The side on which it is to be more frequent."""

    def holds(self, table: Table) -> NDArray[np.bool_]:
        numbers = table[:, self.column]
        if self.relation == "is":
            return np.asarray(numbers == self.threshold)
        return np.asarray(numbers >= self.threshold if self.relation == "is at least" else numbers <= self.threshold)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one distinguisher proves."""

    family: str
    event: str
    """In words."""
    counts: tuple[int, int]
    """How often it came where the flipped reward was 0, and where it was 1."""
    runs: int
    """Of each side, in the half that was tested."""
    p: float
    """Of the claimed ε, corrected for the number of distinguishers."""
    epsilon: float
    """That is proved at the confidence reported, corrected too."""


def distinguish(columns: list[Column], sides: tuple[Table, Table], claimed: float) -> list[Finding]:
    """What every family of features proves against a claimed ε; the strongest finding first."""
    families = list(dict.fromkeys(column.family for column in columns))
    half = len(sides[0]) // 2
    training, testing = (sides[0][:half], sides[1][:half]), (sides[0][half:], sides[1][half:])
    findings = []
    for family in families:
        members = [place for place, column in enumerate(columns) if column.family == family]
        event = choose(members, training)
        if event is not None:
            findings.append(_test(columns, event, testing, claimed, len(families)))
    return sorted(findings, key=lambda finding: (finding.p, -finding.epsilon))


def choose(members: list[int], sides: tuple[Table, Table]) -> Event | None:
    """The event about one of these columns that seems to prove most; None where nothing ever differs."""
    best, score = None, -math.inf
    for column in members:
        for relation, thresholds, counts in _events(sides[0][:, column], sides[1][:, column]):
            for likely in (0, 1):
                scores = _promise(counts[likely], counts[1 - likely], len(sides[0]))
                place = int(np.argmax(scores))
                if scores[place] > score:
                    best, score = Event(column, relation, float(thresholds[place]), likely), float(scores[place])
    return best


def _events(zero: Table, one: Table) -> Iterator[tuple[str, Table, tuple[Table, Table]]]:
    """Thresholds of every relation, and how often each event came on both sides."""
    pooled = np.concatenate([zero, one])
    pooled = pooled[~np.isnan(pooled)]
    values = np.unique(pooled)
    if not len(values):
        return
    if len(values) > _THRESHOLDS:
        values = np.unique(np.quantile(pooled, np.linspace(0, 1, _THRESHOLDS), method="nearest"))
    ordered = [np.sort(side[~np.isnan(side)]) for side in (zero, one)]
    below = [np.searchsorted(side, values, side="left").astype(np.float64) for side in ordered]
    up_to = [np.searchsorted(side, values, side="right").astype(np.float64) for side in ordered]
    yield "is at least", values, (len(ordered[0]) - below[0], len(ordered[1]) - below[1])
    yield "is at most", values, (up_to[0], up_to[1])
    yield "is", values, (up_to[0] - below[0], up_to[1] - below[1])


def _promise(likely: Table, unlikely: Table, runs: int) -> Table:
    """About the ε that an event would prove, by Wilson's bounds of both frequencies; good enough to choose by."""
    return np.asarray(np.log(_wilson(likely, runs, -_CAUTION) / _wilson(unlikely, runs, _CAUTION)))


def _wilson(counts: Table, runs: int, errors: float) -> Table:
    """So many standard errors above the frequency, or below it."""
    p, slack = counts / runs, errors * errors / runs
    root = np.sqrt(p * (1 - p) / runs + slack / (4 * runs))
    return np.asarray(np.maximum((p + slack / 2 + errors * root) / (1 + slack), 1e-12))


def _test(columns: list[Column], event: Event, sides: tuple[Table, Table], claimed: float, tests: int) -> Finding:
    runs = len(sides[0])
    counts = (int(event.holds(sides[0]).sum()), int(event.holds(sides[1]).sum()))
    likely, unlikely = (counts[event.likely], runs), (counts[1 - event.likely], runs)
    column = columns[event.column]
    return Finding(
        column.family,
        f"{column.words} {event.relation} {event.threshold:.7g}",
        counts,
        runs,
        min(1.0, tests * p_value(likely, unlikely, claimed)),
        epsilon_bound(likely, unlikely, (1 - CONFIDENCE) / tests),
    )
